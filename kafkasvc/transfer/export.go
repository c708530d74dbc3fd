package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/record"
)

// Progress of a transfer. Done and Total are records of the log (export) or bytes of the file (import); Total is 0
// where it is not known.
type Progress struct {
	Done, Total     int64
	Rooms, Messages int64
}

// Options of a transfer.
type Options struct {
	Progress func(Progress) // called often, by the caller's goroutine; may be nil
	Log      *slog.Logger   // nil: none
}

func (o Options) withDefaults() Options {
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrNoHome: there are no topics of this name, or nothing was ever written to them.
var ErrNoHome = errors.New("there is no home with this topic prefix")

// Export writes all rooms and messages of a home to a file. Instances may serve meanwhile: the file holds what was in
// the log when Export began, which is Origin.Upto, and the rooms in the order of the room list.
func Export(ctx context.Context, topics *kafkasvc.Topics, to io.Writer, o Options) (Origin, Progress, error) {
	o = o.withDefaults()
	e := &export{out: newWriter(to), o: o, known: map[uuid.UUID]struct{}{}}
	err := e.run(ctx, topics)
	return e.origin, e.progress, err
}

type export struct {
	out      *writer
	o        Options
	origin   Origin
	known    map[uuid.UUID]struct{} // rooms that are written
	progress Progress
}

func (e *export) run(ctx context.Context, topics *kafkasvc.Topics) error {
	if there, err := topics.Exist(ctx); err != nil || !there {
		return errors.Join(err, ErrNoHome)
	}
	// The directory first: a room is stored before it is announced, so the shards hold all rooms that are listed.
	life, rooms, err := directory.Rooms(ctx, topics.Directory())
	switch {
	case err != nil:
		return fmt.Errorf("read the directory: %w", err)
	case life.Home == uuid.Nil:
		return ErrNoHome
	}
	cluster, topic := topics.Messages()
	e.origin = Origin{Format: Format, Home: life.Home, Shards: life.Shards}
	shards := make([]*shardLog, life.Shards)
	for i := range shards {
		if shards[i], err = openShard(ctx, cluster, topic, i, e.o.Log); err != nil {
			return err
		}
		e.origin.Upto = append(e.origin.Upto, shards[i].end)
		e.progress.Total += int64(shards[i].end - shards[i].start)
	}
	if err := e.out.write(line{Export: &e.origin}); err != nil {
		return err
	}
	for i := range rooms {
		if err := e.room(&rooms[i]); err != nil {
			return err
		}
	}
	for _, s := range shards {
		if err := e.shard(ctx, s); err != nil {
			return err
		}
	}
	e.o.Progress(e.progress)
	return e.out.end()
}

func (e *export) room(info *domain.ChatRoomInfo) error {
	if _, known := e.known[info.ID]; known {
		return nil
	}
	e.known[info.ID] = struct{}{}
	e.progress.Rooms++
	return e.out.room(info)
}

const progressEvery = 4096 // records

// shard writes what counts, in the order of the log.
func (e *export) shard(ctx context.Context, s *shardLog) error {
	j := &judge{shard: s, rooms: map[uuid.UUID]domain.Serial{}}
	defer j.close()
	var v record.View
	return s.read(ctx, s.start, s.end, func(off domain.Offset, value []byte) error {
		if e.progress.Done++; e.progress.Done%progressEvery == 0 {
			e.o.Progress(e.progress)
		}
		accepted, err := j.accept(ctx, off, value, &v)
		if err != nil || !accepted {
			return err
		}
		// A message without a room is one whose room the log lost; the directory may have known it.
		info := domain.ChatRoomInfo{ID: v.Room, Name: string(v.Name), CreatedAt: v.Time}
		if err := e.room(&info); err != nil || v.Kind == record.KindChatRoomCreated {
			return err
		}
		e.progress.Messages++
		return e.out.message(&message{
			Room: v.Room, Serial: v.Serial, User: string(v.User), ClientID: string(v.ClientID), Text: string(v.Text), SentAt: v.Time,
		})
	})
}
