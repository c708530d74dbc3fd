package ws

import (
	"encoding/binary"

	"github.com/chathome/chathome/server/fanout"
)

// Opcodes of RFC 6455 section 5.2.
const (
	opText  = 0x1
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xA
	final   = 0x80
)

// appendHeader appends the header of an unmasked frame in one piece with n bytes of payload.
func appendHeader(b []byte, opcode byte, n int) []byte {
	b = append(b, final|opcode)
	switch {
	case n < 126:
		return append(b, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
}

// newNextLayout is what stands around an event: {"id":…,"type":"next","payload": … }
func newNextLayout() *fanout.Layout {
	return &fanout.Layout{
		Header: func(dst []byte, n int) []byte { return appendHeader(dst, opText, n) },
		Suffix: []byte{'}'},
	}
}

// control makes a control frame, at most 125 bytes of payload.
func control(opcode byte, payload []byte) []byte {
	return append(appendHeader(make([]byte, 0, 2+len(payload)), opcode, len(payload)), payload...)
}

func closeFrame(code uint16, reason string) []byte {
	return control(opClose, append(binary.BigEndian.AppendUint16(nil, code), reason...))
}

// text makes a whole text frame.
func text(payload []byte) []byte {
	return append(appendHeader(make([]byte, 0, 10+len(payload)), opText, len(payload)), payload...)
}
