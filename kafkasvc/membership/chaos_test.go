package membership

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// Whatever happens, in whatever order: no shard has two owners with a lease (board.assigned), every stop is
// bounded, and when peace comes the shards are shared evenly.
func TestChaos(t *testing.T) {
	small := DefaultTimeouts()
	small.Session, small.Rebalance = 2*time.Second, 2*time.Second
	for seed := range uint64(16) {
		times := DefaultTimeouts()
		if seed%2 == 1 {
			times = small
		}
		inTimeOf(t, fmt.Sprint("seed ", seed), times, func(t *testing.T, g *group) {
			chaos(t, g, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func chaos(t *testing.T, g *group, r *rand.Rand) {
	names := []string{"a", "b", "c", "d"}
	nodes := make(map[string]*node)
	heal := func(n *node) {
		n.link.Heal()
		n.beats.Heal()
	}
	for range 60 {
		name := names[r.IntN(len(names))]
		n := nodes[name]
		time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
		if n == nil {
			nodes[name] = g.node(name).start()
			continue
		}
		links := [][]*kafkatest.Link{{n.link}, {n.beats}, {n.link, n.beats}}[r.IntN(3)]
		switch r.IntN(7) {
		case 0:
			limit := stopLimit + 50*time.Millisecond
			if took := n.stop(); took > limit || n.err != nil {
				t.Errorf("%s: stop took %v: %v", name, took, n.err)
			}
			delete(nodes, name)
		case 1:
			if gen := n.generation(); gen != nil {
				gen.Rejoin(errors.New("chaos"))
			}
		case 2:
			for _, l := range links {
				l.CloseConns()
			}
		case 3:
			for _, l := range links {
				l.Cut()
			}
		case 4:
			for _, l := range links {
				l.Silence()
			}
		default:
			heal(n)
		}
	}
	var alive []*node
	for _, name := range names {
		if nodes[name] == nil {
			nodes[name] = g.node(name).start()
		}
		heal(nodes[name])
		alive = append(alive, nodes[name])
	}
	took := g.within(time.Minute, "peace", g.settled(alive...))
	t.Logf("peace after %v", took)
}
