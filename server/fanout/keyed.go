package fanout

import (
	"sync"

	"github.com/chathome/chathome/domain"
)

// keyedMutex is a mutex for each position. The zero value is ready.
type keyedMutex struct {
	mu   sync.Mutex
	held map[domain.Serial]*keyLock
}

type keyLock struct {
	mu    sync.Mutex
	users int // who hold or want it; under keyedMutex.mu
}

func (k *keyedMutex) lock(pos domain.Serial) {
	k.mu.Lock()
	l := k.held[pos]
	if l == nil {
		if k.held == nil {
			k.held = map[domain.Serial]*keyLock{}
		}
		l = &keyLock{}
		k.held[pos] = l
	}
	l.users++
	k.mu.Unlock()
	l.mu.Lock()
}

func (k *keyedMutex) unlock(pos domain.Serial) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.held[pos]
	l.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.held, pos)
	}
}
