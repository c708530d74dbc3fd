package broker

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxRequest bounds a request. kfake takes memory for whatever length a client names: the first four bytes of an
// HTTP request ask it for more than a gigabyte.
const maxRequest = 64 << 20

// guarded is a listener whose connections carry Kafka requests only.
type guarded struct{ net.Listener }

func (g guarded) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guardedConn{Conn: c}, nil
}

// guardedConn looks at the head of each request before the broker reads any of it, and ends the connection at one
// that the broker would not survive: an unknown kind of request crashes kfake.
type guardedConn struct {
	net.Conn
	head    [headLen]byte
	pending []byte // of head, not read yet
	left    int    // of the request, behind head
}

const headLen = 4 + 2 + 2 // length, key, version

func (c *guardedConn) Read(p []byte) (int, error) {
	if len(c.pending) == 0 && c.left == 0 {
		if _, err := io.ReadFull(c.Conn, c.head[:]); err != nil {
			return 0, err
		}
		size := int(binary.BigEndian.Uint32(c.head[:]))
		key := int16(binary.BigEndian.Uint16(c.head[4:]))
		if size < headLen-4 || size > maxRequest || kmsg.RequestForKey(key) == nil {
			return 0, fmt.Errorf("not a Kafka request: %d bytes of kind %d", size, key)
		}
		c.pending, c.left = c.head[:], size-(headLen-4)
	}
	if len(c.pending) > 0 {
		n := copy(p, c.pending)
		c.pending = c.pending[n:]
		return n, nil
	}
	if len(p) > c.left {
		p = p[:c.left]
	}
	n, err := c.Conn.Read(p)
	c.left -= n
	return n, err
}
