package cluster

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka's answers name the brokers' addresses, and a client follows them. A link puts its own addresses there
// (https://kafka.apache.org/protocol: Metadata and FindCoordinator).

// call is a request whose answer the link looks at.
type call struct {
	key, version int16
}

// asked notes a request. A frame is size (4 bytes), key (2), version (2), correlation id (4), …
func (p *pair) asked(frame []byte) {
	if len(frame) < 12 {
		return
	}
	c := call{key: int16(binary.BigEndian.Uint16(frame[4:])), version: int16(binary.BigEndian.Uint16(frame[6:]))}
	switch kmsg.Key(c.key) {
	case kmsg.Metadata, kmsg.FindCoordinator, kmsg.Produce:
		p.mu.Lock()
		p.waiting[int32(binary.BigEndian.Uint32(frame[8:]))] = c
		p.mu.Unlock()
	}
}

// answered looks at an answer: size (4 bytes), correlation id (4), … It returns the frame to hand on; false: the
// connection is to be reset instead.
func (l *Link) answered(p *pair, frame []byte) ([]byte, bool) {
	if len(frame) < 8 {
		return frame, true
	}
	id := int32(binary.BigEndian.Uint32(frame[4:]))
	p.mu.Lock()
	c, ok := p.waiting[id]
	delete(p.waiting, id)
	p.mu.Unlock()
	if !ok {
		return frame, true
	}
	if kmsg.Key(c.key) == kmsg.Produce {
		l.mu.Lock()
		lose := l.acks > 0
		if lose {
			l.acks--
		}
		l.mu.Unlock()
		if lose {
			l.LostAcks.Add(1)
		}
		return frame, !lose
	}
	changed, err := l.rewrite(c, frame)
	if err != nil {
		return nil, false // an address would lead around the link
	}
	return changed, true
}

func (l *Link) rewrite(c call, frame []byte) ([]byte, error) {
	var answer kmsg.Response
	var change func() error
	switch kmsg.Key(c.key) {
	case kmsg.Metadata:
		m := kmsg.NewPtrMetadataResponse()
		answer, change = m, func() error {
			for i := range m.Brokers {
				if err := l.replace(&m.Brokers[i].Host, &m.Brokers[i].Port); err != nil {
					return err
				}
			}
			return nil
		}
	default:
		m := kmsg.NewPtrFindCoordinatorResponse()
		answer, change = m, func() error {
			if err := l.replace(&m.Host, &m.Port); err != nil {
				return err
			}
			for i := range m.Coordinators {
				if err := l.replace(&m.Coordinators[i].Host, &m.Coordinators[i].Port); err != nil {
					return err
				}
			}
			return nil
		}
	}
	answer.SetVersion(c.version)
	head := 8
	if answer.IsFlexible() {
		head++ // tags of the header, of which there are none
	}
	if len(frame) < head || (head == 9 && frame[8] != 0) {
		return nil, fmt.Errorf("answer to %s: unknown header", kmsg.NameForKey(c.key))
	}
	if err := answer.ReadFrom(frame[head:]); err != nil {
		return nil, fmt.Errorf("decode an answer to %s: %w", kmsg.NameForKey(c.key), err)
	}
	if err := change(); err != nil {
		return nil, err
	}
	out := answer.AppendTo(append([]byte(nil), frame[:head]...))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}

func (l *Link) replace(host *string, port *int32) error {
	if *host == "" {
		return nil // an answer that names none
	}
	way, err := l.way(net.JoinHostPort(*host, strconv.Itoa(int(*port))))
	if err != nil {
		return err
	}
	h, p, err := net.SplitHostPort(way)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(p)
	*host, *port = h, int32(n)
	return err
}
