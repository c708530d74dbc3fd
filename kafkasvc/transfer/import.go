package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/record"
)

// Source is a file to import.
type Source struct {
	io.Reader
	Bytes  int64 // of the whole file; 0: not known
	Shards int   // of the home, where it has none yet
}

// DifferentError: the home holds another thing than the file for this room, though the same import wrote it.
type DifferentError struct{ Room uuid.UUID }

func (e *DifferentError) Error() string {
	return fmt.Sprintf("room %s in this home is not as the file has it: the file was changed since an earlier run of this import. Delete both topics, and import again", e.Room)
}

// Import fills an empty home from a file that Export wrote, and returns the life that it fills. It may be repeated
// after any error, with the same file: what is there already is compared and not written again. No instance may serve
// the home until it has returned nil.
func Import(ctx context.Context, topics *kafkasvc.Topics, from Source, o Options) (directory.Life, Progress, error) {
	o = o.withDefaults()
	i := &importer{in: newLines(from), o: o, topics: topics, file: map[uuid.UUID]*contents{}, listed: map[uuid.UUID]struct{}{}}
	i.progress.Total = from.Bytes
	err := i.run(ctx, from.Shards)
	return i.life, i.progress, err
}

type importer struct {
	in       *lines
	o        Options
	topics   *kafkasvc.Topics
	life     directory.Life
	targets  []*target
	file     map[uuid.UUID]*contents // what the file said of a room so far
	listed   map[uuid.UUID]struct{}  // rooms in the directory
	announce []domain.ChatRoomInfo   // rooms that the directory lacks
	scratch  []byte
	progress Progress
}

func (i *importer) run(ctx context.Context, shards int) error {
	first, raw, err := i.in.next()
	switch {
	case errors.Is(err, io.EOF):
		return &FormatError{Line: 1, Problem: "the file is empty"}
	case err != nil:
		return err
	case first.Export == nil:
		return i.in.bad("an export begins with what it is an export of")
	case first.Export.Format != Format:
		return i.in.bad(fmt.Sprintf("the file has format %d, and this program reads %d: use a newer program", first.Export.Format, Format))
	}
	name := sha256.Sum256(raw)
	if err := i.open(ctx, "import-"+hex.EncodeToString(name[:8]), shards); err != nil {
		return err
	}
	for {
		l, _, err := i.in.next()
		switch {
		case errors.Is(err, io.EOF):
			return i.in.bad("the file is cut short; what it holds was imported. Import the whole file to go on")
		case err != nil:
			return err
		case l.Export != nil:
			return i.in.bad("another export begins here")
		case l.End != nil:
			return i.end(ctx, l.End)
		case l.Room != nil:
			err = i.room(ctx, l.Room)
		case l.Message != nil:
			err = i.message(ctx, l.Message)
		}
		if err != nil {
			return err
		}
		if i.progress.Done = i.in.bytes; i.in.line%progressEvery == 0 {
			i.o.Progress(i.progress)
		}
	}
}

// open looks at the home before it changes anything but to make what is missing, then takes its shards.
func (i *importer) open(ctx context.Context, name string, shards int) (err error) {
	if i.life, err = directory.Begin(ctx, i.topics.Directory(), shards); err != nil {
		return fmt.Errorf("begin a home: %w", err)
	}
	if err := i.topics.Prepare(ctx, i.life.Shards); err != nil {
		return err
	}
	_, listed, err := directory.Rooms(ctx, i.topics.Directory())
	if err != nil {
		return fmt.Errorf("read the directory: %w", err)
	}
	for _, r := range listed {
		i.listed[r.ID] = struct{}{}
	}
	cluster, topic := i.topics.Messages()
	tenure := uuid.New()
	for n := range i.life.Shards {
		log, err := openShard(ctx, cluster, topic, n, i.o.Log)
		if err != nil {
			return err
		}
		t := &target{shardLog: log, importer: name, tenure: tenure, there: map[uuid.UUID]*contents{}}
		if err := t.inspect(ctx); err != nil {
			return err
		}
		i.targets = append(i.targets, t)
	}
	for _, t := range i.targets {
		if err := t.takeOver(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (i *importer) target(id uuid.UUID) *target {
	return i.targets[domain.ShardOf(id, i.life.Shards)]
}

func (i *importer) room(ctx context.Context, r *room) error {
	info := domain.ChatRoomInfo{ID: r.ID, Name: r.Name, CreatedAt: r.CreatedAt, Shard: domain.ShardOf(r.ID, i.life.Shards)}
	if i.file[r.ID] != nil {
		return i.in.bad("this room was there before")
	}
	if err := i.valid(item{info: info}); err != nil {
		return err
	}
	c := &contents{}
	c.room(&info)
	i.file[r.ID] = c
	i.progress.Rooms++
	t := i.target(r.ID)
	if there := t.there[r.ID]; there == nil {
		if err := t.add(ctx, item{info: info}); err != nil {
			return err
		}
	} else if there.last == 0 && there.chain != c.chain {
		return &DifferentError{Room: r.ID}
	}
	if _, listed := i.listed[r.ID]; !listed {
		i.announce = append(i.announce, info)
	}
	if len(i.announce) < announceEvery {
		return nil
	}
	return i.announceRooms(ctx)
}

const announceEvery = 1000 // rooms

// announceRooms tells the directory of rooms that are stored.
func (i *importer) announceRooms(ctx context.Context) error {
	for _, t := range i.targets {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	err := directory.Announce(ctx, i.topics.Directory(), i.life, i.announce)
	i.announce = i.announce[:0]
	return err
}

func (i *importer) message(ctx context.Context, m *message) error {
	c := i.file[m.Room]
	if c == nil {
		return i.in.bad("the room of this message was not there before it")
	}
	if m.Serial <= c.last {
		return i.in.bad("the serial of this message is not above the one before")
	}
	msg := &domain.Message{Room: m.Room, Serial: m.Serial, User: m.User, ClientID: m.ClientID, Text: m.Text, SentAt: m.SentAt}
	if err := i.valid(item{message: msg}); err != nil {
		return err
	}
	before := c.last
	i.scratch = c.message(i.scratch, msg)
	i.progress.Messages++
	t := i.target(m.Room)
	there := t.there[m.Room]
	switch {
	case there == nil || before >= there.last:
		return t.add(ctx, item{message: msg})
	case m.Serial > there.last, m.Serial == there.last && c.chain != there.chain:
		return &DifferentError{Room: m.Room}
	}
	return nil // written before
}

// valid: a record that breaks a limit would be rubbish to every reader.
func (i *importer) valid(it item) error {
	var v record.View
	if r := it.record(0); v.Decode(r.Value) != nil {
		return i.in.bad("it breaks a limit of rooms or messages")
	}
	return nil
}

func (i *importer) end(ctx context.Context, want *totals) error {
	if want.Rooms != i.progress.Rooms || want.Messages != i.progress.Messages {
		return i.in.bad(fmt.Sprintf("the file should hold %d rooms and %d messages, and holds %d and %d", want.Rooms, want.Messages, i.progress.Rooms, i.progress.Messages))
	}
	for _, t := range i.targets {
		for id, there := range t.there {
			if c := i.file[id]; c == nil || c.last < there.last {
				return &DifferentError{Room: id}
			}
		}
	}
	i.o.Progress(i.progress)
	return i.announceRooms(ctx)
}
