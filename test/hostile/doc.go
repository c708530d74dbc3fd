// Package hostile attacks the real program over real sockets, while clients that behave go on sending and reading:
// what do they notice, what does the server hold meanwhile, and does it give everything back?
//
// victim.go builds and runs the program with the tag inspect, which lets the harness look inside; healthy.go is the
// clients that behave, raw.go connections that do what no library would, attacks.go the attacks. hostile_test.go
// runs a small form (go test) or all of it (make hostile): then strangers_test.go gives attackers a process of their own,
// and each attack is also run against another server of the same machine, which shows what attackers take by being there.
package hostile
