//go:build race

package hostile

const raceEnabled = true // the program is built with the race detector too
