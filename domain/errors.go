package domain

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// ShardState is a shard as seen from outside one instance.
type ShardState uint8

const (
	ShardNotAssigned ShardState = iota // this instance is in a stable generation without it
	ShardLocked                        // no generation, or locked by a fault
	ShardLoading                       // being loaded, or loaded while the instance's gate waits for others
	ShardOpen                          // served here
)

func (s ShardState) String() string {
	return [...]string{"NOT_ASSIGNED", "LOCKED", "LOADING", "OPEN"}[s]
}

// Instance is one server process.
type Instance struct {
	ID  string
	URL string // as advertised to clients
}

// Owner is an instance that took a shard over. A higher version is a later ownership.
type Owner struct {
	Instance Instance
	Version  Offset
}

// Progress of loading: offsets in the shard's log.
type Progress struct {
	Loaded Offset
	Target Offset
}

// Ratio is between 0 and 1.
func (p Progress) Ratio() float64 {
	if p.Loaded >= p.Target || p.Target <= 0 {
		return 1
	}
	return float64(max(p.Loaded, 0)) / float64(p.Target)
}

// ShardNotOwnedError: nothing of this attempt is in the log, nor ever will count. Safe to send again, here
// after RetryAfter or at the owner.
type ShardNotOwnedError struct {
	Shard      ShardID
	State      ShardState // never ShardOpen
	Instance   Instance   // the one that answers
	Owner      *Owner     // nil when unknown
	Progress   *Progress  // nil unless loading
	RetryAfter time.Duration
}

func (e *ShardNotOwnedError) Error() string {
	return fmt.Sprintf("shard %d is not served by instance %s (%s)", e.Shard, e.Instance.ID, e.State)
}

// OutcomeUnknownError: the log could not tell in time whether the write counts. A retry with the same ids is
// always safe, anywhere.
type OutcomeUnknownError struct{ Shard ShardID }

func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("shard %d: it is not known yet whether this was stored", e.Shard)
}

// OverloadedError: refused before anything was written, because a bounded resource is used up or a service
// that is needed for the answer cannot be reached right now.
type OverloadedError struct {
	Resource   string // what is short; a constant, never user text
	RetryAfter time.Duration
}

func (e *OverloadedError) Error() string { return "overloaded: " + e.Resource }

// MessageMutationError: the (room, user, client id) has a message with another text. Nothing was written.
type MessageMutationError struct{ Existing Message }

func (e *MessageMutationError) Error() string {
	return fmt.Sprintf("message %d of this room has the same user and client id but another text", e.Existing.Serial)
}

// ChatRoomMutationError: the room exists with another name. Nothing was written.
type ChatRoomMutationError struct{ Existing ChatRoomInfo }

func (e *ChatRoomMutationError) Error() string { return "this chat room exists with another name" }

// UnknownChatRoomError: no such room, for certain.
type UnknownChatRoomError struct{ ID uuid.UUID }

func (e *UnknownChatRoomError) Error() string { return "no chat room has the id " + e.ID.String() }

// CursorOutOfRangeError: the position is not there (any more): history below it was deleted, or it belongs
// to another life of the topics. Both cursors are empty where nothing is left.
type CursorOutOfRangeError struct{ Oldest, Newest string }

func (e *CursorOutOfRangeError) Error() string {
	return "the cursor points outside the history that is there"
}

// BadCursorError: not a cursor of this kind or of this room.
type BadCursorError struct{ Reason string }

func (e *BadCursorError) Error() string { return "bad cursor: " + e.Reason }
