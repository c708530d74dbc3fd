//go:build race

// Package racetest tells tests whether they run with the race detector.
package racetest

// Enabled says so.
const Enabled = true
