package kafkalog

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
)

// conn is one authenticated connection to a broker. One request is under way at a time. After any error but a
// broker's error code it is out of step and must be closed.
type conn struct {
	addr     string
	net      net.Conn
	pc       *protocol.Conn // requests that are not hot go through kafka-go's encoding
	versions map[protocol.ApiKey]versionRange
	clientID string

	correlation int32
	wbuf        []byte // the request being built, reused
	rbuf        []byte // small answers, reused

	idleSince time.Time
}

type versionRange struct{ min, max int16 }

// Stage says how far the way to a broker went.
type Stage string

// The stages of reaching a broker, in order.
const (
	StageConnect      Stage = "connect"
	StageTLS          Stage = "tls"
	StageVersions     Stage = "versions"
	StageAuthenticate Stage = "authenticate"
	StageRequest      Stage = "request"
)

// BrokerError is what happened on the way to a broker, before or with a request.
type BrokerError struct {
	Broker string // address
	Stage  Stage
	Err    error
	hint   string
}

func (e *BrokerError) Error() string {
	if e.hint != "" {
		return fmt.Sprintf("broker %s: %s (%v)", e.Broker, e.hint, e.Err)
	}
	return fmt.Sprintf("broker %s: %s: %v", e.Broker, e.Stage, e.Err)
}

func (e *BrokerError) Unwrap() error { return e.Err }

// guard closes the connection when ctx ends. stop returns false if that happened.
func (c *conn) guard(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.net.Close() })
}

func (c *conn) close() { _ = c.net.Close() }

// dial connects, encrypts, learns the broker's versions and authenticates.
func (c *Cluster) dial(ctx context.Context, addr string) (_ *conn, err error) {
	limit := 3 * c.cfg.RPCTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
	stop := context.AfterFunc(c.ctx, cancel)
	defer stop()

	stage := StageConnect
	defer func() {
		if err != nil {
			if c.ctx.Err() != nil {
				err = ErrClosed
			} else if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			err = c.brokerError(addr, stage, err)
		}
	}()

	raw, err := c.cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	tracked, err := c.track(raw)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = tracked.Close()
		}
	}()
	closer := context.AfterFunc(ctx, func() { _ = tracked.Close() })
	defer func() {
		if !closer() && err == nil {
			err = ctx.Err()
		}
	}()

	n := net.Conn(tracked)
	if c.cfg.TLS != nil {
		stage = StageTLS
		cfg := c.cfg.TLS()
		if cfg.ServerName == "" {
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			cfg = cfg.Clone()
			cfg.ServerName = host
		}
		t := tls.Client(n, cfg)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		n = t
	}

	k := &conn{addr: addr, net: n, pc: protocol.NewConn(n, c.cfg.ClientID), clientID: c.cfg.ClientID}
	stage = StageVersions
	if err := k.negotiate(); err != nil {
		return nil, err
	}
	if c.cfg.SASL != nil {
		stage = StageAuthenticate
		if err := k.authenticate(ctx, c.cfg.SASL); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// negotiate asks for the broker's versions. Version 0 of the question is the one that every broker understands.
func (k *conn) negotiate() error {
	m, err := k.roundTrip(new(apiversions.Request))
	if err != nil {
		return err
	}
	res := m.(*apiversions.Response)
	if res.ErrorCode != 0 {
		return kafka.Error(res.ErrorCode)
	}
	k.versions = make(map[protocol.ApiKey]versionRange, len(res.ApiKeys))
	use := make(map[protocol.ApiKey]int16, len(res.ApiKeys))
	for _, v := range res.ApiKeys {
		key := protocol.ApiKey(v.ApiKey)
		k.versions[key] = versionRange{v.MinVersion, v.MaxVersion}
		use[key] = key.SelectVersion(v.MinVersion, v.MaxVersion)
	}
	k.pc.SetVersions(use)
	return nil
}

func (k *conn) authenticate(ctx context.Context, mechanism sasl.Mechanism) error {
	m, err := k.roundTrip(&saslhandshake.Request{Mechanism: mechanism.Name()})
	if err != nil {
		return err
	}
	if res := m.(*saslhandshake.Response); res.ErrorCode != 0 {
		return fmt.Errorf("%w (it offers %s)", kafka.Error(res.ErrorCode), strings.Join(res.Mechanisms, ", "))
	}
	host, port, err := net.SplitHostPort(k.addr)
	if err != nil {
		return err
	}
	meta := &sasl.Metadata{Host: host}
	if _, err := fmt.Sscan(port, &meta.Port); err != nil {
		return fmt.Errorf("port of broker %s: %w", k.addr, err)
	}
	session, state, err := mechanism.Start(sasl.WithMetadata(ctx, meta))
	if err != nil {
		return err
	}
	for done := false; !done; {
		m, err := k.roundTrip(&saslauthenticate.Request{AuthBytes: state})
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return kafka.SASLAuthenticationFailed // some brokers say no by hanging up
		}
		if err != nil {
			return err
		}
		res := m.(*saslauthenticate.Response)
		if res.ErrorCode != 0 {
			return kafka.Error(res.ErrorCode)
		}
		if done, state, err = session.Next(ctx, res.AuthBytes); err != nil {
			return err
		}
	}
	return nil
}

// roundTrip sends a request in kafka-go's encoding. A damaged answer can make its decoder panic; that is one broken
// connection, not a broken process.
func (k *conn) roundTrip(m protocol.Message) (_ protocol.Message, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged answer: %v", r)
		}
	}()
	return k.pc.RoundTrip(m)
}

// version picks the newest version of an API that both sides know, from oldest to newest.
func (k *conn) version(key protocol.ApiKey, oldest, newest int16) (int16, error) {
	r, ok := k.versions[key]
	v := min(r.max, newest)
	if !ok || v < oldest || v < r.min {
		return 0, &UnsupportedError{API: key.String(), Min: oldest, Max: newest, Broker: k.addr}
	}
	return v, nil
}

// UnsupportedError: the broker is too old, or too new, for a request that chathome needs.
type UnsupportedError struct {
	API      string
	Min, Max int16 // versions that would do
	Broker   string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("broker %s does not support %s in a version from %d to %d", e.Broker, e.API, e.Min, e.Max)
}

// begin starts a request of our own encoding: append to what it returns and send it.
func (k *conn) begin(key protocol.ApiKey, version int16) []byte {
	k.correlation++
	b := append(k.wbuf[:0], 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(k.correlation))
	return appendString(b, k.clientID)
}

func (k *conn) send(b []byte) error {
	k.wbuf = b
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_, err := k.pc.Write(b)
	return err
}

// receiveHeader reads up to the body of the answer to the request that was sent, and returns the body's size.
func (k *conn) receiveHeader(limit int) (size int, err error) {
	h := k.small(8)
	if _, err := io.ReadFull(k.pc, h); err != nil {
		return 0, err
	}
	size = int(int32(binary.BigEndian.Uint32(h))) - 4
	if size < 0 || size > limit {
		return 0, damaged("answer of %d bytes", size)
	}
	if id := int32(binary.BigEndian.Uint32(h[4:])); id != k.correlation {
		return 0, damaged("answer %d to request %d", id, k.correlation)
	}
	return size, nil
}

// receive reads a small answer whole. It is valid until the next request.
func (k *conn) receive() (*decoder, error) {
	const limit = 1 << 20
	size, err := k.receiveHeader(limit)
	if err != nil {
		return nil, err
	}
	body := k.small(size)
	if _, err := io.ReadFull(k.pc, body); err != nil {
		return nil, err
	}
	return &decoder{b: body}, nil
}

func (k *conn) small(n int) []byte {
	if cap(k.rbuf) < n {
		k.rbuf = make([]byte, max(n, 512))
	}
	return k.rbuf[:n]
}
