//go:build !linux && !darwin

package membership

import "time"

var processStart = time.Now()

// BootClock reads a clock that never steps back. On this system it may stand still while the machine is
// suspended: a stale read is possible right after waking.
func BootClock() time.Duration { return time.Since(processStart) }
