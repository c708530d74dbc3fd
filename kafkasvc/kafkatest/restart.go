package kafkatest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Stop closes all brokers, as an orderly shutdown of the whole cluster does. Links stay: they refuse until Restart.
func (c *Cluster) Stop() { c.Cluster.Close() }

// Restart starts the brokers again on the same addresses, after Stop. What was stored is there again if the cluster
// was started with kfake.DataDir; faults and controls are gone. Nobody may use the kfake.Cluster meanwhile.
func (c *Cluster) Restart(tb testing.TB) {
	tb.Helper()
	k, err := kfake.NewCluster(c.opts...)
	if err != nil {
		tb.Fatalf("restart the test cluster: %v", err)
	}
	tb.Cleanup(k.Close)
	c.Cluster = k
}
