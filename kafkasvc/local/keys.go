package local

import (
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// The key space. All numbers are big-endian, so that keys sort as their fields do.
//
//	m home                           home id
//	s SHARD c                        chain: Position (position.go)                     Merge
//	s SHARD i LEVEL BUCKET           entries of the index (index.go)                   Merge
//	s SHARD n ROOM                   name and creation of a room, written once
//	s SHARD p ROOM PAGE              64 messages (page.go)                             Merge
//	s SHARD r ROOM                   state of a room, written with every commit that touches it
//	d c                              chain: the directory's offset                     Merge
//	d mark                           the directory's own bytes, with the offset
//	d i ROOM                         serial of a room in the room list
//	d o SHARD                        owner of a shard
//	d r SERIAL                       a room of the room list
//
// Everything of a shard is one range, so that dropping it is one range deletion. Whoever changes this, or what
// the values look like, raises formatVersion (open.go).
const (
	spaceMeta      = 'm'
	spaceShard     = 's'
	spaceDirectory = 'd'

	tableChain = 'c'
	tableIndex = 'i'
	tableName  = 'n'
	tablePage  = 'p'
	tableRoom  = 'r'
	tableOwner = 'o'
)

const (
	shardKeyLen = 1 + 4 + 1
	roomKeyLen  = shardKeyLen + 16
	pageKeyLen  = roomKeyLen + 8
	indexKeyLen = shardKeyLen + 1 + 4
)

var (
	keyHome           = []byte("mhome")
	keyDirectoryChain = []byte{spaceDirectory, tableChain}
	keyDirectoryMark  = []byte{spaceDirectory, 'm', 'a', 'r', 'k'}
)

// maxKeyLen is enough for every key, for keys on the stack.
const maxKeyLen = 32

func appendShardKey(dst []byte, shard domain.ShardID, table byte) []byte {
	dst = append(dst, spaceShard)
	dst = binary.BigEndian.AppendUint32(dst, uint32(shard))
	return append(dst, table)
}

func appendRoomKey(dst []byte, shard domain.ShardID, table byte, room *uuid.UUID) []byte {
	return append(appendShardKey(dst, shard, table), room[:]...)
}

func appendPageKey(dst []byte, shard domain.ShardID, room *uuid.UUID, page uint64) []byte {
	return binary.BigEndian.AppendUint64(appendRoomKey(dst, shard, tablePage, room), page)
}

func appendIndexKey(dst []byte, shard domain.ShardID, b bucket) []byte {
	dst = append(appendShardKey(dst, shard, tableIndex), b.level)
	return binary.BigEndian.AppendUint32(dst, b.number)
}

// shardRange is the half-open range of all keys of a shard.
func shardRange(shard domain.ShardID) (from, to []byte) {
	from = binary.BigEndian.AppendUint32([]byte{spaceShard}, uint32(shard))
	to = binary.BigEndian.AppendUint32([]byte{spaceShard}, uint32(shard)+1)
	return from, to
}

func appendListKey(dst []byte, serial domain.Serial) []byte {
	return binary.BigEndian.AppendUint64(append(dst, spaceDirectory, tableRoom), uint64(serial))
}

func appendListIndexKey(dst []byte, room *uuid.UUID) []byte {
	return append(append(dst, spaceDirectory, tableIndex), room[:]...)
}

func appendOwnerKey(dst []byte, shard domain.ShardID) []byte {
	return binary.BigEndian.AppendUint32(append(dst, spaceDirectory, tableOwner), uint32(shard))
}

// isChain says which of the merged rows a key belongs to: a chain, or else a list of entries.
func isChain(key []byte) bool {
	switch {
	case len(key) == shardKeyLen && key[0] == spaceShard:
		return key[shardKeyLen-1] == tableChain
	case len(key) == 2 && key[0] == spaceDirectory:
		return key[1] == tableChain
	}
	return false
}
