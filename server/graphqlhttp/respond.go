package graphqlhttp

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/graph"
)

// gzipFrom is the size from which an answer is worth compressing: below, it fits a network packet anyway.
const gzipFrom = 1400

// lengthFrom is the size from which we tell the length of an answer. Shorter ones stay in net/http's buffer (2 KiB) until we
// are done, and it tells their length itself, without a string.
const lengthFrom = 2 << 10

// headers are the values that most answers have, made once. Nobody may change them.
type headers struct{ json, response, nosniff, noStore, vary []string }

func newHeaders() headers {
	return headers{
		json:     []string{typeJSON + "; charset=utf-8"},
		response: []string{typeResponse + "; charset=utf-8"},
		nosniff:  []string{"nosniff"},
		noStore:  []string{"no-store"},
		vary:     []string{"Accept, Accept-Encoding"},
	}
}

func newZipper() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // only for a level that does not exist
	}
	return z
}

// refuse answers a request that is not GraphQL.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, accept acceptable, err *requestError) {
	if err.allow != "" {
		w.Header().Set("Allow", err.allow)
	}
	code := err.code
	if code == "" {
		code = graph.CodeBadRequest
	}
	resp := &graphql.Response{Errors: gqlerror.List{refusal(code, err.message)}}
	h.answer(w, r, accept, err.status, resp, false)
}

// answer writes resp. executed: it has a data entry, if only null.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, accept acceptable, status int, resp *graphql.Response, executed bool) {
	buf := h.buffers.Get().(*bytes.Buffer)
	defer h.buffers.Put(buf)
	buf.Reset()
	if err := encode(buf, resp, executed); err != nil {
		h.log.ErrorContext(r.Context(), "cannot encode a response", "err", err)
		status = http.StatusInternalServerError
		buf.Reset()
		buf.WriteString(`{"errors":[{"message":"internal error","extensions":{"code":"INTERNAL"}}]}`)
	}

	header := w.Header()
	if accept.json == typeResponse {
		header["Content-Type"] = h.headers.response
	} else {
		header["Content-Type"] = h.headers.json // also a refusal that nobody accepts: it must be readable
	}
	header["X-Content-Type-Options"] = h.headers.nosniff
	header["Cache-Control"] = h.headers.noStore
	if vary := header["Vary"]; vary == nil {
		header["Vary"] = h.headers.vary
	} else {
		header["Vary"] = append(vary, h.headers.vary...)
	}

	if buf.Len() >= gzipFrom && accepts(r.Header["Accept-Encoding"], "gzip") {
		zipped := h.buffers.Get().(*bytes.Buffer)
		defer h.buffers.Put(zipped)
		zipped.Reset()
		z := h.zippers.Get().(*gzip.Writer)
		defer h.zippers.Put(z)
		z.Reset(zipped)
		// Neither fails: a buffer takes everything.
		_, _ = z.Write(buf.Bytes())
		_ = z.Close()
		buf = zipped
		header.Set("Content-Encoding", "gzip")
	}
	if buf.Len() >= lengthFrom {
		header.Set("Content-Length", strconv.Itoa(buf.Len()))
	}
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // who does not read any more needs no answer
}

// encode writes resp as JSON. gqlgen's Data is JSON already and is not looked at again. A request that was
// not executed has no data entry at all (GraphQL specification, "Response Format").
func encode(buf *bytes.Buffer, resp *graphql.Response, executed bool) error {
	sep := byte('{')
	if len(resp.Errors) > 0 {
		errs, err := json.Marshal(resp.Errors)
		if err != nil {
			return err
		}
		buf.WriteString(`{"errors":`)
		buf.Write(errs)
		sep = ','
	}
	if executed || resp.Data != nil {
		buf.WriteByte(sep)
		sep = ','
		buf.WriteString(`"data":`)
		if resp.Data == nil {
			buf.WriteString("null")
		} else {
			buf.Write(resp.Data)
		}
	}
	if len(resp.Extensions) > 0 {
		extensions, err := json.Marshal(resp.Extensions)
		if err != nil {
			return err
		}
		buf.WriteByte(sep)
		buf.WriteString(`"extensions":`)
		buf.Write(extensions)
	}
	if sep == '{' {
		buf.WriteByte('{')
	}
	buf.WriteByte('}')
	return nil
}
