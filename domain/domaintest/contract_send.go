package domaintest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chathome/chathome/domain"
)

func sendClaims() []Claim {
	return []Claim{
		{"Serials count from 1, and time never steps back", func(t *testing.T, s Subject) {
			x, list := s.filled(t, 5)
			at := x.Info().CreatedAt
			for i, m := range list {
				want := domain.Message{
					Room: x.Info().ID, Serial: domain.Serial(i + 1), SentAt: m.SentAt,
					User: "alice", ClientID: fmt.Sprint(i + 1), Text: fmt.Sprint("text ", i+1),
				}
				if m != want || m.SentAt < at {
					t.Errorf("message %+v after %d, want %+v", m, at, want)
				}
				at = m.SentAt
			}
		}},
		{"An acknowledged message is seen by every read", func(t *testing.T, s Subject) {
			x := s.room(t, s.create(t, "lobby"))
			for i := range 20 {
				m := send(t, x, draft(i))
				bounds(t, x, 1, m.Serial)
				if got, ok, err := x.Message(t.Context(), m.User, m.ClientID); got != m || !ok || err != nil {
					t.Fatalf("by client id: %+v %v %v, want %+v", got, ok, err, m)
				}
				p, err := x.Messages(t.Context(), domain.Range{After: m.Serial - 1, Limit: 10})
				if err != nil || len(p.Messages) != 1 || p.Messages[0] != m {
					t.Fatalf("page %+v, %v; want %+v", p, err, m)
				}
			}
		}},
		{"Sending again answers the stored message, however long ago", func(t *testing.T, s Subject) {
			x, list := s.filled(t, 150)
			for _, m := range []domain.Message{list[149], list[75], list[0]} {
				got, duplicate, err := x.Send(t.Context(), domain.Draft{User: m.User, ClientID: m.ClientID, Text: m.Text})
				if got != m || !duplicate || err != nil {
					t.Errorf("%+v duplicate %v, %v; want %+v", got, duplicate, err, m)
				}
			}
			bounds(t, x, 1, 150)
		}},
		{"Another text under the same ids is a mutation, and the first text stays", func(t *testing.T, s Subject) {
			x := s.room(t, s.create(t, "lobby"))
			first := send(t, x, domain.Draft{User: "alice", ClientID: "5", Text: "é"})
			for _, text := range []string{"é ", "É", "é\n", "é\u200b", "e\u0301", " é", "\ufffd"} {
				_, _, err := x.Send(t.Context(), domain.Draft{User: "alice", ClientID: "5", Text: text})
				if e := as[*domain.MessageMutationError](t, fmt.Sprintf("send %q", text), err); e != nil && e.Existing != first {
					t.Errorf("existing %+v, want %+v", e.Existing, first)
				}
			}
			again, duplicate, err := x.Send(t.Context(), domain.Draft{User: "alice", ClientID: "5", Text: "é"})
			if again != first || !duplicate || err != nil {
				t.Errorf("%+v duplicate %v, %v; want %+v", again, duplicate, err, first)
			}
			bounds(t, x, 1, 1)
		}},
		{"Texts come back byte for byte", func(t *testing.T, s Subject) {
			x := s.room(t, s.create(t, "lobby"))
			texts := []string{" a", "a ", "a\n", "\ta", "e\u0301", "é", "👨‍👩‍👧‍👦", "\u202e", "\x7f", "a\u0085", `"\u0000"`, strings.Repeat("x", domain.MaxTextBytes)}
			for i, text := range texts {
				send(t, x, domain.Draft{User: "alice", ClientID: fmt.Sprint(i), Text: text})
			}
			for i, text := range texts {
				m, ok, err := x.Message(t.Context(), "alice", fmt.Sprint(i))
				if !ok || err != nil || m.Text != text {
					t.Errorf("%q came back as %q (%v, %v)", text, m.Text, ok, err)
				}
			}
		}},
		{"Ids are compared exactly", func(t *testing.T, s Subject) {
			x, y := s.room(t, s.create(t, "x")), s.room(t, s.create(t, "y"))
			n := domain.Serial(0)
			for _, d := range []domain.Draft{
				{User: "alice", ClientID: "7"}, {User: "alice", ClientID: "07"}, {User: "alice", ClientID: "+7"},
				{User: "alice", ClientID: "7.0"}, {User: "alice", ClientID: "-0"}, {User: "alice", ClientID: "0"},
				{User: "bob", ClientID: "7"}, {User: "Alice", ClientID: "7"}, {User: "alice7", ClientID: "7"}, {User: "alic", ClientID: "e7"},
				{User: "alice", ClientID: "9007199254740993"}, {User: "alice", ClientID: "9007199254740992"},
			} {
				d.Text = d.User + "/" + d.ClientID
				n++
				if m := send(t, x, d); m.Serial != n {
					t.Errorf("%+v got serial %d, want %d", d, m.Serial, n)
				}
			}
			if m := send(t, y, domain.Draft{User: "alice", ClientID: "7", Text: "another room"}); m.Serial != 1 {
				t.Errorf("serial %d in another room, want 1", m.Serial)
			}
			m, ok, err := x.Message(t.Context(), "alice", "07")
			if !ok || err != nil || m.Text != "alice/07" {
				t.Errorf("07 is %+v %v %v", m, ok, err)
			}
			for _, id := range []string{"007", " 7", "7 ", "", strings.Repeat("7", 100)} {
				if m, ok, err := x.Message(t.Context(), "alice", id); ok || err != nil {
					t.Errorf("%q finds %+v, %v", id, m, err)
				}
			}
		}},
		{"Invalid input writes nothing and names every fault", func(t *testing.T, s Subject) {
			x, _ := s.filled(t, 1)
			for _, tc := range []struct {
				d      domain.Draft
				fields string
			}{
				{domain.Draft{}, "user REQUIRED, clientId REQUIRED, text REQUIRED"},
				{domain.Draft{User: "a b", ClientID: "1\n", Text: " "}, "user PRINTABLE_ASCII, clientId PRINTABLE_ASCII, text BLANK"},
				{domain.Draft{User: "é", ClientID: strings.Repeat("1", 65), Text: "\x00"}, "user PRINTABLE_ASCII, clientId MAX_BYTES, text CONTROL"},
				{domain.Draft{User: "a", ClientID: "9", Text: strings.Repeat("x", domain.MaxTextBytes+1)}, "text MAX_BYTES"},
				{domain.Draft{User: "a", ClientID: "9", Text: "\xff"}, "text UTF8"},
				{domain.Draft{User: "a", ClientID: "9", Text: "\u00a0\n\t"}, "text BLANK"},
				{domain.Draft{User: "alice", ClientID: "1", Text: ""}, "text REQUIRED"}, // also where the ids are taken
			} {
				_, _, err := x.Send(t.Context(), tc.d)
				e := as[*domain.InvalidInputError](t, "send", err)
				if e == nil {
					continue
				}
				var got []string
				for _, f := range e.Fields {
					got = append(got, f.Field+" "+f.Rule)
				}
				if s := strings.Join(got, ", "); s != tc.fields {
					t.Errorf("faults %s, want %s", s, tc.fields)
				}
			}
			bounds(t, x, 1, 1)
		}},
		{"Many writers at once get one order without gaps", func(t *testing.T, s Subject) {
			x := s.room(t, s.create(t, "lobby"))
			const writers, each = 8, 25
			var wg sync.WaitGroup
			var mu sync.Mutex
			answered := map[domain.Serial]domain.Message{}
			for w := range writers {
				wg.Go(func() {
					last := domain.Serial(0)
					for i := range each {
						m, duplicate, err := x.Send(t.Context(), domain.Draft{User: fmt.Sprint("w", w), ClientID: fmt.Sprint(i), Text: "hi"})
						if err != nil || duplicate || m.Serial <= last {
							t.Errorf("writer %d: serial %d after %d, duplicate %v, %v", w, m.Serial, last, duplicate, err)
							return
						}
						last = m.Serial
						mu.Lock()
						answered[m.Serial] = m
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			p, err := x.Messages(t.Context(), domain.Range{Limit: writers*each + 1})
			if err != nil || len(p.Messages) != writers*each || p.HasNext || p.HasPrevious {
				t.Fatalf("history has %d messages (%v, %v), %v", len(p.Messages), p.HasPrevious, p.HasNext, err)
			}
			for i, m := range p.Messages {
				if m.Serial != domain.Serial(i+1) || m != answered[m.Serial] {
					t.Fatalf("history at %d: %+v, answered %+v", i+1, m, answered[m.Serial])
				}
			}
		}},
		{"Of many who send one message at once, one stores it", func(t *testing.T, s Subject) {
			x := s.room(t, s.create(t, "lobby"))
			var wg sync.WaitGroup
			var mu sync.Mutex
			stored, answers := 0, map[domain.Message]bool{}
			for range 16 {
				wg.Go(func() {
					m, duplicate, err := x.Send(t.Context(), draft(1))
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Errorf("send: %v", err)
					}
					answers[m] = true
					if !duplicate {
						stored++
					}
				})
			}
			wg.Wait()
			if stored != 1 || len(answers) != 1 {
				t.Errorf("%d stored it, with %d different answers; want 1 and 1", stored, len(answers))
			}
			bounds(t, x, 1, 1)
		}},
		{"Of many texts under one id at once, one is stored and all others are mutations of it", func(t *testing.T, s Subject) {
			x := s.room(t, s.create(t, "lobby"))
			var wg sync.WaitGroup
			stored, existing := make([]domain.Message, 8), make([]domain.Message, 8)
			for i := range stored {
				wg.Go(func() {
					m, _, err := x.Send(t.Context(), domain.Draft{User: "alice", ClientID: "1", Text: fmt.Sprint(i)})
					if err == nil {
						stored[i] = m
					} else if e := as[*domain.MessageMutationError](t, "send", err); e != nil {
						existing[i] = e.Existing
					}
				})
			}
			wg.Wait()
			var first domain.Message
			for _, m := range stored {
				if m.Serial != 0 {
					if first.Serial != 0 {
						t.Errorf("two were stored: %+v, %+v", first, m)
					}
					first = m
				}
			}
			for i, m := range existing {
				if stored[i].Serial == 0 && m != first {
					t.Errorf("mutation of %+v, want %+v", m, first)
				}
			}
		}},
	}
}
