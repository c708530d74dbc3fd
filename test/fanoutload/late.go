package main

import (
	"runtime"
	"syscall"
)

// watchLate measures how late the machine lets this program run: a thread that sleeps wakes that much later than it
// wanted, and so does the one that reads for the subscribers. What they measure has that in it. The function that
// it returns ends it.
func watchLate() (stop func() *histogram) {
	const every = 2_000_000 // ns
	end, ended := make(chan struct{}), make(chan *histogram)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var h histogram
		for {
			at := now()
			_ = syscall.Nanosleep(&syscall.Timespec{Nsec: every}, nil)
			h.add(now() - at - every)
			select {
			case <-end:
				ended <- &h
				return
			default:
			}
		}
	}()
	return func() *histogram {
		close(end)
		return <-ended
	}
}
