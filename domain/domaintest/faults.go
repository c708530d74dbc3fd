package domaintest

import "context"

// Op names a method that a fault can hit.
type Op string

// The methods.
const (
	OpChatRoom         Op = "ChatRoom"
	OpCreateChatRoom   Op = "CreateChatRoom"
	OpSend             Op = "Send"
	OpMessage          Op = "Message"
	OpMessages         Op = "Messages"
	OpBounds           Op = "Bounds"
	OpResolve          Op = "Resolve"
	OpCursorAt         Op = "CursorAt"
	OpDirectoryRoom    Op = "Directory.ChatRoom"
	OpDirectoryRooms   Op = "Directory.ChatRooms"
	OpDirectoryResolve Op = "Directory.Resolve"
)

// Fault makes calls of Op fail.
type Fault struct {
	Op      Op
	Err     error           // the answer; nil only delays
	Written bool            // Send, CreateChatRoom: the write counts all the same, as with a lost answer
	Times   int             // how many calls; 0: all until Heal
	Wait    <-chan struct{} // first wait for this or the end of the caller's context
	Panic   any             // a broken invariant
}

// Inject adds a fault. The oldest one for an Op is used up first.
func (h *Home) Inject(f Fault) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.faults = append(h.faults, &f)
}

// Heal removes all faults.
func (h *Home) Heal() {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.faults = nil
}

// fault returns the fault that this call has to answer with, or nil. Called without locks.
func (h *Home) fault(ctx context.Context, op Op) *Fault {
	f := h.takeFault(op)
	if f == nil {
		return nil
	}
	if f.Wait != nil {
		select {
		case <-f.Wait:
		case <-ctx.Done():
		}
	}
	if f.Panic != nil {
		panic(f.Panic)
	}
	if f.Err == nil {
		return nil
	}
	return f
}

func (h *Home) takeFault(op Op) *Fault {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	for i, f := range h.faults {
		if f.Op != op {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				h.faults = append(h.faults[:i:i], h.faults[i+1:]...)
			}
		}
		return f
	}
	return nil
}
