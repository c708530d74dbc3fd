//go:build linux || darwin

package membership

import (
	"time"

	"golang.org/x/sys/unix"
)

// BootClock reads a clock that never steps back and goes on while the machine is suspended. A hypervisor that
// pauses the whole machine may stop it too: one stale read is possible then.
func BootClock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(bootClockID, &ts); err != nil {
		panic("membership: this kernel has no boot clock: " + err.Error()) // since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}
