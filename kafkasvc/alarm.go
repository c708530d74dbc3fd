package kafkasvc

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/membership"
)

// Kinds of alarms that come from here; the directory and the group have their own.
const (
	alarmTruncated   = "truncated"    // the log lost records that were acknowledged, or was replaced
	alarmHole        = "hole"         // offsets are missing in the log
	alarmStore       = "store"        // the local store failed
	alarmRefused     = "refused"      // the broker refuses for good to store
	alarmAnotherLife = "another life" // the topics were deleted and created again
	alarmMisfit      = "misfit"       // a record that counts does not fit those before it: the log lost some
)

// alarm counts what a person has to look at, by kind. Whoever calls it has said in the log what happened.
func (h *Home) alarm(kind string) {
	n, _ := h.counts.Alarms.LoadOrStore(kind, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	h.cfg.Alarm(kind)
}

func (h *Home) directoryAlarm(a directory.Alarm) {
	h.lg.Error("the directory found something that should not be", "what", string(a.Kind), "shard", int(a.Shard), "have", a.Have, "want", a.Want)
	h.alarm(string(a.Kind))
}

// groupAlarm is told of the group by its leader, at each rebalance anew.
func (h *Home) groupAlarm(a membership.Alarm) {
	level := slog.LevelError
	if a.Kind == membership.AlarmDuplicateInstance {
		level = slog.LevelWarn // a restart after a kill meets its own ghost for a moment
	}
	h.lg.Log(context.Background(), level, "the group is not as it should be", "what", a.Kind.String(), "group", h.cfg.GroupID, "member", a.Member, "of", a.Instance)
	h.alarm(a.Kind.String())
}
