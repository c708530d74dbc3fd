package kafkatest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Cluster is a running cluster with one link that everybody uses who asks for no other.
type Cluster struct {
	*kfake.Cluster
	*Link

	opts  []kfake.Opt
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	addrs []string
	count counter
}

// Start runs a cluster of one broker (kfake.Ports(9092, 9093, 9094) asks for three) over an in-memory network, and closes it
// when the test ends. Group sessions may be as short as a second; topics are never created by themselves.
func Start(tb testing.TB, opts ...kfake.Opt) *Cluster {
	tb.Helper()
	vn := new(kfake.VirtualNetwork)
	return start(tb, vn.DialContext, append([]kfake.Opt{
		kfake.Ports(9092), // a virtual network has no free ports to draw from
		kfake.ListenFn(vn.Listen),
	}, opts...))
}

// StartTCP runs a cluster of one broker (kfake.NumBrokers asks for more) on loopback.
func StartTCP(tb testing.TB, opts ...kfake.Opt) *Cluster {
	tb.Helper()
	var d net.Dialer
	return start(tb, d.DialContext, append([]kfake.Opt{kfake.NumBrokers(1)}, opts...))
}

func start(tb testing.TB, dial func(context.Context, string, string) (net.Conn, error), opts []kfake.Opt) *Cluster {
	tb.Helper()
	opts = append([]kfake.Opt{
		kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000"}),
	}, opts...)
	k, err := kfake.NewCluster(opts...)
	if err != nil {
		tb.Fatalf("start the test cluster: %v", err)
	}
	tb.Cleanup(k.Close)
	c := &Cluster{Cluster: k, opts: opts, dial: dial, addrs: k.ListenAddrs()}
	c.Link = c.NewLink()
	return c
}

// Addrs are the brokers' addresses, for the links' Dial.
func (c *Cluster) Addrs() []string { return c.addrs }

// Requests says how many requests with this key (kmsg.Produce.Int16() …) reached the cluster over any link for
// this topic. Topics are known for Produce and Fetch only; an empty topic counts all of the key.
func (c *Cluster) Requests(key int16, topic string) int { return c.count.of(key, topic) }
