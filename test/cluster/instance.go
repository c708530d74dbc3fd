package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Instance is one chathome serve.
type Instance struct {
	*Process
	URL  string
	Dir  string // its data directory
	Link *Link  // its way to the broker; nil unless the cluster has links
}

// Start starts it. It does not wait until it is ready.
func (i *Instance) Start() error { return i.start() }

// StoreDir is where its local store lies.
func (i *Instance) StoreDir() string { return filepath.Join(i.Dir, "local") }

// RemoveStore deletes its local store, which is a cache, but for its id: a new one is drawn. Not while it runs.
func (i *Instance) RemoveStore() error {
	if i.Running() {
		return fmt.Errorf("remove the store of %s: %w", i.Name, ErrRunning)
	}
	return os.RemoveAll(i.StoreDir())
}

// probe bounds one look at an instance, which may be stopped.
const probe = 2 * time.Second

// Ready asks once; why is what it answered when it is not.
func (i *Instance) Ready(ctx context.Context) (ready bool, why string) {
	ctx, cancel := context.WithTimeout(ctx, probe)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.URL+"/readyz", nil)
	if err != nil {
		return false, err.Error()
	}
	res, err := looker.Do(req)
	if err != nil {
		return false, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return false, err.Error()
	}
	return res.StatusCode == http.StatusOK, string(b)
}

// WaitReady waits until it is ready, or ends, or ctx ends.
func (i *Instance) WaitReady(ctx context.Context) error {
	for {
		ready, why := i.Ready(ctx)
		if ready {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-i.Ended():
			return fmt.Errorf("%s ended while it was awaited: %s; log %s", i.Name, i.How(), i.LogFile)
		case <-ctx.Done():
			return fmt.Errorf("%s did not get ready: %s; log %s: %w", i.Name, why, i.LogFile, ctx.Err())
		}
	}
}

// looker keeps no connections: the instances behind them come and go.
var looker = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
