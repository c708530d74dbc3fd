package hostile

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// raw is a connection that does what no library would. Nothing here waits longer than patience.
type raw struct {
	*net.TCPConn
	in *bufio.Reader
}

const patience = 90 * time.Second

func dial(t *testing.T, address string, receiveBuffer int) *raw {
	t.Helper()
	stranger := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Control: portLater} // limits are for each address
	c, err := stranger.Dial("tcp", address)
	if err != nil {
		t.Errorf("connect: %v", err)
		return nowhere()
	}
	tcp := c.(*net.TCPConn)
	if receiveBuffer > 0 {
		_ = tcp.SetReadBuffer(receiveBuffer)
	}
	_ = tcp.SetDeadline(time.Now().Add(patience))
	return &raw{TCPConn: tcp, in: bufio.NewReaderSize(tcp, 512)}
}

// portLater lets Linux choose the port when it knows where to: before, it looks for one that no ended connection had,
// and after ten thousand of those costs more than the attack.
func portLater(_, _ string, c syscall.RawConn) error {
	const bindAddressNoPort = 24 // IP_BIND_ADDRESS_NO_PORT
	return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, bindAddressNoPort, 1) })
}

// nowhere is a connection that was not made: it gives errors, and the test goes on.
func nowhere() *raw {
	return &raw{TCPConn: new(net.TCPConn), in: bufio.NewReader(strings.NewReader(""))}
}

const upgrade = "GET /graphql HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n"

// socket upgrades; more are headers with their line ends.
func socket(t *testing.T, address string, receiveBuffer int, more string) *raw {
	t.Helper()
	c := dial(t, address, receiveBuffer)
	c.say(upgrade + more + "\r\n")
	r, err := http.ReadResponse(c.in, nil)
	if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("upgrade: %+v %v", r, err)
		_ = c.Close()
		return nowhere()
	}
	return c
}

// tryLater is what one socket too many from an address is told.
const tryLater = "closed 1013"

// ready is a socket after connection_ack, or nowhere where there are too many.
func ready(t *testing.T, address string, receiveBuffer int) *raw {
	t.Helper()
	c := socket(t, address, receiveBuffer, "")
	c.text(`{"type":"connection_init"}`)
	switch got := c.next(); {
	case got == tryLater:
		_ = c.Close()
		return nowhere()
	case !strings.Contains(got, "connection_ack"):
		t.Errorf("after init: %s", got)
	}
	return c
}

func (c *raw) say(s string) { _, _ = io.WriteString(c.TCPConn, s) } // it may be cut already

func (c *raw) text(message string) error { return c.frame(0x81, []byte(message)) }

// frame writes one masked frame, with zeros for a mask; first is its first byte.
func (c *raw) frame(first byte, payload []byte) error {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	_, err := c.Write(append(append(b, 0, 0, 0, 0), payload...))
	return err
}

// next is the next text, "closed CODE", or "gone". WebSocket's pings are not answered.
func (c *raw) next() string {
	for {
		var head [2]byte
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			return "gone"
		}
		n := int(head[1])
		var long [8]byte
		switch n {
		case 126:
			_, _ = io.ReadFull(c.in, long[:2])
			n = int(binary.BigEndian.Uint16(long[:]))
		case 127:
			_, _ = io.ReadFull(c.in, long[:])
			n = int(binary.BigEndian.Uint64(long[:]))
		}
		payload := make([]byte, n)
		if _, err := io.ReadFull(c.in, payload); err != nil {
			return "gone"
		}
		switch head[0] & 15 {
		case 1:
			return string(payload)
		case 8:
			return fmt.Sprintf("closed %d", binary.BigEndian.Uint16(payload))
		}
	}
}

// ended reads until the server has ended the connection, and says whether it has.
func (c *raw) ended() bool {
	_, err := io.Copy(io.Discard, c.in)
	var timeout net.Error
	return err == nil || !(asError(err, &timeout) && timeout.Timeout())
}

const follow = `subscription($room: ID!) { messages(chatRoomId: $room, last: 0) { edges { node { serial clientId text } } endCursor } }`

func subscription(id, room string) string {
	payload, _ := json.Marshal(map[string]any{"query": follow, "variables": map[string]string{"room": room}})
	return fmt.Sprintf(`{"id":%q,"type":"subscribe","payload":%s}`, id, payload)
}

// stream opens an event stream by POST.
func stream(t *testing.T, address, room string, receiveBuffer int) *raw {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"query": follow, "variables": map[string]string{"room": room}})
	c := dial(t, address, receiveBuffer)
	c.say(fmt.Sprintf("POST /graphql HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	return c
}
