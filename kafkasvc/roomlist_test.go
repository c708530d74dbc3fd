package kafkasvc

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// An owner whose log lost the creation of a room does not answer without the name while the directory reads its topic
// again; where nobody has the name any more, the room is there without one.
func TestRoomList_AsksTheDirectoryForALostName(t *testing.T) {
	id := uuid.UUID{7}
	named := domain.ChatRoomInfo{ID: id, Name: "hall", Shard: 2, CreatedAt: 5}
	nameless := domain.ChatRoomInfo{ID: id, Shard: 2, CreatedAt: 9}
	unknown, away := &domain.UnknownChatRoomError{ID: id}, errors.New("the directory cannot be read")
	for _, tc := range []struct {
		why         string
		own, listed domain.ChatRoomInfo
		err         error
		want        domain.ChatRoomInfo
		wantErr     error
	}{
		{"the owner has the name", named, domain.ChatRoomInfo{}, away, named, nil},
		{"the directory has it", nameless, named, nil, named, nil},
		{"nobody has it", nameless, domain.ChatRoomInfo{}, unknown, nameless, nil},
		{"the directory cannot be read", nameless, domain.ChatRoomInfo{}, away, domain.ChatRoomInfo{}, away},
		{"not the owner, listed", domain.ChatRoomInfo{}, named, nil, named, nil},
		{"not the owner, nowhere", domain.ChatRoomInfo{}, domain.ChatRoomInfo{}, unknown, domain.ChatRoomInfo{}, unknown},
	} {
		got, err := roomInfo(tc.own, func() (domain.ChatRoomInfo, error) { return tc.listed, tc.err })
		if got != tc.want || err != tc.wantErr {
			t.Errorf("%s: %+v, %v; want %+v, %v", tc.why, got, err, tc.want, tc.wantErr)
		}
	}
}
