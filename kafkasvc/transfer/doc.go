// Package transfer carries a home from one place to another as a file: Export writes the rooms and messages that
// count, Import fills an empty home with them.
//
// Records name the offset at which they count, so a topic that was copied record by record is no copy of the home:
// in the copy, nearly everything is void. Import writes each record anew, with the offset that it gets there. Rooms,
// serials, times and client ids stay; offsets, shards and cursors do not.
//
// format.go is the file, export.go and judge.go read the log, import.go reads the file, target.go fills a shard.
package transfer
