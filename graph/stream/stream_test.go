package stream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph/stream"
	"github.com/chathome/chathome/internal/bubbletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type span struct{ from, to domain.Serial }

// spans reads up to limit serials at a time.
func spans(feed domain.Feed, limit domain.Serial) stream.Read[span] {
	return func(_ context.Context, from, upTo domain.Serial) (span, domain.Serial, error) {
		if upTo == 0 {
			upTo = feed.Tip()
		}
		to := max(from, min(upTo, from+limit))
		return span{from, to}, to, nil
	}
}

func room(t *testing.T) (*domaintest.Home, domain.ChatRoomInfo, domain.Feed) {
	h := domaintest.New(domaintest.Config{})
	info := h.AddRoom("lobby")
	x, err := h.ChatRoom(t.Context(), info.Shard, info.ID)
	if err != nil {
		t.Fatal(err)
	}
	return h, info, x.Feed()
}

func TestFollow_FirstEventComesAtOnceEvenWhenEmpty(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		_, _, feed := room(t)
		ctx, cancel := context.WithCancel(t.Context())
		c := stream.Follow(ctx, feed, 0, spans(feed, 10))
		if got := <-c; got != (span{0, 0}) {
			t.Errorf("first event %v, want an empty one", got)
		}
		cancel()
		if _, ok := <-c; ok {
			t.Error("an event after the end")
		}
	})
}

func TestFollow_ReplaysInBoundedBatchesThenOneEventAGroupCommit(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		h, info, feed := room(t)
		h.PostN(info.ID, 25)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := stream.Follow(ctx, feed, 3, spans(feed, 10))
		for _, want := range []span{{3, 13}, {13, 23}, {23, 25}} {
			if got := <-c; got != want {
				t.Fatalf("replay: %v, want %v", got, want)
			}
		}
		for _, n := range []int{1, 7} {
			tip := feed.Tip()
			h.PostN(info.ID, n)
			if got, want := <-c, (span{tip, tip + domain.Serial(n)}); got != want {
				t.Fatalf("live: %v, want %v", got, want)
			}
		}
	})
}

func TestFollow_ASlowReaderLagsWithoutQueue(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		h, info, feed := room(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := stream.Follow(ctx, feed, 0, spans(feed, 1000))
		<-c
		for range 50 {
			h.PostN(info.ID, 2)
		}
		synctest.Wait()
		seen := 0
		for pos := domain.Serial(0); pos < 100; seen++ {
			got := <-c
			if got.from != pos {
				t.Fatalf("event %v at position %d", got, pos)
			}
			pos = got.to
		}
		if seen > 2 {
			t.Errorf("%d events for what one reader missed, want at most 2", seen)
		}
	})
}

func TestFollow_EndsWithTheReason(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		name string
		read func(domain.Feed) stream.Read[span]
		end  func(*domaintest.Home, domain.ChatRoomInfo)
		want func(error) bool
	}{
		{"the tenure ends", func(f domain.Feed) stream.Read[span] { return spans(f, 10) },
			func(h *domaintest.Home, i domain.ChatRoomInfo) { h.Lock(i.Shard) },
			func(err error) bool { _, ok := errors.AsType[*domain.ShardNotOwnedError](err); return ok }},
		{"a read fails", func(f domain.Feed) stream.Read[span] {
			return func(ctx context.Context, from, upTo domain.Serial) (span, domain.Serial, error) {
				if f.Tip() > 0 {
					return span{}, 0, boom
				}
				return spans(f, 10)(ctx, from, upTo)
			}
		}, func(h *domaintest.Home, i domain.ChatRoomInfo) { h.PostN(i.ID, 1) },
			func(err error) bool { return errors.Is(err, boom) }},
		{"a read panics", func(f domain.Feed) stream.Read[span] {
			return func(ctx context.Context, from, upTo domain.Serial) (span, domain.Serial, error) {
				if f.Tip() > 0 {
					panic(boom)
				}
				return spans(f, 10)(ctx, from, upTo)
			}
		}, func(h *domaintest.Home, i domain.ChatRoomInfo) { h.PostN(i.ID, 1) },
			func(err error) bool {
				p, ok := errors.AsType[*stream.PanicError](err)
				return ok && p.Value == any(boom) && len(p.Stack) > 0
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Run("goroutine", func(t *testing.T) {
				bubbletest.Test(t, func(t *testing.T) {
					h, info, feed := room(t)
					ctx, s := stream.Attach(t.Context())
					c := stream.Follow(ctx, feed, 0, tc.read(feed))
					<-c
					tc.end(h, info)
					if e, ok := <-c; ok {
						t.Fatalf("event %v after the end", e)
					}
					if !tc.want(s.Err()) {
						t.Errorf("ended with %v", s.Err())
					}
					synctest.Wait()
					if n := domaintest.Watchers(feed); n != 0 {
						t.Errorf("%d watchers stay", n)
					}
				})
			})
			t.Run("shared", func(t *testing.T) {
				h, info, feed := room(t)
				ctx, s := stream.Share(t.Context())
				c := stream.Follow(ctx, feed, 0, tc.read(feed))
				if to, ok := s.Push(ctx, s.Start(), 0); to != 0 || !ok {
					t.Fatal("the first event is refused")
				}
				<-c
				tc.end(h, info)
				if _, ok := s.Push(ctx, 0, 0); ok {
					t.Fatal("an event after the end")
				}
				if _, ok := <-c; ok {
					t.Error("the channel is open")
				}
				if !tc.want(s.Err()) {
					t.Errorf("ended with %v", s.Err())
				}
				s.End(errors.New("later"))
				if !tc.want(s.Err()) {
					t.Errorf("a second end took the place of the first: %v", s.Err())
				}
			})
		})
	}
}

func TestShare_FollowOnlyRegisters(t *testing.T) {
	h, info, feed := room(t)
	h.PostN(info.ID, 5)
	ctx, s := stream.Share(t.Context())
	if s.Following() {
		t.Error("it follows before a resolver said so")
	}
	c := stream.Follow(ctx, feed, 2, spans(feed, 2))
	if !s.Following() || s.Feed() != feed || s.Start() != 2 {
		t.Errorf("registered %v %v %v", s.Following(), s.Feed(), s.Start())
	}
	for _, want := range []span{{2, 4}, {4, 5}, {5, 5}} {
		if to, ok := s.Push(ctx, want.from, 0); !ok || to != want.to {
			t.Fatalf("push from %d: %v %v", want.from, to, ok)
		}
		if got := <-c; got != want {
			t.Errorf("batch %v, want %v", got, want)
		}
	}
	if n := domaintest.Watchers(feed); n != 0 {
		t.Errorf("%d watchers; the transport watches", n)
	}
}

func TestBroken_SeesALapsedLeaseThatWokeNobody(t *testing.T) {
	h, info, feed := room(t)
	ctx, s := stream.Share(t.Context())
	stream.Follow(ctx, feed, 0, spans(feed, 2))
	if err := s.Broken(false); err != nil {
		t.Fatal(err)
	}
	h.Lapse(info.Shard)
	if s.Broken(false) == nil || s.Err() != nil {
		t.Errorf("broken %v, err %v", s.Broken(false), s.Err())
	}
}

func TestFollow_StopsWithItsContextInAnyState(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		h, info, feed := room(t)
		for _, take := range []int{0, 1} { // blocked on the first event; waiting for the next one
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			c := stream.Follow(ctx, feed, 0, spans(feed, 2))
			for range take {
				<-c
			}
			<-ctx.Done()
			cancel()
			synctest.Wait()
			if n := domaintest.Watchers(feed); n != 0 {
				t.Errorf("%d watchers stay", n)
			}
		}
		h.PostN(info.ID, 1)
	})
}
