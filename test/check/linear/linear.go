// Package linear is a second judge of a run, independent of package check: for each room it asks porcupine whether
// there is an order of all that clients saw, with each thing between its question and its answer, in which the room
// is one list that only grows.
//
// Who was answered "unknown" does not know whether his message was stored; the log does. So the history is made of
// one append a message that counts in the log, which happened after the first attempt that can have written it
// and before the first answer that tells of it, and of looks: each acknowledgement is one, and each read.
package linear

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"github.com/chathome/chathome/test/check"
)

// kind of an operation on a room whose newest serial is n.
type kind uint8

const (
	appended kind = iota // n is serial-1 before and serial after
	known                // n is serial or more
	newest               // n is serial
)

type input struct {
	kind   kind
	serial int64
	who    string
}

// Room is a room whose history has no such order, or for which none was found in time.
type Room struct {
	ID      uuid.UUID
	Unknown bool // the search took too long
	Text    string

	model porcupine.Model
	info  porcupine.LinearizationInfo
}

// Draw writes a page that shows the history and how far an order was found.
func (r *Room) Draw(w io.Writer) error {
	if err := porcupine.Visualize(r.model, r.info, w); err != nil {
		return fmt.Errorf("draw the history of room %s: %w", r.ID, err)
	}
	return nil
}

// Result is what the judge found.
type Result struct {
	Rooms      int
	Operations int
	Bad        []Room
}

// Clean says that each room has an order.
func (r *Result) Clean() bool { return len(r.Bad) == 0 }

func (r *Result) String() string {
	s := fmt.Sprintf("second judge: %d operations in %d rooms", r.Operations, r.Rooms)
	if r.Clean() {
		return s + ", each in one order with what clients saw"
	}
	for _, room := range r.Bad {
		s += "\nnot linearizable: room " + room.ID.String() + ": " + room.Text
	}
	return s
}

// window is the number of operations behind which the history is cut at the next quiet moment: the search grows
// faster than the history.
const window = 400

// Check judges the sends and reads of h by its log; limit bounds the search in each part of each room.
func Check(h *check.History, limit time.Duration) *Result {
	facts := check.Fold(h.Log)
	result := &Result{}
	for room, ops := range operations(h, facts) {
		result.Rooms++
		result.Operations += len(ops)
		judge(result, room, ops, limit)
	}
	slices.SortFunc(result.Bad, func(a, b Room) int { return cmp.Compare(a.ID.String(), b.ID.String()) })
	return result
}

func judge(result *Result, room uuid.UUID, ops []porcupine.Operation, limit time.Duration) {
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var n int64 // newest serial before the window
	for len(ops) > 0 {
		end := cut(ops)
		model := model(n)
		outcome, info := porcupine.CheckOperationsVerbose(model, ops[:end], limit)
		if outcome != porcupine.Ok {
			bad := Room{ID: room, Unknown: outcome == porcupine.Unknown, model: model, info: info}
			span := fmt.Sprintf("between %v and %v, behind serial %d", time.Duration(ops[0].Call), time.Duration(ops[end-1].Return), n)
			if bad.Unknown {
				bad.Text = fmt.Sprintf("no answer within %v for %d operations %s", limit, end, span)
			} else {
				bad.Text = fmt.Sprintf("no order of the %d operations %s explains what was answered", end, span)
			}
			result.Bad = append(result.Bad, bad)
			return // what follows would be judged from a wrong start
		}
		for _, op := range ops[:end] {
			if in := op.Input.(input); in.kind == appended {
				n = max(n, in.serial)
			}
		}
		ops = ops[end:]
	}
}

// cut returns the length of the first part: it ends where nothing is under way.
func cut(ops []porcupine.Operation) int {
	last := int64(math.MinInt64)
	for i, op := range ops {
		if i >= window && last < op.Call {
			return i
		}
		last = max(last, op.Return)
	}
	return len(ops)
}

func model(start int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return start },
		Step: func(state, in, _ any) (bool, any) {
			n, op := state.(int64), in.(input)
			switch op.kind {
			case appended:
				return n == op.serial-1, op.serial
			case known:
				return n >= op.serial, n
			default:
				return n == op.serial, n
			}
		},
		DescribeOperation: func(in, _ any) string {
			op := in.(input)
			switch op.kind {
			case appended:
				return fmt.Sprintf("%s appends %d", op.who, op.serial)
			case known:
				return fmt.Sprintf("%s is told of %d", op.who, op.serial)
			default:
				return fmt.Sprintf("%s reads that %d is the newest", op.who, op.serial)
			}
		},
		DescribeState: func(state any) string { return fmt.Sprintf("newest is %d", state) },
	}
}

type messageID struct {
	room           uuid.UUID
	user, clientID string
}

// operations makes the history of each room.
func operations(h *check.History, facts check.Facts) map[uuid.UUID][]porcupine.Operation {
	type span struct{ call, back int64 }
	const never = int64(math.MaxInt64)
	spans := map[messageID]span{}
	all := map[uuid.UUID][]porcupine.Operation{}
	for i := range h.Sends {
		s := &h.Sends[i]
		id := messageID{s.Room, s.User, s.ClientID}
		at, ok := spans[id]
		if !ok {
			at = span{never, never}
		}
		switch s.Outcome {
		case check.Unknown, check.Stored: // may have written it
			at.call = min(at.call, int64(s.Invoked))
		}
		switch s.Outcome {
		case check.Stored, check.Mutation: // tell of it
			at.back = min(at.back, int64(s.Returned))
			all[s.Room] = append(all[s.Room], porcupine.Operation{
				Input: input{known, s.Message.Serial, s.Client}, Call: int64(s.Invoked), Return: int64(s.Returned),
			})
		}
		spans[id] = at
	}
	for _, r := range h.Reads {
		all[r.Room] = append(all[r.Room], porcupine.Operation{
			Input: input{newest, r.Newest, r.Client}, Call: int64(r.Invoked), Return: int64(r.Returned),
		})
	}
	for room, messages := range facts.Rooms {
		// From the end: a message is there before the next one is, so that one that nobody was told of does not stay
		// open to the end of the history.
		back := never
		for i := len(messages) - 1; i >= 0; i-- {
			m := &messages[i]
			at, ok := spans[messageID{m.Room, m.User, m.ClientID}]
			if !ok || at.call == never {
				at.call = 0 // a phantom or a false no: the other judge tells
			}
			back = min(back, max(at.back, at.call))
			all[room] = append(all[room], porcupine.Operation{
				Input: input{appended, m.Serial, m.User}, Call: at.call, Return: max(back, at.call),
			})
		}
	}
	return all
}
