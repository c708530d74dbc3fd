package record_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
	"github.com/chathome/chathome/kafkasvc/record/logpb"
)

// reference is Decode written with the generated code and the rules of this package.
func reference(value []byte) (v record.View, ok bool) {
	var r logpb.LogRecord
	if len(value) == 0 || proto.Unmarshal(value, &r) != nil {
		return record.View{}, false
	}
	v.At, v.Time = r.GetAt(), domain.Millis(r.GetTimeMs())
	id := func(dst *uuid.UUID, b []byte) {
		ok = ok && len(b) == 16
		copy(dst[:], b)
	}
	short := func(s string, limit int) []byte {
		ok = ok && len(s) <= limit
		return []byte(s)
	}
	ok = true
	switch k := r.Kind.(type) {
	case *logpb.LogRecord_Takeover:
		v.Kind = record.KindTakeover
		v.Instance = short(k.Takeover.GetInstance(), record.MaxTokenBytes)
		v.URL = short(k.Takeover.GetUrl(), record.MaxNameBytes)
		id(&v.Tenure, k.Takeover.GetTenure())
	case *logpb.LogRecord_ChatRoomCreated:
		v.Kind = record.KindChatRoomCreated
		v.Name = short(k.ChatRoomCreated.GetName(), record.MaxNameBytes)
		id(&v.Room, k.ChatRoomCreated.GetRoom())
	case *logpb.LogRecord_MessageAdded:
		v.Kind = record.KindMessageAdded
		m := k.MessageAdded
		v.Serial = domain.Serial(m.GetSerial())
		ok = v.Serial >= 1 && v.Serial <= record.MaxSerial
		v.User = short(m.GetUser(), record.MaxTokenBytes)
		v.ClientID = short(m.GetClientId(), record.MaxTokenBytes)
		v.Text = short(m.GetText(), record.MaxTextBytes)
		id(&v.Room, m.GetRoom())
	}
	return v, ok
}

func same(a, b *record.View) bool {
	return a.Kind == b.Kind && a.At == b.At && a.Time == b.Time && a.Room == b.Room && a.Serial == b.Serial &&
		a.Tenure == b.Tenure && bytes.Equal(a.User, b.User) && bytes.Equal(a.ClientID, b.ClientID) &&
		bytes.Equal(a.Text, b.Text) && bytes.Equal(a.Name, b.Name) && bytes.Equal(a.Instance, b.Instance) &&
		bytes.Equal(a.URL, b.URL)
}

// fataler is testing.TB's and rapid.TB's common part.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func compare(t fataler, value []byte) {
	t.Helper()
	want, ok := reference(value)
	got := record.View{Kind: record.KindMessageAdded, At: 99, Text: []byte("left over")}
	err := got.Decode(value)
	if (err == nil) != ok {
		t.Fatalf("decode %x: error %v, the generated code accepts it: %v", value, err, ok)
	}
	if ok && !same(&got, &want) {
		t.Fatalf("decode %x:\n got %+v\nwant %+v", value, got, want)
	}
}

func FuzzDecode(f *testing.F) {
	id := uuid.UUID{1, 2, 3}
	f.Add(record.AppendMessage(nil, 300, &domain.Message{Room: id, Serial: 7, User: "u", ClientID: "c", Text: "täxt", SentAt: 5}))
	f.Add(record.AppendChatRoom(nil, 0, &domain.ChatRoomInfo{ID: id, Name: "n", CreatedAt: -1}))
	f.Add(record.AppendTakeover(nil, &record.Takeover{Instance: domain.Instance{ID: "i", URL: "http://x"}, Tenure: id, Time: 1}))
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 0, 0})       // a transaction marker
	f.Add([]byte{0x1b, 0x1c, 0x0c})       // groups
	f.Add([]byte{0x1a, 0xff, 0xff, 0x0f}) // a length beyond the end
	f.Fuzz(func(t *testing.T, value []byte) { compare(t, value) })
}

// TestDecode_EqualsGeneratedCode builds values of parts that random bytes hardly ever form: repeated and mixed kinds,
// wrong wire types, unknown fields, limits overstepped by one.
func TestDecode_EqualsGeneratedCode(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 4), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.SampledFrom([]int{record.MaxTokenBytes, record.MaxTokenBytes + 1, record.MaxNameBytes,
			record.MaxNameBytes + 1, record.MaxTextBytes, record.MaxTextBytes + 1}), func(n int) string { return strings.Repeat("x", n) }))
	number := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, uint64(record.MaxSerial), uint64(record.MaxSerial) + 1, math.MaxInt64, 1 << 63}))
	var fields func(t *rapid.T, depth int) []byte
	fields = func(t *rapid.T, depth int) []byte {
		var b []byte
		for range rapid.IntRange(0, 7).Draw(t, "fields") {
			num := protowire.Number(rapid.SampledFrom([]int{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 6, 100}).Draw(t, "number"))
			switch rapid.IntRange(0, 8).Draw(t, "type") {
			case 0, 1:
				b = protowire.AppendTag(b, num, protowire.VarintType)
				b = protowire.AppendVarint(b, number.Draw(t, "value"))
			case 2:
				b = protowire.AppendTag(b, num, protowire.BytesType)
				b = protowire.AppendString(b, text.Draw(t, "text"))
			case 3:
				b = protowire.AppendTag(b, num, protowire.BytesType)
				b = protowire.AppendBytes(b, rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
			case 4, 5, 6:
				if depth > 0 {
					b = protowire.AppendTag(b, num, protowire.BytesType)
					b = protowire.AppendBytes(b, fields(t, depth-1))
				}
			case 7:
				b = protowire.AppendTag(b, num, protowire.StartGroupType)
				b = append(b, fields(t, 0)...)
				b = protowire.AppendTag(b, num, protowire.EndGroupType)
			case 8:
				b = protowire.AppendTag(b, num, protowire.Fixed32Type)
				b = protowire.AppendFixed32(b, 7)
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "cut") == 0 && len(b) > 0 {
			b = b[:rapid.IntRange(0, len(b)-1).Draw(t, "at")]
		}
		return b
	}
	rapid.Check(t, func(t *rapid.T) { compare(t, fields(t, 1)) })
}

func TestAppend_EqualsGeneratedCode(t *testing.T) {
	marshal := func(r *logpb.LogRecord) []byte {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	rapid.Check(t, func(t *rapid.T) {
		id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		at := domain.Offset(rapid.Int64().Draw(t, "at"))
		time := domain.Millis(rapid.Int64().Draw(t, "time"))
		s := func(label string) string { return rapid.StringN(0, 20, 100).Draw(t, label) }
		var got, want []byte
		prefix := []byte("prefix")
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			m := domain.Message{Room: id, Serial: domain.Serial(rapid.Int64().Draw(t, "serial")), User: s("user"),
				ClientID: s("client id"), Text: s("text"), SentAt: time}
			got = record.AppendMessage(prefix, at, &m)
			want = marshal(&logpb.LogRecord{At: int64(at), TimeMs: int64(time), Kind: &logpb.LogRecord_MessageAdded{
				MessageAdded: &logpb.MessageAdded{Room: id[:], Serial: int64(m.Serial), User: m.User, ClientId: m.ClientID, Text: m.Text}}})
		case 1:
			info := domain.ChatRoomInfo{ID: id, Name: s("name"), CreatedAt: time}
			got = record.AppendChatRoom(prefix, at, &info)
			want = marshal(&logpb.LogRecord{At: int64(at), TimeMs: int64(time), Kind: &logpb.LogRecord_ChatRoomCreated{
				ChatRoomCreated: &logpb.ChatRoomCreated{Room: id[:], Name: info.Name}}})
		case 2:
			take := record.Takeover{Instance: domain.Instance{ID: s("instance"), URL: s("url")}, Tenure: id, Time: time}
			got = record.AppendTakeover(prefix, &take)
			want = marshal(&logpb.LogRecord{TimeMs: int64(time), Kind: &logpb.LogRecord_Takeover{
				Takeover: &logpb.Takeover{Instance: take.Instance.ID, Url: take.Instance.URL, Tenure: id[:]}}})
		}
		if got = got[len(prefix):]; !bytes.Equal(got, want) {
			t.Fatalf("got %x, want %x", got, want)
		}
		compare(t, got)
	})
}

func TestView_CountsOnlyWhereItNames(t *testing.T) {
	id := uuid.UUID{1}
	message := record.AppendMessage(nil, 42, &domain.Message{Room: id, Serial: 1, User: "u", ClientID: "c", Text: "t"})
	room := record.AppendChatRoom(nil, 0, &domain.ChatRoomInfo{ID: id, Name: "n"})
	takeover := record.AppendTakeover(nil, &record.Takeover{Tenure: id})
	later := protowire.AppendBytes(protowire.AppendTag([]byte{8, 42}, 6, protowire.BytesType), []byte("news"))
	for _, tc := range []struct {
		name  string
		value []byte
		at    domain.Offset
		kind  record.Kind
		want  bool
	}{
		{"message where it names", message, 42, record.KindMessageAdded, true},
		{"message one below", message, 41, record.KindMessageAdded, false},
		{"message one above", message, 43, record.KindMessageAdded, false},
		{"room at offset 0, which is not written out", room, 0, record.KindChatRoomCreated, true},
		{"room elsewhere", room, 1, record.KindChatRoomCreated, false},
		{"takeover anywhere", takeover, 1 << 40, record.KindTakeover, true},
		{"kind of a later version, where it names", later, 42, record.KindUnknown, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var v record.View
			if err := v.Decode(tc.value); err != nil || v.Kind != tc.kind || v.Counts(tc.at) != tc.want {
				t.Errorf("%v, kind %v, counts %v; want %v, %v", err, v.Kind, v.Counts(tc.at), tc.kind, tc.want)
			}
		})
	}
}

func TestKey_NamesTheShardOfTheRoom(t *testing.T) {
	id := uuid.MustParse("0f8fad5b-d9cb-469f-a165-70867728950e")
	if got := string(record.Key(id)); got != id.String() {
		t.Errorf("got %q", got)
	}
}

// TestHash_NeverChanges: local stores keep it. The values are XXH64's published ones.
func TestHash_NeverChanges(t *testing.T) {
	for value, want := range map[string]uint64{"": 0xef46db3751d8e999, "abc": 0x44bc2cf5ad770999} {
		if got := record.Hash([]byte(value)); got != want {
			t.Errorf("%q: got %#x, want %#x", value, got, want)
		}
	}
}

// TestCodec_DoesNotAllocate: a loading instance does this a million times a second.
func TestCodec_DoesNotAllocate(t *testing.T) {
	m := domain.Message{Room: uuid.UUID{1}, Serial: 1 << 20, User: "alice", ClientID: "client-1", Text: strings.Repeat("x", 120), SentAt: 1 << 40}
	buf := make([]byte, 0, 512)
	var v record.View
	if n := testing.AllocsPerRun(100, func() {
		buf = record.AppendMessage(buf[:0], 1<<30, &m)
		if v.Decode(buf) != nil {
			t.Fatal("not decoded")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	m := domain.Message{Room: uuid.UUID{1}, Serial: 1 << 20, User: "alice", ClientID: "client-1234", Text: strings.Repeat("x", 120), SentAt: 1 << 40}
	value := record.AppendMessage(nil, 1<<30, &m)
	b.Run("view", func(b *testing.B) {
		b.ReportAllocs()
		var v record.View
		for b.Loop() {
			if v.Decode(value) != nil {
				b.Fatal("not decoded")
			}
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r logpb.LogRecord
			if proto.Unmarshal(value, &r) != nil {
				b.Fatal("not decoded")
			}
		}
	})
}

func BenchmarkAppendMessage(b *testing.B) {
	b.ReportAllocs()
	m := domain.Message{Room: uuid.UUID{1}, Serial: 1 << 20, User: "alice", ClientID: "client-1234", Text: strings.Repeat("x", 120), SentAt: 1 << 40}
	var buf []byte
	for b.Loop() {
		buf = record.AppendMessage(buf[:0], 1<<30, &m)
	}
}
