package sim

// lock is a mutex that may be held while fake time passes: who waits for it is durably blocked, as testing/synctest
// calls it. Who waits for a sync.Mutex is not, and time would stand still.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }
