package kafkatest

import "net"

// Outside is the way to brokers that run elsewhere, with the same links and rules. There is no kfake.Cluster then, so
// only links, Addrs and Requests are of use.
func Outside(addrs ...string) *Cluster {
	var d net.Dialer
	c := &Cluster{dial: d.DialContext, addrs: addrs}
	c.Link = c.NewLink()
	return c
}
