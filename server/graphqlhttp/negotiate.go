package graphqlhttp

import (
	"strconv"
	"strings"
)

// Media types that we answer with.
const (
	typeJSON     = "application/json"
	typeResponse = "application/graphql-response+json"
	typeStream   = "text/event-stream"
)

// acceptable is what a client's Accept header says of our media types.
type acceptable struct {
	json   string  // the better of the two JSON types, empty where neither is acceptable
	jsonQ  float64 // its quality
	stream float64 // quality of an event stream; 0 unless the header names it
}

// negotiate reads the values of the Accept header (RFC 9110, section 12.5.1; GraphQL over HTTP, "Media Types").
// Without one, and where the client does not care, application/json is the answer. An event stream must be
// named: whoever accepts anything at all wants one answer, not a stream of them.
func negotiate(accept []string) acceptable {
	if len(accept) == 0 {
		return acceptable{json: typeJSON, jsonQ: 1}
	}
	var plain, response, stream preference
	place := 0
	for _, header := range accept {
		for item := range strings.SplitSeq(header, ",") {
			media, q, ok := mediaRange(item)
			if !ok {
				continue
			}
			place++
			switch media {
			case "*/*":
				plain.consider(q, 1, place)
				response.consider(q, 1, place)
			case "application/*":
				plain.consider(q, 2, place)
				response.consider(q, 2, place)
			case typeJSON:
				plain.consider(q, 3, place)
			case typeResponse:
				response.consider(q, 3, place)
			case typeStream:
				stream.consider(q, 3, place)
			}
		}
	}
	if place == 0 {
		return acceptable{json: typeJSON, jsonQ: 1}
	}
	a := acceptable{stream: stream.q}
	switch {
	case response.q > 0 && response.before(plain):
		a.json, a.jsonQ = typeResponse, response.q
	case plain.q > 0:
		a.json, a.jsonQ = typeJSON, plain.q
	}
	return a
}

// preference for one media type, by the most specific range that names it.
type preference struct {
	q           float64
	specificity int
	place       int // in the header
}

func (p *preference) consider(q float64, specificity, place int) {
	if specificity > p.specificity {
		*p = preference{q, specificity, place}
	}
}

// before: the higher quality wins, then what is named more exactly, then what is named first.
func (p preference) before(o preference) bool {
	switch {
	case p.q != o.q:
		return p.q > o.q
	case p.specificity != o.specificity:
		return p.specificity > o.specificity
	}
	return p.place < o.place
}

// mediaRange reads one element of an Accept header. ok is false where it is malformed.
func mediaRange(item string) (media string, q float64, ok bool) {
	media, params, _ := strings.Cut(item, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if media == "" {
		return "", 0, false
	}
	q = 1
	for params != "" {
		var param string
		param, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(param, "=")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "q":
			n, err := strconv.ParseFloat(value, 64)
			if err != nil || !(n >= 0 && n <= 1) { // also not a number
				return "", 0, false
			}
			q = n
		case "charset":
			if !strings.EqualFold(value, "utf-8") {
				media = "" // a range that nothing of ours is in
			}
		}
	}
	return media, q, true
}

// accepts reports whether a header like Accept-Encoding allows coding.
func accepts(header []string, coding string) bool {
	best := preference{}
	for _, h := range header {
		for item := range strings.SplitSeq(h, ",") {
			name, q, ok := mediaRange(item)
			switch {
			case !ok:
			case name == coding:
				best.consider(q, 2, 0)
			case name == "*":
				best.consider(q, 1, 0)
			}
		}
	}
	return best.q > 0
}
