// Package scalar reads and writes the schema's scalars strictly: a value that would have to be guessed at is
// refused, so that two spellings never become one value, and no digit is lost.
//
// gqlgen's own take numbers, booleans and null for strings and ids, and integers beyond 32 bits.
package scalar

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"

	"github.com/chathome/chathome/domain"
)

// Error says what is wrong with a client's value. It does not hold the value.
type Error struct{ Reason string }

func (e *Error) Error() string { return e.Reason }

func refuse(format string, args ...any) error { return &Error{Reason: fmt.Sprintf(format, args...)} }

// MarshalString writes s as a JSON string.
func MarshalString(s string) graphql.Marshaler { return graphql.MarshalString(s) }

// UnmarshalString takes strings of valid Unicode only. Errors are *Error.
func UnmarshalString(v any) (string, error) { return text("a string", v) }

// MarshalID writes id as a JSON string.
func MarshalID(id string) graphql.Marshaler { return graphql.MarshalString(id) }

// UnmarshalID takes strings only: a number may have lost digits before it came here. Errors are *Error.
func UnmarshalID(v any) (string, error) { return text("an ID", v) }

func text(what string, v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", refuse("%s must be a JSON string, not %s", what, kind(v))
	}
	if !utf8.ValidString(s) {
		return "", refuse("%s must be valid UTF-8", what)
	}
	return s, nil
}

// MarshalInt writes a 32-bit number.
func MarshalInt(i int32) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		var buf [11]byte
		_, _ = w.Write(strconv.AppendInt(buf[:0], int64(i), 10)) // a buffer in memory
	})
}

// UnmarshalInt takes whole numbers of 32 bits only, as the specification says. Errors are *Error.
func UnmarshalInt(v any) (int32, error) {
	var i int64
	switch v := v.(type) {
	case int64: // a literal of the document
		i = v
	case int:
		i = int64(v)
	case int32:
		return v, nil
	case json.Number: // a variable
		n, err := strconv.ParseInt(v.String(), 10, 64)
		if err != nil {
			return 0, refuse("an Int must be a whole number from %d to %d", math.MinInt32, math.MaxInt32)
		}
		i = n
	case float64: // a variable, where the transport did not ask for json.Number
		if v != math.Trunc(v) || math.Abs(v) > math.MaxInt32+1 {
			return 0, refuse("an Int must be a whole number from %d to %d", math.MinInt32, math.MaxInt32)
		}
		i = int64(v)
	default:
		return 0, refuse("an Int must be a JSON number, not %s", kind(v))
	}
	if i < math.MinInt32 || i > math.MaxInt32 {
		return 0, refuse("an Int must be a whole number from %d to %d", math.MinInt32, math.MaxInt32)
	}
	return int32(i), nil
}

// MarshalSerial writes s as a decimal string.
func MarshalSerial(s domain.Serial) graphql.Marshaler { return decimal(int64(s)) }

// UnmarshalSerial takes decimal strings as MarshalSerial writes them. Errors are *Error.
func UnmarshalSerial(v any) (domain.Serial, error) {
	n, err := parseDecimal("a Serial", v)
	return domain.Serial(n), err
}

// MarshalOffset writes o as a decimal string.
func MarshalOffset(o domain.Offset) graphql.Marshaler { return decimal(int64(o)) }

// UnmarshalOffset takes decimal strings as MarshalOffset writes them. Errors are *Error.
func UnmarshalOffset(v any) (domain.Offset, error) {
	n, err := parseDecimal("an Offset", v)
	return domain.Offset(n), err
}

func decimal(n int64) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		var buf [22]byte
		_, _ = w.Write(append(strconv.AppendInt(append(buf[:0], '"'), n, 10), '"')) // a buffer in memory
	})
}

func parseDecimal(what string, v any) (int64, error) {
	s, ok := v.(string)
	if !ok {
		return 0, refuse("%s must be a JSON string, not %s", what, kind(v))
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s { // "+7", "07", "-0" would be second names
		return 0, refuse("%s must be a decimal number of 64 bits as a string, without sign or leading zeros", what)
	}
	return n, nil
}

// dateTime always has three decimals: a varying number of them gives one time several spellings.
const dateTime = "2006-01-02T15:04:05.000Z"

// FormatDateTime is the one spelling of m.
func FormatDateTime(m domain.Millis) string { return m.Time().Format(dateTime) }

// MarshalDateTime writes m in UTC with exactly three decimals.
func MarshalDateTime(m domain.Millis) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		var buf [40]byte
		_, _ = w.Write(append(m.Time().AppendFormat(append(buf[:0], '"'), dateTime), '"')) // a buffer in memory
	})
}

// UnmarshalDateTime takes what MarshalDateTime writes and nothing else. Errors are *Error.
func UnmarshalDateTime(v any) (domain.Millis, error) {
	s, ok := v.(string)
	if !ok {
		return 0, refuse("a DateTime must be a JSON string, not %s", kind(v))
	}
	t, err := time.Parse(dateTime, s)
	m := domain.MillisOf(t)
	if err != nil || FormatDateTime(m) != s { // Parse also takes a comma for the point
		return 0, refuse("a DateTime must be RFC 3339 in UTC with exactly three decimals")
	}
	return m, nil
}

// kind names the JSON kind of v for people.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number, int64, int, int32, float64:
		return "a number"
	case []any:
		return "a list"
	}
	return "an object"
}
