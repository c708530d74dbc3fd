package membership

import "golang.org/x/sys/unix"

const bootClockID = unix.CLOCK_MONOTONIC // on this system it counts sleep
