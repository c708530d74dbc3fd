package domain

import "github.com/google/uuid"

// ChatRoomInfo is what everybody may know of a room, also where the room is not served.
type ChatRoomInfo struct {
	ID        uuid.UUID
	Name      string
	Shard     ShardID
	CreatedAt Millis
}

// ChatRoom is the state that a room decides on. Its history lies elsewhere: memory does not grow with it.
//
// It is reached only on the owner of its shard and only when it is loaded completely, because every request
// passes the gate first. That is what makes the rule for duplicates valid, and why nothing in here asks
// for ownership.
type ChatRoom struct {
	Info   ChatRoomInfo
	Last   Serial // serial of the newest message, 0 if there is none
	LastAt Millis // time of the newest message, or of the creation
}

// AddMessage decides what becomes of d: a new message, the one that is stored already, or a
// *MessageMutationError. stored is the room's message with d's user and client id, nil if there is none.
// Nothing is applied.
func (r *ChatRoom) AddMessage(d Draft, stored *Message, now Millis) (m Message, duplicate bool, err error) {
	if stored != nil {
		if stored.Text != d.Text {
			return Message{}, false, &MessageMutationError{Existing: *stored}
		}
		return *stored, true, nil
	}
	return Message{
		Room:     r.Info.ID,
		Serial:   r.Last + 1,
		User:     d.User,
		ClientID: d.ClientID,
		Text:     d.Text,
		SentAt:   max(now, r.LastAt), // clocks of owners differ; time never steps back within a room
	}, false, nil
}

// Fit is how a counting record of a room meets the fold before it. In a log that lost
// nothing it acknowledged, every one Fits.
type Fit uint8

const (
	Fits   Fit = iota // the next one
	Known             // its serial, client id or room is there already: skipped, the first one holds
	Ahead             // records are missing before it: accepted
	Orphan            // its room is unknown: accepted, the name comes from the directory
)

func (f Fit) String() string {
	return [...]string{"fits", "known", "ahead", "orphan"}[f]
}

// Accepted says whether the record becomes part of the room.
func (f Fit) Accepted() bool { return f != Known }

// FitOf judges a message's serial against the last one of its room.
func FitOf(last, serial Serial) Fit {
	switch {
	case serial <= last:
		return Known
	case serial == last+1:
		return Fits
	}
	return Ahead
}

// Apply makes m the newest message. The caller has judged it with FitOf.
func (r *ChatRoom) Apply(serial Serial, at Millis) {
	r.Last = serial
	r.LastAt = max(r.LastAt, at)
}

// CreateChatRoom decides what becomes of the wish for a room: a new one, the existing one, or a
// *ChatRoomMutationError. existing is nil if the id is free.
func CreateChatRoom(id uuid.UUID, name string, shard ShardID, existing *ChatRoomInfo, now Millis) (info ChatRoomInfo, duplicate bool, err error) {
	if existing != nil {
		if existing.Name != name {
			return ChatRoomInfo{}, false, &ChatRoomMutationError{Existing: *existing}
		}
		return *existing, true, nil
	}
	return ChatRoomInfo{ID: id, Name: name, Shard: shard, CreatedAt: now}, false, nil
}
