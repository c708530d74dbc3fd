package main

import (
	"fmt"
	"os"
	"time"
)

// restart stops the server behind its readers' backs and starts it again on the same data: all come back at once as
// soon as it is ready, each from another cursor, to a process that has nothing in memory. Nobody tries twice: who is
// refused stays incomplete.
func restart(o options, dir string) error {
	t, err := startChathome(o.server, dir)
	if err != nil {
		return err
	}
	defer func() { _ = t.stop() }()
	c, err := newCrowd(t, 1) // to see that everything has arrived
	if err != nil {
		return err
	}
	w, err := newWriter(t)
	if err != nil {
		return err
	}
	cursors, newest, err := c.missing(w, o.subscribers, o.herd, o.size)
	_ = w.c.Close()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := t.stop(); err != nil {
		return err
	}
	stopped := time.Since(start)
	if err := t.again(); err != nil {
		return err
	}
	ready := time.Since(start) - stopped
	idle, back, generator := rssKB(t.pid()), time.Now(), cpuSeconds(os.Getpid())
	server := cpuSeconds(t.pid())
	subs, err := t.comeBack(cursors, newest-int64(len(cursors)+o.herd)+1, newest)
	if err != nil {
		return err
	}
	took := time.Since(back)
	delivered, incomplete := leave(subs, newest)
	fmt.Printf("restart: stopped in %.2f s, ready %.2f s later; %d come back at once, at least %d messages behind: %d deliveries in %.2f s, %d incomplete; %.2f s of the server's processor time (generator %.2f); RSS %.0f MB before, %.0f MB at most\n",
		stopped.Seconds(), ready.Seconds(), len(subs), o.herd, delivered, took.Seconds(), incomplete,
		cpuSeconds(t.pid())-server, cpuSeconds(os.Getpid())-generator, idle/1024, peakKB(t.pid())/1024)
	return nil
}
