package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/test/chat"
	"github.com/chathome/chathome/test/check"
	"github.com/chathome/chathome/test/check/linear"
)

func TestPlan_UsesEachFaultBeforeAnyComesAgain(t *testing.T) {
	kinds := faults()
	instances := []string{"a", "b", "c"}
	p := newPlan(7, kinds)
	for range 3 {
		used := map[string]int{}
		for range kinds {
			f, _, free, ok := p.next(instances)
			if !ok {
				t.Fatal("nothing is free, and nothing is taken")
			}
			used[f.name]++
			free()
		}
		for _, f := range kinds {
			if used[f.name] != 1 {
				t.Errorf("%s was used %d times", f.name, used[f.name])
			}
		}
	}
	first, second := newPlan(7, kinds), newPlan(7, kinds)
	for range 20 {
		a, i, freeA, _ := first.next(instances)
		b, j, freeB, _ := second.next(instances)
		if a.name != b.name || i != j {
			t.Fatal("the same seed makes another plan")
		}
		freeA()
		freeB()
	}
}

func TestPlan_BreaksEachThingOnceAtATime(t *testing.T) {
	p := newPlan(1, faults())
	taken := map[string]bool{}
	for range 1000 {
		f, i, _, ok := p.next([]string{"a", "b", "c"})
		if !ok {
			break // all are taken
		}
		on := ""
		switch f.target {
		case instance:
			on = []string{"a", "b", "c"}[i]
			if f.name == "full disk" && i != 0 {
				t.Error("a disk that is not small is filled")
			}
		case all:
			if len(taken) > 0 {
				for on := range taken {
					if on != theClients && on != theLog {
						t.Error("everything is broken while", on, "is")
					}
				}
			}
			on = everything
		case broker:
			on = theBroker
		case clients:
			on = theClients
		case topic:
			on = theLog
		}
		if taken[on] {
			t.Error("twice at once:", on)
		}
		taken[on] = true
	}
}

func TestChoose(t *testing.T) {
	if all, err := choose("", 1); err != nil || len(all) != len(faults()) {
		t.Error(len(all), err)
	}
	if all, err := choose("", 3); err != nil || len(all) != len(faults())+1 {
		t.Error("several brokers can be taken away:", len(all), err)
	}
	if some, err := choose("kill -9, lost acks", 1); err != nil || len(some) != 2 {
		t.Error(some, err)
	}
	if _, err := choose("earthquake", 1); err == nil || !strings.Contains(err.Error(), "lost acks") {
		t.Error("an unknown fault is not told from the known ones:", err)
	}
}

// A failed round is told so that a person can go on from it.
func TestReport(t *testing.T) {
	room := uuid.New()
	h := &check.History{}
	h.Sent(check.Send{Client: "w", Instance: "http://a", Invoked: 1, Returned: 2, Room: room, User: "w", ClientID: "w-1", Text: "t", Outcome: check.Stored, Message: check.Message{Room: room, Serial: 1, User: "w", ClientID: "w-1", Text: "t"}})
	r := &round{o: options{instances: 3}, seed: 7, length: 90 * time.Second, setting: settings()[0], net: chat.NewNet(h), kept: t.TempDir(), bits: map[string]int64{}, used: map[string]int64{}}
	r.note("kill -9 on a")
	r.verdict, r.second = check.Check(h), linear.Check(h, time.Second)
	if r.clean() {
		t.Fatal("a lost message is clean")
	}
	r.report()
	for name, want := range map[string][]string{
		"README.txt":     {"make torture MINUTES=1.5 SEED=7", "lost              BROKEN 1 times", room.String()},
		"timeline.txt":   {"kill -9 on a"},
		"room.txt":       {"w sends w-1 to http://a", "stored serial 1", "kill -9 on a"},
		"histories.json": {`"ClientID": "w-1"`},
	} {
		b, err := os.ReadFile(filepath.Join(r.kept, name))
		if err != nil {
			t.Error(err)
		}
		for _, w := range want {
			if !strings.Contains(string(b), w) {
				t.Errorf("%s has no %q:\n%s", name, w, b)
			}
		}
	}
	s := newSum()
	s.add(r)
	if line := s.ledger(r.o, 1); !strings.Contains(line, "1 rounds") || !strings.HasSuffix(line, "1 anomalies |") {
		t.Error(line)
	}
}

// The smallest times are those that the program takes: a millisecond less than the rule says is refused.
func TestShortest_IsAboveTheRule(t *testing.T) {
	const rule = 20*time.Millisecond + time.Second + 500*time.Millisecond
	if s := shortest().session; s <= rule || s > rule+20*time.Millisecond {
		t.Error(s)
	}
}
