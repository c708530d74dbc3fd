// Package kafka runs real Apache Kafka brokers on loopback for tests, and for a person to play with (make kafka).
//
// A Cluster is made of Nodes, each a JVM that is broker and controller in one (KRaft). What they are made of comes
// from Maven by pom.xml, into the user's cache directory, once for each version. Each JVM has a watchdog beside it,
// so that none outlives this process, however that ends.
//
// The suites stand in this folder too, behind the build tag kafka: `make test-kafka` runs them.
package kafka
