// Package metrics shows an instance to Prometheus: what a home counts (kafkasvc.Stats) and what happens to those who
// follow rooms. No metric names a room or a user, and labels have few values.
//
// home.go and followers.go say which metrics there are; docs/OPERATIONS.md lists them, and a test compares.
package metrics
