package hostile

import (
	"flag"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chathome/chathome/internal/racetest"
)

var (
	full  = flag.Bool("full", false, "all of it, one attack after the other")
	only  = flag.String("only", "", "attacks whose name has this in it")
	leaks = flag.Bool("leaks", false, "build with Go's goroutine leak profile and look at it")
	at    = flag.String("at", "", "only attack, at full size, what listens on this address: how -full runs each attack")
)

const (
	// perConnection is what the server may hold for one that does not read, or does not say what it wants
	// (docs/HTTP.md), beside what belongs to rooms: events that are shared.
	perConnection = 64 << 10
	shared        = 96 << 20 // rings of the fan-out (64 MiB at most), and what was not collected yet
)

// TestHostile: whatever strangers do, clients that behave are served, nothing is held longer than it may be, and
// everything comes back. With -full one attack after the other, at full size; else all at once, small.
func TestHostile(t *testing.T) {
	if *at != "" {
		attackers(t)
		return
	}
	v := launch(t, options{race: racetest.Enabled, leaks: *leaks})
	h := behave(t, v.address)
	ended := false
	defer func() {
		if !ended {
			h.end()
		}
	}()
	measure := 3 * time.Second
	if *full {
		measure = 10 * time.Second
	}
	time.Sleep(2 * time.Second) // to warm up
	h.noticed()
	time.Sleep(measure)
	before := h.noticed()
	base := v.look(true)
	t.Logf("before: %s", before)
	t.Logf("before: %s", base)

	judge := func(name string, n int, peak held, during noticed) {
		ratio := float64(during.worst()) / float64(max(before.worst(), time.Microsecond))
		t.Logf("%s (%d): %s: %.1f × before", name, n, during, ratio)
		t.Logf("%s (%d): at most %s", name, n, peak)
		// The machine runs the attackers too, and others: the figure is above, this only catches what is stuck.
		if during.worst() > max(20*before.worst(), 3*time.Second) {
			t.Errorf("%s: clients that behave waited %s", name, during.worst())
		}
		if grown := int64(peak.memory()) - int64(base.memory()); !racetest.Enabled && grown > int64(n)*perConnection+shared {
			t.Errorf("%s: %d bytes for %d connections", name, grown, n)
		}
	}
	a := newAPI(v.address)
	defer a.http.CloseIdleConnections()
	if *full {
		decoy := launch(t, options{race: racetest.Enabled, leaks: *leaks})
		for _, x := range attacks() {
			if !strings.Contains(x.name, *only) {
				continue
			}
			h.noticed()
			strangers(t, x, decoy.address)
			beside := h.noticed()
			t.Logf("%s (%d): on another server of this machine: %s: %.1f × before", x.name, x.full, beside, float64(beside.worst())/float64(before.worst()))
			stop, began := v.watch(), v.processor()
			cost := strangers(t, x, v.address)
			judge(x.name, x.full, stop(), h.noticed())
			t.Logf("%s: %s of processor time by the attackers, %s by the server, who serves the others too", x.name, cost, v.processor()-began)
		}
	} else {
		stop := v.watch()
		var all sync.WaitGroup
		n := 0
		for _, x := range attacks() {
			n += x.n
			all.Go(func() {
				began := time.Now()
				x.do(t, a, x.n)
				t.Logf("%s (%d): %s", x.name, x.n, time.Since(began).Round(100*time.Millisecond))
			})
		}
		all.Wait()
		judge("all at once", n, stop(), h.noticed())
	}

	a.http.CloseIdleConnections()
	time.Sleep(time.Second)
	h.noticed()
	time.Sleep(measure)
	after := h.noticed()
	t.Logf("after: %s", after)
	var now held
	// The writer and the broker have goroutines that come and go.
	eventually(t, "everything comes back", 30*time.Second, func() bool {
		now = v.look(true)
		return now.Goroutines <= base.Goroutines+4 && now.files <= base.files+4
	})
	t.Logf("after: %s", now)
	if *leaks {
		profile := v.leaks()
		t.Logf("goroutines that can never go on: %.2000s", profile)
		if !strings.HasPrefix(profile, "goroutineleak profile: total 0") {
			t.Error("there are some, or there is no such profile")
		}
	}
	h.end()
	ended = true
}
