package peers

import (
	"net/http"
	"net/netip"
	"testing"
)

func TestProxies_ClientIsTheNearestStranger(t *testing.T) {
	for _, tc := range []struct {
		name, remote string
		forwarded    []string
		want         string
	}{
		{"no proxy", "203.0.113.9:1", nil, "203.0.113.9"},
		{"a stranger's header is not believed", "203.0.113.9:1", []string{"10.0.0.1"}, "203.0.113.9"},
		{"one proxy", "10.1.1.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"a client's own header before it", "10.1.1.1:1", []string{"1.2.3.4, 203.0.113.9"}, "203.0.113.9"},
		{"two proxies, two lines", "10.1.1.1:1", []string{"1.2.3.4", "203.0.113.9, 10.2.2.2"}, "203.0.113.9"},
		{"rubbish", "10.1.1.1:1", []string{"203.0.113.9, x"}, "10.1.1.1"},
		{"nothing", "10.1.1.1:1", nil, "10.1.1.1"},
		{"only proxies", "10.1.1.1:1", []string{"10.2.2.2"}, "10.2.2.2"},
		{"with a port and in brackets", "[::1]:1", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"IPv4 in IPv6", "[::ffff:10.1.1.1]:1", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"no address at all", "pipe", []string{"203.0.113.9"}, "invalid IP"},
	} {
		p, err := ParseProxies([]string{"10.0.0.0/8", "::1"})
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{RemoteAddr: tc.remote, Header: http.Header{"X-Forwarded-For": tc.forwarded}}
		if got := p.Client(r).String(); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if _, err := ParseProxies([]string{"proxy.example"}); err == nil {
		t.Error("a name is taken for an address")
	}
}

func TestLimiter_BoundsHold(t *testing.T) {
	l := NewLimiter(3, 2)
	a, b := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	c := netip.MustParseAddr("203.0.113.9")
	take := func(addr netip.Addr, want bool) func() {
		t.Helper()
		release, ok := l.Acquire(addr)
		if ok != want {
			t.Fatalf("%s: %v, want %v", addr, ok, want)
		}
		return release
	}
	first := take(a, true)
	take(b, true)
	take(a, false) // the same /64
	take(c, true)
	take(netip.Addr{}, false) // three altogether
	first()
	first()
	take(c, true)
	nowhere := NewLimiter(3, 1)
	for range 3 {
		if _, ok := nowhere.Acquire(netip.Addr{}); !ok {
			t.Error("without an address only the total counts")
		}
	}
	if l.Held() != 3 {
		t.Errorf("%d held", l.Held())
	}
	many := NewLimiter(10, 4)
	release, ok := many.AcquireN(c, 3)
	if !ok {
		t.Error("three of four were refused")
	}
	if _, ok := many.AcquireN(c, 2); ok || many.Held() != 3 {
		t.Errorf("five of four: %v, %d held", ok, many.Held())
	}
	release()
	release()
	if many.Held() != 0 {
		t.Errorf("%d held after all were given back", many.Held())
	}
}
