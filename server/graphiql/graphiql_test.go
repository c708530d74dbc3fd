package graphiql

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, path string, headers ...string) *http.Response {
	t.Helper()
	h, err := New()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPage_LoadsNothingFromElsewhere(t *testing.T) {
	r := get(t, "/")
	html := body(t, r)
	if r.StatusCode != 200 || !strings.Contains(html, "<title>chathome") {
		t.Fatalf("%d %s", r.StatusCode, html)
	}
	if strings.Contains(html, "//") {
		t.Error("the page names another host")
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(html, -1) {
		if strings.HasPrefix(m[1], "data:") {
			continue
		}
		if r := get(t, "/"+m[1]); r.StatusCode != 200 {
			t.Errorf("%s: %d", m[1], r.StatusCode)
		}
	}
	if strings.Contains(policy, "http") || strings.Contains(policy, "*") || strings.Contains(policy, "unsafe-eval") {
		t.Error("the policy lets others in")
	}
	if got := r.Header.Get("Content-Security-Policy"); got != policy {
		t.Errorf("policy %q", got)
	}
}

func TestPage_IsWhole(t *testing.T) {
	h, err := New()
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for path, f := range h.(page) {
		r := get(t, path) // unpacked on the way
		if b := body(t, r); r.StatusCode != 200 || b == "" {
			t.Errorf("%s: %d, %d bytes", path, r.StatusCode, len(b))
		}
		if f.kind == "" {
			t.Errorf("%s has no media type", path)
		}
		size += len(f.zipped)
	}
	if size < 1<<20 || size > 3<<20 {
		t.Errorf("%d bytes: say so in the package's comment", size)
	}
	for _, name := range []string{"main.js", "main.css", "editor.worker.js", "json.worker.js", "graphql.worker.js", "codicon.ttf", "LICENSES.txt"} {
		if _, ok := h.(page)["/graphiql/"+name]; !ok {
			t.Errorf("no %s", name)
		}
	}
}

func TestPage_ComesCompressedAndIsKept(t *testing.T) {
	for accept, want := range map[string]string{"gzip, deflate, br": "gzip", "gzip;q=0.5": "gzip", "gzip;q=0": "", "gzip; q=0.0": "", "br": "", "": ""} {
		r := get(t, "/graphiql/main.js", "Accept-Encoding", accept)
		if got := r.Header.Get("Content-Encoding"); got != want {
			t.Errorf("%q: %q", accept, got)
		}
		again := get(t, "/graphiql/main.js", "Accept-Encoding", accept, "If-None-Match", r.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%q: %d", accept, again.StatusCode)
		}
	}
}

func TestPage_HasNothingElse(t *testing.T) {
	for _, path := range []string{"/graphiql/", "/graphiql/index.html", "/graphiql/../graphiql.go", "/x", "//", "/graphiql/main.js.gz"} {
		if r := get(t, path); r.StatusCode != 404 {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}
