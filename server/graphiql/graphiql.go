// Package graphiql serves GraphiQL, a page to try the API with, out of the binary: nothing is loaded from
// elsewhere, and it works without a network.
//
// web/ builds the page with npm into dist/, which is committed: go build needs no npm. build.sh must leave no
// diff. dist/ holds 2.3 MB, compressed as it is sent (7.4 MB unpacked).
package graphiql

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed dist/*.gz
var dist embed.FS

// policy is what the page may do: talk to this server, and nothing else. The editor writes style elements;
// scripts come from files alone.
const policy = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"font-src 'self' data:; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// New returns the handler for / and /graphiql/.
func New() (http.Handler, error) {
	names, err := fs.Glob(dist, "dist/*.gz")
	if err != nil {
		return nil, fmt.Errorf("list the files of GraphiQL: %w", err)
	}
	p := page{}
	for _, name := range names {
		zipped, err := dist.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		name = strings.TrimSuffix(path.Base(name), ".gz")
		sum := sha256.Sum256(zipped)
		f := file{
			zipped: zipped,
			kind:   kinds[path.Ext(name)],
			tag:    base64.RawURLEncoding.EncodeToString(sum[:12]),
		}
		if name == "index.html" {
			p["/"] = f
		} else {
			p["/graphiql/"+name] = f
		}
	}
	if _, ok := p["/"]; !ok {
		return nil, fmt.Errorf("GraphiQL has no index.html")
	}
	return p, nil
}

var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".ttf":  "font/ttf",
	".txt":  "text/plain; charset=utf-8",
}

type file struct {
	zipped []byte
	kind   string
	tag    string
}

// page holds files by the path of their URL.
type page map[string]file

func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := p[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only to be read", http.StatusMethodNotAllowed)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // asks each time, and mostly hears 304
	h.Set("Vary", "Accept-Encoding")
	zip := acceptsGzip(r.Header.Get("Accept-Encoding"))
	tag := `"` + f.tag + `"`
	if !zip {
		tag = `"` + f.tag + `-plain"`
	}
	h.Set("ETag", tag)
	if strings.Contains(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	if zip {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(f.zipped)))
		_, _ = w.Write(f.zipped) // who does not read any more needs no answer
		return
	}
	z, err := gzip.NewReader(bytes.NewReader(f.zipped))
	if err != nil {
		panic(err) // our own bytes: TestPage_IsWhole reads them all
	}
	_, _ = io.Copy(w, z)
}

// acceptsGzip is for browsers, which say it plainly.
func acceptsGzip(header string) bool {
	for item := range strings.SplitSeq(header, ",") {
		coding, q, _ := strings.Cut(strings.TrimSpace(item), ";")
		if strings.EqualFold(coding, "gzip") {
			q = strings.ReplaceAll(q, " ", "")
			return !strings.HasPrefix(q, "q=0") || strings.Trim(q[len("q=0"):], ".0") != ""
		}
	}
	return false
}
