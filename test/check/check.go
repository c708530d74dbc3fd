package check

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Property is one promise.
type Property string

// The properties, as the verdict lists them.
const (
	Lost           Property = "lost"             // answered as stored, and not in the log, or another one there
	Doubled        Property = "doubled"          // two counting records for one (room, user, client id), or one room
	Phantom        Property = "phantom"          // in the log, and nobody sent it
	FalseNo        Property = "false no"         // in the log, and every attempt was told that it is not
	FalseMutation  Property = "false mutation"   // told of a mutation that is none
	Divergence     Property = "divergence"       // somebody saw another message at a serial than the log has
	Order          Property = "order"            // a subscriber or the log steps back
	RealTimeOrder  Property = "real-time order"  // acknowledged before the other was sent, and behind it
	ReadYourWrites Property = "read your writes" // a client does not see what it was told is stored
	StaleRead      Property = "stale read"       // a read does not see what somebody was told is stored
	StreamGap      Property = "gap or repeat"    // a subscriber missed or got twice
	SerialGap      Property = "serial gap"       // serials of a room are not 1, 2, 3 …
	Incomplete     Property = "incomplete"       // a subscriber did not get to the end
)

// Properties are all, in the order of the verdict.
var Properties = []Property{
	Lost, Doubled, Phantom, FalseNo, FalseMutation, Divergence, Order, RealTimeOrder, ReadYourWrites, StaleRead, StreamGap, SerialGap, Incomplete,
}

// Violation is one broken promise, with a text for people.
type Violation struct {
	Property Property
	Room     uuid.UUID
	Text     string
}

// Verdict is what Check found.
type Verdict struct {
	Violations []Violation // the first ones of each property
	Broken     map[Property]int
	Sends      map[Outcome]int
	Messages   int // that count in the log
	Rooms      int
	Streams    int
	Deliveries int
	Reads      int
	Facts      Facts
}

// maxExplained bounds what is explained of one property.
const maxExplained = 5

// Clean says that no promise was broken.
func (v *Verdict) Clean() bool { return len(v.Broken) == 0 }

func (v *Verdict) broken(p Property, room uuid.UUID, format string, args ...any) {
	v.Broken[p]++
	if v.Broken[p] <= maxExplained {
		v.Violations = append(v.Violations, Violation{p, room, fmt.Sprintf(format, args...)})
	}
}

// WriteTo prints the verdict, property by property.
func (v *Verdict) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d messages in %d rooms\nsends: %d stored, %d mutations, %d not owned, %d refused, %d unknown\n%d deliveries to %d subscribers; %d reads; log: %d takeovers, %d void, %d foreign\n",
		v.Messages, v.Rooms, v.Sends[Stored], v.Sends[Mutation], v.Sends[NotOwned], v.Sends[Refused], v.Sends[Unknown],
		v.Deliveries, v.Streams, v.Reads, v.Facts.Takeovers, v.Facts.Void, v.Facts.Foreign)
	for _, p := range Properties {
		if n := v.Broken[p]; n > 0 {
			fmt.Fprintf(&b, "  %-17s BROKEN %d times\n", p, n)
		} else {
			fmt.Fprintf(&b, "  %-17s ok\n", p)
		}
	}
	for _, x := range v.Violations {
		fmt.Fprintf(&b, "%s: room %s: %s\n", x.Property, x.Room, x.Text)
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

type messageID struct {
	room           uuid.UUID
	user, clientID string
}

// Check judges the history. It may reorder h's lists.
func Check(h *History) *Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := &Verdict{Broken: map[Property]int{}, Sends: map[Outcome]int{}, Facts: Fold(h.Log), Streams: len(h.Streams), Reads: len(h.Reads)}
	v.Rooms = len(v.Facts.Rooms)
	v.log()
	byID := map[messageID]*Message{}
	for _, ms := range v.Facts.Rooms {
		for i := range ms {
			m := &ms[i]
			id := messageID{m.Room, m.User, m.ClientID}
			if other, ok := byID[id]; ok {
				v.broken(Doubled, m.Room, "%s/%s counts with serials %d and %d", m.User, m.ClientID, other.Serial, m.Serial)
				continue
			}
			byID[id] = m
		}
	}
	v.sends(h.Sends, byID)
	v.times(h)
	for _, s := range h.Streams {
		v.stream(s)
	}
	return v
}

// log: what the log alone must keep.
func (v *Verdict) log() {
	for _, id := range v.Facts.Doubled {
		v.broken(Doubled, uuid.MustParse(id), "its creation counts twice")
	}
	for room, ms := range v.Facts.Rooms {
		v.Messages += len(ms)
		for i, m := range ms {
			if m.Serial != int64(i+1) {
				v.broken(SerialGap, room, "the %d. message that counts has serial %d", i+1, m.Serial)
				break
			}
			if i > 0 && m.SentAt < ms[i-1].SentAt {
				v.broken(Order, room, "time steps back at serial %d", m.Serial)
			}
		}
	}
}

// sends holds the answers against the log.
func (v *Verdict) sends(sends []Send, byID map[messageID]*Message) {
	type attempts struct {
		total, denied int
		texts         map[string]bool
	}
	tried := map[messageID]*attempts{}
	for i := range sends {
		s := &sends[i]
		v.Sends[s.Outcome]++
		id := messageID{s.Room, s.User, s.ClientID}
		a := tried[id]
		if a == nil {
			a = &attempts{texts: map[string]bool{}}
			tried[id] = a
		}
		a.total++
		a.texts[s.Text] = true
		m := byID[id]
		switch s.Outcome {
		case NotOwned, Refused:
			a.denied++
		case Stored:
			switch {
			case m == nil:
				v.broken(Lost, s.Room, "%s was told at %v by %s that %s/%s is stored with serial %d; the log does not have it", s.Client, s.Returned, s.Instance, s.User, s.ClientID, s.Message.Serial)
			case *m != s.Message || m.Text != s.Text:
				v.broken(Lost, s.Room, "%s was told at %v by %s that %s/%s is stored as %+v; the log has %+v", s.Client, s.Returned, s.Instance, s.User, s.ClientID, brief(s.Message), brief(*m))
			}
		case Mutation:
			a.denied++
			switch {
			case m == nil || *m != s.Message:
				v.broken(FalseMutation, s.Room, "%s was told at %v by %s of an existing %+v that the log does not have", s.Client, s.Returned, s.Instance, brief(s.Message))
			case m.Text == s.Text:
				v.broken(FalseMutation, s.Room, "%s was told at %v by %s of a mutation of serial %d, whose text is the same", s.Client, s.Returned, s.Instance, m.Serial)
			}
		}
	}
	for id, m := range byID {
		switch a := tried[id]; {
		case a == nil || !a.texts[m.Text]:
			v.broken(Phantom, m.Room, "nobody sent %+v", brief(*m))
		case a.total == a.denied:
			v.broken(FalseNo, m.Room, "all %d attempts for %s/%s were told that it is not stored; it has serial %d", a.total, m.User, m.ClientID, m.Serial)
		}
	}
}

// times holds everything against the order of time: once somebody has been told that a serial is stored, whatever
// begins later is behind it, or sees it.
func (v *Verdict) times(h *History) {
	type event struct {
		at   Time
		ack  *Send // its return
		sent *Send // the first attempt for its message
		read *Read
	}
	var events []event
	first := map[messageID]*Send{}
	for i := range h.Sends {
		s := &h.Sends[i]
		id := messageID{s.Room, s.User, s.ClientID}
		if f := first[id]; f == nil || s.Invoked < f.Invoked {
			first[id] = s
		}
		if s.Outcome == Stored {
			events = append(events, event{at: s.Returned, ack: s})
		}
	}
	serial := map[messageID]int64{}
	for _, ms := range v.Facts.Rooms {
		for _, m := range ms {
			serial[messageID{m.Room, m.User, m.ClientID}] = m.Serial
		}
	}
	for id, s := range first {
		if serial[id] > 0 {
			events = append(events, event{at: s.Invoked, sent: s})
		}
	}
	for i := range h.Reads {
		events = append(events, event{at: h.Reads[i].Invoked, read: &h.Reads[i]})
	}
	// At one and the same moment nothing is known to be later: acks come last.
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(btoi(a.ack != nil), btoi(b.ack != nil)))
	})
	type reader struct {
		client string
		room   uuid.UUID
	}
	acked, own := map[uuid.UUID]*Send{}, map[reader]*Send{}
	for _, e := range events {
		switch {
		case e.ack != nil:
			s := e.ack
			if a := acked[s.Room]; a == nil || a.Message.Serial < s.Message.Serial {
				acked[s.Room] = s
			}
			if a := own[reader{s.Client, s.Room}]; a == nil || a.Message.Serial < s.Message.Serial {
				own[reader{s.Client, s.Room}] = s
			}
		case e.sent != nil:
			s := e.sent
			n := serial[messageID{s.Room, s.User, s.ClientID}]
			if a := acked[s.Room]; a != nil && a.Message.Serial >= n {
				v.broken(RealTimeOrder, s.Room, "%s/%s was sent first at %v and has serial %d; serial %d was acknowledged before, at %v", s.User, s.ClientID, s.Invoked, n, a.Message.Serial, a.Returned)
			}
		default:
			r := e.read
			if a := own[reader{r.Client, r.Room}]; a != nil && a.Message.Serial > r.Newest {
				v.broken(ReadYourWrites, r.Room, "%s read at %v from %s that serial %d is the newest; it was told at %v by %s that its %d is stored", r.Client, r.Invoked, r.Instance, r.Newest, a.Returned, a.Instance, a.Message.Serial)
			} else if a := acked[r.Room]; a != nil && a.Message.Serial > r.Newest {
				v.broken(StaleRead, r.Room, "%s read at %v from %s that serial %d is the newest; %d was acknowledged at %v by %s", r.Client, r.Invoked, r.Instance, r.Newest, a.Message.Serial, a.Returned, a.Instance)
			}
		}
	}
}

// stream holds what one subscriber got against the log.
func (v *Verdict) stream(s *Stream) {
	v.Deliveries += len(s.Messages)
	ms := v.Facts.Rooms[s.Room]
	at := s.After
	for _, m := range s.Messages {
		switch {
		case m.Serial <= at:
			v.broken(StreamGap, s.Room, "%s got serial %d behind %d", s.Name, m.Serial, at)
		case m.Serial > at+1:
			v.broken(StreamGap, s.Room, "%s got serial %d behind %d: a gap", s.Name, m.Serial, at)
		}
		if m.Serial < 1 || m.Serial > int64(len(ms)) || ms[m.Serial-1] != m {
			v.broken(Divergence, s.Room, "%s got %+v at serial %d; the log has another one, or none", s.Name, brief(m), m.Serial)
		}
		at = m.Serial
	}
	if s.Complete && at < int64(len(ms)) {
		v.broken(Incomplete, s.Room, "%s got to serial %d of %d", s.Name, at, len(ms))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// brief is a message without its text.
func brief(m Message) string {
	return fmt.Sprintf("serial %d of %s/%s at %d, %d bytes", m.Serial, m.User, m.ClientID, m.SentAt, len(m.Text))
}
