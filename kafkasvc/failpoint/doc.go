// Package failpoint names the moments at which a simulation lets an instance crash. In the product it is nothing: Hit
// is empty unless the program was built with the tag failpoints.
package failpoint

// Point is a moment on the way of a message, or in the life of a shard.
type Point string

// The points. Before and after each step whose loss could be seen by anybody.
const (
	BeforeAppend   Point = "before append"             // a batch is decided, nothing was sent
	AfterAppend    Point = "after append"              // the broker has answered, nobody has looked at it
	BeforeCommit   Point = "before commit"             // it counts, the local store does not have it
	AfterCommit    Point = "after commit"              // the local store has it, the sender has no answer
	AfterTakeover  Point = "after takeover"            // acknowledged, nothing is loaded
	WhileLoading   Point = "while loading"             // a part is read, and may be committed
	AfterLoading   Point = "after loading"             // loaded, not open yet
	BeforeAnnounce Point = "before the announcement"   // a room or an owner is to be announced
	AfterAnnounce  Point = "after the announcement"    // it was announced, nobody was told
	AfterRevoke    Point = "after the gate was locked" // a rebalance: locked, not drained
)

// Points are all.
var Points = []Point{
	BeforeAppend, AfterAppend, BeforeCommit, AfterCommit, AfterTakeover, WhileLoading, AfterLoading,
	BeforeAnnounce, AfterAnnounce, AfterRevoke,
}
