// Package check judges a run of chathome from outside: what clients were answered, what subscribers saw, what
// readers read, and what an independent reader found in the log. It knows the rule of the log (a record counts if
// it landed at the offset that it names) and nothing else of the product.
//
// All work is linear in the history, after sorting by time. history.go is what is collected, fold.go what the log
// says, check.go the verdict, property by property.
package check

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// Time is a moment of the run, on one clock for all who take part.
type Time = time.Duration

// Message is a message as somebody saw it.
type Message struct {
	Room     uuid.UUID `json:"room"`
	Serial   int64     `json:"serial"`
	User     string    `json:"user"`
	ClientID string    `json:"clientId"`
	Text     string    `json:"text"`
	SentAt   int64     `json:"sentAt"` // milliseconds since 1970
}

// Outcome is what a client was answered.
type Outcome string

// The outcomes of an attempt to send.
const (
	Stored   Outcome = "stored"
	Mutation Outcome = "mutation"  // Message is the existing one
	NotOwned Outcome = "not owned" // or Overloaded: nothing of the attempt is in the log
	Refused  Outcome = "refused"   // overloaded, invalid: nothing of the attempt is in the log
	Unknown  Outcome = "unknown"   // also: no answer at all
)

// Send is one attempt to send a message.
type Send struct {
	Client            string
	Instance          string
	Invoked, Returned Time
	Room              uuid.UUID
	User, ClientID    string
	Text              string
	Outcome           Outcome
	Duplicate         bool    // with Stored: the answer said that it was stored before
	Message           Message // with Stored and Mutation
}

// Read is one look at a room's end.
type Read struct {
	Client            string
	Instance          string
	Invoked, Returned Time
	Room              uuid.UUID
	Newest            int64 // serial of the newest message, 0 for none
}

// Stream is what one subscriber got, over all its resumes.
type Stream struct {
	Name     string
	Room     uuid.UUID
	After    int64 // serial of the position it began behind
	Messages []Message
	Complete bool // it was to reach the end of the room
}

// Record is one record of the log as an independent reader found it.
type Record struct {
	Shard  int32
	Offset int64
	Value  []byte
}

// History collects a run. Its methods may be called from any goroutine.
type History struct {
	mu      sync.Mutex
	Sends   []Send
	Reads   []Read
	Streams []*Stream
	Log     []Record
}

// Sent notes an attempt.
func (h *History) Sent(s Send) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Sends = append(h.Sends, s)
}

// Looked notes a read.
func (h *History) Looked(r Read) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Reads = append(h.Reads, r)
}

// Follow begins a subscriber's stream.
func (h *History) Follow(name string, room uuid.UUID, after int64) *Stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &Stream{Name: name, Room: room, After: after}
	h.Streams = append(h.Streams, s)
	return s
}

// Got notes what a subscriber received. One goroutine at a time.
func (s *Stream) Got(ms ...Message) { s.Messages = append(s.Messages, ms...) }
