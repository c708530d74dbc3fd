package fanout

import (
	"log/slog"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph"
)

// Class says who may share a field's value.
type Class uint8

const (
	// Unshareable values depend on something besides the stream and its position: a read through the gate,
	// the state of a shard. The zero value, so that a field that nobody thought of is never shared.
	Unshareable Class = iota
	// PerViewer values depend on who asks.
	PerViewer
	// Immutable values are the same for everybody for ever.
	Immutable
)

// Config of a Hub. The zero value of a number means its default.
type Config struct {
	// Classify says who may share the value of a field that is selected anywhere below a subscription's
	// root field. nil: by graph.Immutable.
	Classify func(f *ast.Field) Class
	// LaneSize is how many members one goroutine writes to in turn. Default 512.
	LaneSize int
	// RingEvents and RingBytes bound what a group keeps for those who come to the same position later.
	// Defaults 16 and 1 MiB. The newest event is kept whatever its size.
	RingEvents, RingBytes int
	// TotalRingBytes bounds what all groups keep together; over it each keeps its newest event only.
	// Default 64 MiB.
	TotalRingBytes int64
	// CatchUps is how many members that lag or resume are served at once. Default: half as many as there are
	// processors, at least one.
	CatchUps int
	// Observer may be nil.
	Observer Observer
	// Log gets panics of executions. nil: slog.Default().
	Log *slog.Logger
}

// Observer counts what happens. Its methods must not wait.
type Observer interface {
	// Executed: the executor was asked for one response of a subscription that follows a feed.
	Executed()
	// Delivered: n events were handed to sinks in one round or catch-up; pending of them did not go out
	// at once, because the client was slow.
	Delivered(n, pending int)
	// CaughtUp: one event went to a member that lagged or resumed; it was so far behind before.
	CaughtUp(behind domain.Serial)
	// Cut: a subscription ended because its client could not be written to: too slow, or gone.
	Cut()
}

type unobserved struct{}

func (unobserved) Executed()              {}
func (unobserved) Delivered(int, int)     {}
func (unobserved) CaughtUp(domain.Serial) {}
func (unobserved) Cut()                   {}

func (c Config) withDefaults() Config {
	if c.Classify == nil {
		c.Classify = func(f *ast.Field) Class {
			if graph.Immutable(f) {
				return Immutable
			}
			return Unshareable
		}
	}
	if c.LaneSize <= 0 {
		c.LaneSize = 512
	}
	if c.RingEvents <= 0 {
		c.RingEvents = 16
	}
	if c.RingBytes <= 0 {
		c.RingBytes = 1 << 20
	}
	if c.TotalRingBytes <= 0 {
		c.TotalRingBytes = 64 << 20
	}
	if c.CatchUps <= 0 {
		c.CatchUps = defaultTurns()
	}
	if c.Observer == nil {
		c.Observer = unobserved{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// Weight is as how many operations one counts where they are bounded: it keeps its document, parsed, as long as it lives.
// One with a document of weight bytes was seen to hold 18 KB.
func Weight(op *graphql.OperationContext) int { return 1 + len(op.RawQuery)/weight }

const weight = 256

// Request is one operation to run.
type Request struct {
	Exec graphql.GraphExecutor
	// Operation is what Exec.CreateOperationContext made.
	Operation *graphql.OperationContext
	// Viewer tells those apart who get different values of PerViewer fields. Everybody with the same one
	// may get the same bytes.
	Viewer string
	Sink   Sink
}
