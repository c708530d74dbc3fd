package kafkalog

// AppendBatch is for tests that bend batches.
var AppendBatch = appendBatch
