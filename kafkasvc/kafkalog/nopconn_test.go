package kafkalog

import "net"

// nopConn is a net.Conn whose methods panic, for tests that override those they use.
type nopConn struct{ net.Conn }
