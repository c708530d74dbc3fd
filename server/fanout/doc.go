// Package fanout sends one event to many subscribers, executed and encoded once.
package fanout
