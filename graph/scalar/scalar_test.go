package scalar_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph/scalar"
)

func write(m graphql.Marshaler) string {
	var b bytes.Buffer
	m.MarshalGQL(&b)
	return b.String()
}

func TestScalars_WriteOneForm(t *testing.T) {
	for _, tc := range []struct {
		got  graphql.Marshaler
		want string
	}{
		{scalar.MarshalString("a\"\u0001é😀"), `"a\"\u0001é😀"`},
		{scalar.MarshalID("x"), `"x"`},
		{scalar.MarshalInt(math.MinInt32), `-2147483648`},
		{scalar.MarshalInt(math.MaxInt32), `2147483647`},
		{scalar.MarshalSerial(9007199254740993), `"9007199254740993"`},
		{scalar.MarshalSerial(math.MinInt64), `"-9223372036854775808"`},
		{scalar.MarshalOffset(0), `"0"`},
		{scalar.MarshalDateTime(0), `"1970-01-01T00:00:00.000Z"`},
		{scalar.MarshalDateTime(1_772_357_400_000), `"2026-03-01T09:30:00.000Z"`},
		{scalar.MarshalDateTime(1_772_357_400_120), `"2026-03-01T09:30:00.120Z"`},
		{scalar.MarshalDateTime(-1), `"1969-12-31T23:59:59.999Z"`},
	} {
		if got := write(tc.got); got != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
}

func TestScalars_TakeOneFormOnly(t *testing.T) {
	anything := []any{nil, true, 4.0, 4.5, int64(4), json.Number("4"), json.Number("4.0"), []any{"4"}, map[string]any{}, math.NaN()}
	for name, read := range map[string]func(any) (any, error){
		"String":   func(v any) (any, error) { return scalar.UnmarshalString(v) },
		"ID":       func(v any) (any, error) { return scalar.UnmarshalID(v) },
		"Serial":   func(v any) (any, error) { return scalar.UnmarshalSerial(v) },
		"Offset":   func(v any) (any, error) { return scalar.UnmarshalOffset(v) },
		"DateTime": func(v any) (any, error) { return scalar.UnmarshalDateTime(v) },
	} {
		for _, v := range append(anything, "\xff") {
			got, err := read(v)
			if _, ok := errors.AsType[*scalar.Error](err); !ok {
				t.Errorf("%s takes %#v as %v, %v", name, v, got, err)
			}
		}
	}
	for _, s := range []string{"", "07", "+7", "-0", " 7", "7 ", "7.0", "7e0", "0x7", "9223372036854775808", "1_000"} {
		if v, err := scalar.UnmarshalSerial(s); err == nil {
			t.Errorf("Serial takes %q as %d", s, v)
		}
	}
	for _, s := range []string{"", "2026-03-01T09:30:00Z", "2026-03-01T09:30:00.1Z", "2026-03-01T09:30:00.0000Z", "2026-03-01T10:30:00.000+01:00", "2026-03-01 09:30:00.000Z", "2026-02-30T09:30:00.000Z", "2026-03-01T09:30:00,000Z"} {
		if v, err := scalar.UnmarshalDateTime(s); err == nil {
			t.Errorf("DateTime takes %q as %d", s, v)
		}
	}
	for _, v := range []any{nil, true, "4", 4.5, math.NaN(), math.Inf(1), int64(math.MaxInt32) + 1, int64(math.MinInt32) - 1, 99999999999.0, 2147483648.0, json.Number("99999999999"), json.Number("99999999999999999999"), json.Number("4.0"), json.Number("1e2"), []any{}, map[string]any{}} {
		if got, err := scalar.UnmarshalInt(v); err == nil {
			t.Errorf("Int takes %#v as %d", v, got)
		}
	}
	for _, v := range []any{int64(-5), -5, int32(-5), json.Number("-5"), -5.0} {
		if got, err := scalar.UnmarshalInt(v); err != nil || got != -5 {
			t.Errorf("Int reads %#v as %d, %v", v, got, err)
		}
	}
}

func TestScalars_ReadWhatTheyWrite(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 9007199254740993, math.MaxInt64, math.MinInt64} {
		var s string
		if err := json.Unmarshal([]byte(write(scalar.MarshalSerial(domain.Serial(n)))), &s); err != nil {
			t.Fatal(err)
		}
		if got, err := scalar.UnmarshalSerial(s); err != nil || int64(got) != n {
			t.Errorf("%d came back as %d, %v", n, got, err)
		}
	}
	at := domain.MillisOf(time.Date(2026, 10, 25, 2, 30, 0, 7e6, time.FixedZone("", 3600)))
	if got, err := scalar.UnmarshalDateTime(scalar.FormatDateTime(at)); err != nil || got != at {
		t.Errorf("%v came back as %v, %v", at, got, err)
	}
}
