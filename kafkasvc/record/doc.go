// Package record is the wire format of the messages topic: how a record of the log is written, read and judged.
//
// logpb holds the schema and its generated code, for independent readers and for the directory topic, whose
// records are few. This package encodes and decodes LogRecord by hand, because a loading instance reads a million of
// them a second; fuzz tests hold it to what the generated code does.
//
// View.Counts is the one rule of the log (compare-and-append, docs/ARCHITECTURE.md).
package record
