package httpserver

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Origins says which web pages may use the API: those of the server itself, and those in a list. It is one
// rule for POST, GET, preflights, event streams and sockets alike. Programs that are no browsers send no
// Origin and are not asked.
type Origins struct {
	// Allowed are origins as browsers write them: lower case, scheme://host[:port].
	Allowed []string
	// Advertised is the server's own URL as clients see it.
	Advertised string
	// Local: the server listens on loopback only. Then a Host that is not a name of this machine is refused
	// as "own": it may be a foreign name that was pointed here (DNS rebinding).
	Local bool
}

const (
	allowedMethods = "GET, POST, OPTIONS"
	allowedHeaders = "Accept, Authorization, Content-Type, Last-Event-ID, X-Request-Id"
	preflightAge   = "600" // seconds
)

func (o Origins) check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origins := r.Header.Values("Origin")
		w.Header().Add("Vary", "Origin")
		switch {
		case len(origins) == 0 && r.Header.Get("Sec-Fetch-Site") == "cross-site":
			// A browser leaves Origin out of simple cross-site GETs: links, images, scripts.
			refuseOrigin(w)
			return
		case len(origins) > 1, len(origins) == 1 && !o.allows(origins[0], r.Host):
			refuseOrigin(w)
			return
		case len(origins) == 1:
			w.Header().Set("Access-Control-Allow-Origin", origins[0])
		}
		if r.Method == http.MethodOptions {
			w.Header().Set("Allow", allowedMethods)
			w.Header().Set("Access-Control-Allow-Methods", allowedMethods)
			w.Header().Set("Access-Control-Allow-Headers", allowedHeaders)
			w.Header().Set("Access-Control-Max-Age", preflightAge)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuseOrigin(w http.ResponseWriter) {
	forbid(w, "this web origin may not use the API; the server's --allowed-origins has to list it")
}

// allows compares exactly: a prefix or suffix of an allowed origin is another site.
func (o Origins) allows(origin, host string) bool {
	origin = strings.ToLower(origin)
	if slices.Contains(o.Allowed, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return false // "null" among them
	}
	if originOf(o.Advertised) == origin {
		return true
	}
	// A proxy may end TLS, so the scheme is not compared.
	return strings.EqualFold(u.Host, host) && (!o.Local || isLocalName(u.Hostname()))
}

func originOf(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// isLocalName: names that nobody else can give to this machine.
func isLocalName(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsValid() // DNS cannot point a literal address elsewhere
}
