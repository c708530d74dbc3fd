// Package peers says from which address a request comes, also behind proxies, and bounds what one address
// may hold open.
package peers

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the addresses whose word on the client's address is believed (--trusted-proxies). Nobody by
// default: a header that everybody can write must not get around a limit.
type Proxies []netip.Prefix

// ParseProxies takes addresses and prefixes, such as 10.0.0.0/8 or ::1.
func ParseProxies(list []string) (Proxies, error) {
	var p Proxies
	for _, s := range list {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			addr, err2 := netip.ParseAddr(s)
			if err2 != nil {
				return nil, fmt.Errorf("%q is neither an address nor a prefix", s)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		p = append(p, prefix.Masked())
	}
	return p, nil
}

// Trusted says whether a is one of them.
func (p Proxies) Trusted(a netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// Client is the address that r comes from: the nearest one that is not a trusted proxy's, by the connection
// and X-Forwarded-For. Invalid only where the server listens on something without addresses.
func (p Proxies) Client(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := at.Addr().Unmap()
	if !p.Trusted(client) {
		return client
	}
	// Each proxy appended the one that it talked to: the list is to be believed from its end up to the first
	// stranger.
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, ok := parseHop(hops[i])
		if !ok {
			return client
		}
		client = hop
		if !p.Trusted(client) {
			return client
		}
	}
	return client
}

// parseHop takes an address, perhaps with a port or in brackets.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if at, err := netip.ParseAddrPort(s); err == nil {
		return at.Addr().Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return a.Unmap().WithZone(""), err == nil
}
