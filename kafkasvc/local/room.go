package local

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// A room has two rows: its name (written once) and its state (written with every commit that touches the room), so
// that the fold need not remember names.

// roomState is the state row.
type roomState struct {
	first  domain.Serial // oldest message, 0 if there is none: history may start above 1
	last   domain.Serial // newest message, 0 if there is none
	lastAt domain.Millis // time of the newest message, or of the creation
	sparse bool          // serials between first and last are missing (a damaged log)
}

func (r *roomState) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.first))
	dst = binary.AppendUvarint(dst, uint64(r.last))
	dst = binary.AppendVarint(dst, int64(r.lastAt))
	if r.sparse {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func readRoomState(b []byte) (r roomState, err error) {
	first, n := binary.Uvarint(b)
	b = b[max(n, 0):]
	last, m := binary.Uvarint(b)
	b = b[max(m, 0):]
	at, k := binary.Varint(b)
	b = b[max(k, 0):]
	if n <= 0 || m <= 0 || k <= 0 || len(b) != 1 || b[0] > 1 || first > last || last > 1<<62 || (first == 0) != (last == 0) {
		return r, fmt.Errorf("%w: room state", ErrCorrupt)
	}
	return roomState{domain.Serial(first), domain.Serial(last), domain.Millis(at), b[0] == 1}, nil
}

func appendRoomName(dst []byte, name []byte, created domain.Millis) []byte {
	return append(binary.AppendVarint(dst, int64(created)), name...)
}

func readRoomName(id uuid.UUID, shard domain.ShardID, b []byte) (domain.ChatRoomInfo, error) {
	created, n := binary.Varint(b)
	if n <= 0 {
		return domain.ChatRoomInfo{}, fmt.Errorf("%w: room name", ErrCorrupt)
	}
	return domain.ChatRoomInfo{ID: id, Name: string(b[n:]), Shard: shard, CreatedAt: domain.Millis(created)}, nil
}
