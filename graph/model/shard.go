package model

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/chathome/chathome/domain"
)

// ShardState is the schema's enum.
type ShardState string

// MarshalGQL writes the name.
func (s ShardState) MarshalGQL(w io.Writer) { _, _ = io.WriteString(w, strconv.Quote(string(s))) }

// UnmarshalGQL takes one of the names.
func (s *ShardState) UnmarshalGQL(v any) error {
	for _, known := range []domain.ShardState{domain.ShardNotAssigned, domain.ShardLocked, domain.ShardLoading, domain.ShardOpen} {
		if v == known.String() {
			*s = ShardState(known.String())
			return nil
		}
	}
	return fmt.Errorf("not a ShardState")
}

// Shard is the schema's Shard.
type Shard struct {
	Number   int32
	State    ShardState
	NotOwned *ShardNotOwned
}

// ShardNotOwned is the schema's ShardNotOwned. As JSON it is also the extension of the error SHARD_NOT_OWNED, so
// the names of its fields and their wire forms are those of the schema.
type ShardNotOwned struct {
	Shard        int32         `json:"shard"`
	State        ShardState    `json:"state"`
	Instance     *Instance     `json:"instance"`
	Owner        *ShardOwner   `json:"owner"`
	Progress     *LoadProgress `json:"progress"`
	RetryAfterMs int32         `json:"retryAfterMs"`
}

// ShardOwner is the schema's ShardOwner.
type ShardOwner struct {
	Instance *Instance     `json:"instance"`
	Version  domain.Offset `json:"version,string"`
}

// LoadProgress is the schema's LoadProgress.
type LoadProgress struct {
	Loaded domain.Offset `json:"loaded,string"`
	Target domain.Offset `json:"target,string"`
	Ratio  float64       `json:"ratio"`
}

// Instance is the schema's Instance.
type Instance struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// ShardsOf are the schema's shards.
func ShardsOf(list []domain.ShardStatus) []Shard {
	shards := make([]Shard, len(list))
	for i, s := range list {
		shards[i] = Shard{Number: int32(s.Shard), State: ShardState(s.State.String())}
		if s.NotOwned != nil {
			shards[i].NotOwned = ShardNotOwnedOf(s.NotOwned)
		}
	}
	return shards
}

// ShardNotOwnedOf is e as clients see it.
func ShardNotOwnedOf(e *domain.ShardNotOwnedError) *ShardNotOwned {
	n := &ShardNotOwned{
		Shard:        int32(e.Shard),
		State:        ShardState(e.State.String()),
		Instance:     InstanceOf(e.Instance),
		RetryAfterMs: RetryAfterMs(e.RetryAfter),
	}
	if e.Owner != nil {
		n.Owner = &ShardOwner{Instance: InstanceOf(e.Owner.Instance), Version: e.Owner.Version}
	}
	if e.Progress != nil {
		n.Progress = &LoadProgress{Loaded: e.Progress.Loaded, Target: e.Progress.Target, Ratio: e.Progress.Ratio()}
	}
	return n
}

// InstanceOf is i as clients see it.
func InstanceOf(i domain.Instance) *Instance { return &Instance{ID: i.ID, URL: i.URL} }

// RetryAfterMs rounds up: a client must not come back too early.
func RetryAfterMs(d time.Duration) int32 {
	const most = 1 << 30
	return int32(min(max(0, (d+time.Millisecond-1)/time.Millisecond), most))
}
