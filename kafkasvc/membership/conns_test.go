package membership

import (
	"testing"
	"time"
)

func TestConns_NoConnectionAfterTheCut(t *testing.T) {
	inTime(t, 1, func(t *testing.T, g *group) {
		link := g.cluster.NewLink()
		c := newConns(link.Dial, g.times)
		first, err := c.dial(t.Context(), "tcp", g.cluster.Addrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		// No deadline at all is none of ours: a read ends by itself.
		if err := first.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := first.Read(make([]byte, 1)); err == nil || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		second, err := c.dial(t.Context(), "tcp", g.cluster.Addrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct{ asked, want time.Duration }{
			{time.Second, time.Second},
			{g.times.RPC + g.times.Rebalance, g.times.RPC + 3*g.times.Rebalance},
			{time.Hour, time.Hour},
		} {
			began := time.Now()
			if err := second.SetReadDeadline(began.Add(tt.asked)); err != nil {
				t.Fatal(err)
			}
			if _, err := second.Read(make([]byte, 1)); err == nil || time.Since(began) != tt.want {
				t.Errorf("%v: after %v: %v", tt.asked, time.Since(began), err)
			}
		}
		link.Silence()
		hanging := make(chan error)
		go func() {
			_, err := c.dial(t.Context(), "tcp", g.cluster.Addrs()[0])
			hanging <- err
		}()
		time.Sleep(time.Second)
		c.cut()
		c.cut()
		if err := <-hanging; err == nil {
			t.Error("a dial went on after the cut")
		}
		link.Heal()
		if _, err := c.dial(t.Context(), "tcp", g.cluster.Addrs()[0]); err == nil {
			t.Error("a dial after the cut")
		}
		if n := link.Conns(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	})
}
