// Package domain says what a chat is: rooms, messages, the rules for both, and the contract of the gate.
//
// It is pure. Nothing here holds a goroutine, a clock, a lock or I/O, so the same code serves live writes,
// loading and checks. It imports the standard library and google/uuid only; a test holds it to that.
//
// Read it in this order: message.go (what is stored), rules.go (what may be said), chatroom.go (how a room
// decides), home.go (the gate and what lies behind it), errors.go (everything that can be answered instead).
package domain
