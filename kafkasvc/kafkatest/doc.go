// Package kafkatest gives tests a Kafka cluster in the process, and switches to break the way to it.
//
// Start runs it over an in-memory network, so that a test inside a testing/synctest bubble lives in fake time;
// StartTCP runs it on loopback. Everything that a test wants to go wrong between a client and the cluster is a
// Rule on a Link: an answer that is lost after the append, a request that lands late or twice, a wire that falls
// silent. What the cluster itself does wrong is set on the kfake.Cluster underneath (Fault, ControlKey,
// MoveTopicPartition, DeleteRecords …).
//
// The cluster is franz-go's kfake: it keeps no replicas, so a test against it proves less than one against a
// real broker.
package kafkatest
