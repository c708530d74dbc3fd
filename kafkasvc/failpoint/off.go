//go:build !failpoints

package failpoint

import "github.com/chathome/chathome/domain"

// Enabled says whether Hit does anything.
const Enabled = false

// Hit is where an instance may crash.
func Hit(Point, domain.Instance) {}

// Watch does nothing in this build.
func Watch(domain.Instance, func(Point)) (stop func()) { return func() {} }
