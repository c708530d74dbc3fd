//go:build race

package limits

// raceEnabled: the race detector makes everything about ten times slower.
const raceEnabled = true
