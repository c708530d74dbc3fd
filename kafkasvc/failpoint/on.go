//go:build failpoints

package failpoint

import (
	"sync"

	"github.com/chathome/chathome/domain"
)

// Enabled says whether Hit does anything.
const Enabled = true

var watchers sync.Map // domain.Instance -> func(Point)

// Hit is where an instance may crash.
func Hit(p Point, who domain.Instance) {
	if f, ok := watchers.Load(who); ok {
		f.(func(Point))(p)
	}
}

// Watch calls f at each point that the instance comes by, on the goroutine that does, until stop.
func Watch(who domain.Instance, f func(Point)) (stop func()) {
	watchers.Store(who, f)
	return func() { watchers.Delete(who) }
}
