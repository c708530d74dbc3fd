package graphqlhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
)

// requestError is a request that is refused before anything of it is looked at as GraphQL. Its text holds
// nothing that the client sent.
type requestError struct {
	status  int
	message string
	allow   string // methods, for 405
	code    string // in extensions; empty: BAD_REQUEST
}

func (e *requestError) Error() string { return e.message }

func badBody(format string, args ...any) *requestError {
	return &requestError{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

func (h *Handler) readRequest(w http.ResponseWriter, r *http.Request) (*graphql.RawParams, *requestError) {
	p := &graphql.RawParams{Headers: r.Header, ReadTime: graphql.TraceTiming{Start: graphql.Now()}}
	var err *requestError
	if r.Method == http.MethodPost {
		err = h.readBody(w, r, p)
	} else {
		err = h.readURL(r, p)
	}
	if err != nil {
		return nil, err
	}
	if p.Query == "" && p.Extensions["persistedQuery"] == nil {
		return nil, badBody("the request has no query: send it as a string in the field query")
	}
	p.ReadTime.End = graphql.Now()
	return p, nil
}

func (h *Handler) readBody(w http.ResponseWriter, r *http.Request, p *graphql.RawParams) *requestError {
	if err := checkContentType(r.Header); err != nil {
		return err
	}
	if r.ContentLength > h.maxBody {
		discard(w, r)
		return h.tooLarge()
	}
	buf := h.buffers.Get().(*bytes.Buffer)
	defer h.buffers.Put(buf)
	buf.Reset()
	// What is decoded is copied: the buffer may be used again.
	if _, err := buf.ReadFrom(http.MaxBytesReader(nil, r.Body, h.maxBody)); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			discard(w, r)
			return h.tooLarge()
		}
		return badBody("the body could not be read to its end")
	}
	body := bytes.TrimLeft(buf.Bytes(), blanks)
	switch {
	case len(body) == 0:
		return badBody("the body is empty: send a JSON object with the field query")
	case body[0] == '[':
		return badBody("batches are not served: send each operation in a request of its own")
	}
	in, bad := open(body)
	if bad != nil {
		return bad
	}
	return finish(&in, readParams(&in, p), "the body")
}

// maxDiscarded bytes of a body that is too large are read and thrown away.
const maxDiscarded = 1 << 20

// discard lets a client that sends its whole body before it reads get to our answer: a connection that is closed
// with bytes unread is reset, and the answer with it (RFC 9112, 9.6). Of a body beyond maxDiscarded nothing more is
// read, and nothing of one that is not sent before we ask for it (RFC 9110, 10.1.1); then the connection ends.
func discard(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength <= maxDiscarded && r.Header.Get("Expect") == "" {
		if _, err := io.CopyN(io.Discard, r.Body, maxDiscarded); errors.Is(err, io.EOF) {
			return
		}
	}
	w.Header().Set("Connection", "close")
}

func (h *Handler) tooLarge() *requestError {
	return &requestError{
		status:  http.StatusRequestEntityTooLarge,
		message: fmt.Sprintf("the body is larger than %d bytes", h.maxBody),
	}
}

// checkContentType is also the guard against cross-site requests: a page of another site can send forms and
// plain text without asking, but these types only after a CORS preflight.
func checkContentType(header http.Header) *requestError {
	const hint = "send the request with Content-Type: application/json"
	unsupported := func(message string) *requestError {
		return &requestError{status: http.StatusUnsupportedMediaType, message: message}
	}
	if coding := header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return unsupported("compressed bodies are not served")
	}
	switch content := header.Values("Content-Type"); {
	case len(content) == 1 && content[0] == typeJSON: // nearly always
		return nil
	case len(content) != 1:
		return unsupported(hint)
	default:
		media, params, err := mime.ParseMediaType(content[0])
		if err != nil || media != typeJSON && media != typeResponse {
			return unsupported(hint)
		}
		if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
			return unsupported("only the charset utf-8 is served")
		}
		return nil
	}
}

// readURL reads a GET request. Parameters that a server of ours does not know are left alone, as proxies and
// trackers like to add some.
func (h *Handler) readURL(r *http.Request, p *graphql.RawParams) *requestError {
	if int64(len(r.URL.RawQuery)) > h.maxBody {
		return &requestError{
			status:  http.StatusRequestURITooLong,
			message: fmt.Sprintf("the URL is longer than %d bytes: use POST", h.maxBody),
		}
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badBody("the URL's query string is not valid")
	}
	for _, name := range []string{"query", "operationName", "variables", "extensions"} {
		v := values[name]
		switch {
		case len(v) == 0:
			continue
		case len(v) > 1:
			return badBody("the URL has the parameter %s twice", name)
		case !utf8.ValidString(v[0]):
			return badBody("the parameter %s is not valid UTF-8", name)
		}
		switch name {
		case "query":
			p.Query = v[0]
		case "operationName":
			p.OperationName = v[0]
		case "variables":
			if err := readParameter(v[0], name, &p.Variables); err != nil {
				return err
			}
		case "extensions":
			if err := readParameter(v[0], name, &p.Extensions); err != nil {
				return err
			}
		}
	}
	return nil
}
