package kafka

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are drawn from below those that an operating system gives to outgoing connections, so that a broker finds
// its own free when it starts again.
const lowPort, highPort = 20_000, 30_000

func freePorts(n int) ([]int, error) {
	var ports []int
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // it was opened to see that the port is free
		}
	}()
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := lowPort + rand.IntN(highPort-lowPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		held = append(held, l)
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d", n, lowPort, highPort)
}
