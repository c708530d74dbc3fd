package metrics_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/membership"
	"github.com/chathome/chathome/kafkasvc/record"
	"github.com/chathome/chathome/server/metrics"
	"github.com/chathome/chathome/server/ws"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const messages = "chathome.messages"

// scraped is an instance with its metrics, in fake time.
type scraped struct {
	*kafkasvc.Home
	t         *testing.T
	link      *kafkatest.Link
	registry  *prometheus.Registry
	followers *metrics.Followers
	numbers   int                // of followers, as the gauges tell
	suspended atomic.Int64       // nanoseconds that the machine slept
	newborn   map[string]float64 // what a scrape showed before it ran
	end       func()
}

func start(t *testing.T, c *kafkatest.Cluster, id string, change ...func(*kafkasvc.Config)) *scraped {
	t.Helper()
	epoch, link := time.Now(), c.NewLink()
	s := &scraped{t: t, link: link, registry: prometheus.NewRegistry(), followers: metrics.NewFollowers()}
	cfg := kafkasvc.Config{
		Brokers: c.Addrs(), Dial: link.Dial, Shards: 4, InstanceID: id, DataDir: local.InMemory, SingleBroker: true,
		Timeouts: membership.DefaultTimeouts(), RequestTimeout: 3 * time.Second,
		Clock: func() time.Duration { return time.Since(epoch) + time.Hour + time.Duration(s.suspended.Load()) },
	}
	for _, f := range change {
		f(&cfg)
	}
	h, err := kafkasvc.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Home = h
	number := func() int { return s.numbers }
	err = metrics.Register(s.registry, metrics.Sources{
		Version: "v1", Home: h.Stats, Followers: s.followers, Subscriptions: number, Sockets: number, Streams: number,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.newborn = s.samples()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- errors.Join(h.Run(ctx), h.Close()) }()
	s.end = func() {
		if stop(); done != nil {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		done = nil
	}
	t.Cleanup(s.end)
	return s
}

// samples are what a scrape shows, by name and label as in the text.
func (s *scraped) samples() map[string]float64 {
	s.t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		s.t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	all := map[string]float64{}
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		all[name] = v
	}
	return all
}

// moved waits until each of the samples is larger than before.
func (s *scraped) moved(cause string, before map[string]float64, names ...string) {
	s.t.Helper()
	for _, name := range names {
		eventually(s.t, cause+" moves "+name, func() bool { return s.samples()[name] > before[name] })
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 3000 {
		if f() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("not so: %s", what)
}

func (s *scraped) ready() *scraped {
	s.t.Helper()
	eventually(s.t, "ready", func() bool { return len(s.Ready()) == 0 })
	return s
}

func (s *scraped) send(r domain.ChatRoomInfo, id, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	room, err := s.ChatRoom(ctx, r.Shard, r.ID)
	if err == nil {
		_, _, err = room.Send(ctx, domain.Draft{User: "alice", ClientID: id, Text: text})
	}
	return err
}

func stranger(t *testing.T, c *kafkatest.Cluster) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.Dialer(c.Dial), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func put(t *testing.T, cl *kgo.Client, shard domain.ShardID, values ...[]byte) {
	t.Helper()
	for _, v := range values {
		if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: messages, Partition: int32(shard), Value: v}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// Each metric of a home moves when its cause happens.
func TestMetrics_MoveWithTheirCause(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := kafkatest.Start(t)
		a := start(t, c, "a").ready()
		a.moved("a start", a.newborn, "chathome_ready", "chathome_home_shards", `chathome_gate_state{state="open"}`, `chathome_shards{state="open"}`,
			`chathome_gate_seconds_total{state="open"}`, `chathome_shard_seconds_total{state="open"}`,
			"chathome_generations_total", "chathome_tenures_total", "chathome_lease_margin_seconds", "chathome_load_seconds_count",
			"chathome_loaded_records_total", "chathome_loaded_bytes_total", `chathome_log_records_total{what="takeover"}`)
		if a.samples()["chathome_store_bytes"] <= 0 {
			t.Error("the store has no size")
		}
		if got := a.samples()[`chathome_shards{state="open"}`]; got != 4 {
			t.Errorf("%v open shards", got)
		}

		before := a.samples()
		r, _, err := a.CreateChatRoom(t.Context(), a.DrawChatRoomID(), "kitchen")
		if err != nil {
			t.Fatal(err)
		}
		a.moved("a room", before, "chathome_rooms", `chathome_room_creations_total{outcome="stored"}`)

		a.link.Arm(kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: kmsg.Produce.Int16(), Topic: messages, Delay: 10 * time.Millisecond})
		for _, text := range []string{"one", "one", "two", ""} {
			_ = a.send(r, "1", text) // stored, there already, another text, no text
		}
		a.moved("sends", before, `chathome_sends_total{outcome="stored"}`, `chathome_sends_total{outcome="duplicate"}`,
			`chathome_sends_total{outcome="mutation"}`, `chathome_sends_total{outcome="invalid"}`,
			"chathome_batch_records_count", "chathome_batch_records_sum", "chathome_append_seconds_count", "chathome_append_seconds_sum")

		before = a.samples()
		a.link.Arm(kafkatest.Rule{Action: kafkatest.LoseAnswer, Key: kmsg.Produce.Int16(), Topic: messages})
		if err := a.send(r, "2", "lost"); err != nil {
			t.Fatal(err)
		}
		a.moved("a lost answer", before, "chathome_resends_total", "chathome_gaps_read_total", `chathome_kafka_errors_total{code="connection"}`)

		before = a.samples()
		cl := stranger(t, c)
		defer cl.Close()
		put(t, cl, r.Shard, record.AppendTakeover(nil, &record.Takeover{Instance: domain.Instance{ID: "stranger"}, Tenure: uuid.New()}))
		_ = a.send(r, "3", "fenced")
		a.moved("a foreign takeover", before, "chathome_fences_total", "chathome_tenures_total", `chathome_shard_seconds_total{state="locked"}`)
		a.ready()

		stray := domain.Message{Room: r.ID, Serial: 9, User: "mallory", ClientID: "1", Text: "stray"}
		put(t, cl, r.Shard, []byte("\xffrubbish"), record.AppendMessage(nil, 0, &stray), []byte{0x08, 0x01})
		before = a.samples()
		hold := a.link.Arm(kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: kmsg.Fetch.Int16(), Topic: messages, Delay: 2 * time.Second, Count: -1})
		b := start(t, c, "b") // a rebalance: a loads what is new
		a.moved("slow loading", before, "chathome_loading_shards", "chathome_loading_records_left", `chathome_shard_seconds_total{state="loading"}`,
			`chathome_gate_seconds_total{state="loading"}`)
		if ratio := a.samples()["chathome_loading_ratio"]; ratio >= 1 {
			t.Errorf("loading ratio %v", ratio)
		}
		hold.Stop()
		a.ready()
		b.ready()
		sum := func(name string) float64 { return a.samples()[name] + b.samples()[name] }
		for _, what := range []string{"rubbish", "void", "unknown_kind"} {
			if name := fmt.Sprintf("chathome_log_records_total{what=%q}", what); sum(name) == 0 {
				t.Errorf("%s did not move", name)
			}
		}
		for _, s := range []*scraped{a, b} { // one of them has it no more
			_ = s.send(r, "4", "where")
		}
		if sum(`chathome_gate_refused_total{state="not_assigned"}`) == 0 {
			t.Error("no refusal was counted")
		}
		b.end()
		eventually(t, "a has all", func() bool { return a.samples()[`chathome_shards{state="open"}`] == 4 })

		before = a.samples()
		adm := kadm.NewClient(cl)
		if _, err := adm.CreatePartitions(t.Context(), 1, messages); err != nil {
			t.Fatal(err)
		}
		a.moved("another partition", before, `chathome_alarms_total{kind="partition_count"}`)

		before = a.samples()
		a.suspended.Store(int64(10 * time.Second))
		a.moved("a suspend", before, "chathome_lease_lapses_total")
		a.ready()

		before = a.samples()
		a.link.Silence()
		_ = a.send(r, "5", "into the void")
		a.moved("silence", before, `chathome_sends_total{outcome="unknown"}`, `chathome_kafka_errors_total{code="timeout"}`)
		_ = a.send(r, "6", "later")
		a.moved("silence", before, `chathome_gate_refused_total{state="locked"}`, "chathome_group_join_failures_total", `chathome_gate_seconds_total{state="locked"}`)
		if _, leased := a.samples()["chathome_lease_margin_seconds"]; leased {
			t.Error("a margin without a generation")
		}
		a.link.Heal()
		a.ready()

	})
}

// What followers do is counted, and only values that are known become labels.
func TestMetrics_OfFollowers(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := start(t, kafkatest.Start(t), "a")
		a.samples()
		for _, tc := range []struct {
			cause func()
			names []string
		}{
			{a.followers.Opened, []string{"chathome_sockets_opened_total"}},
			{func() { a.followers.Closed(ws.EndSlow) }, []string{`chathome_sockets_closed_total{how="slow"}`}},
			{func() { a.followers.Closed("\xff") }, []string{`chathome_sockets_closed_total{how="other"}`}},
			{func() { a.followers.Refused(ws.RefusedFrom) }, []string{`chathome_sockets_refused_total{why="origin"}`}},
			{func() { a.followers.Operation("subscription") }, []string{`chathome_socket_operations_total{kind="subscription"}`}},
			{a.followers.Executed, []string{"chathome_event_executions_total"}},
			{func() { a.followers.Delivered(3, 1) }, []string{"chathome_events_delivered_total", "chathome_events_delayed_total"}},
			{func() { a.followers.CaughtUp(70) }, []string{"chathome_reader_lag_messages_sum", "chathome_reader_lag_messages_count"}},
			{a.followers.Cut, []string{"chathome_subscriptions_cut_total"}},
			{func() { a.numbers = 2 }, []string{"chathome_subscriptions", "chathome_sockets", "chathome_streams"}},
		} {
			before := a.samples()
			tc.cause()
			a.moved("the call", before, tc.names...)
		}
	})
}

// No metric tells anything of a room or a user, and each has a sentence.
func TestMetrics_NameNobody(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a := start(t, kafkatest.Start(t), "a").ready()
		r, _, err := a.CreateChatRoom(t.Context(), a.DrawChatRoomID(), "kitchen-of-bob")
		if err != nil {
			t.Fatal(err)
		}
		if err := a.send(r, "client-7", "a secret"); err != nil {
			t.Fatal(err)
		}
		families, err := a.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "chathome_") && !strings.HasSuffix(f.GetHelp(), ".") && f.GetName() != "chathome_build_info" {
				t.Errorf("%s: %q is no sentence", f.GetName(), f.GetHelp())
			}
			if n := len(f.GetMetric()); n > 20 {
				t.Errorf("%s has %d series", f.GetName(), n)
			}
			for _, word := range []string{"kitchen", "secret", "alice", "client-7", r.ID.String()} {
				if strings.Contains(f.String(), word) {
					t.Errorf("%s tells %q", f.GetName(), word)
				}
			}
		}
	})
}

func TestServer_AnswersScrapesOnly(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	none := func() int { return 0 }
	err = metrics.Register(registry, metrics.Sources{
		Version: "v1", Home: func() kafkasvc.Stats { return kafkasvc.Stats{} }, Followers: metrics.NewFollowers(),
		Subscriptions: none, Sockets: none, Streams: none,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := metrics.NewServer(registry, l, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]int{"/metrics": 200, "/": 404, "/graphql": 404} {
		res, err := client.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want || want == 200 && !bytes.Contains(body, []byte("chathome_build_info{version=\"v1\"} 1")) {
			t.Errorf("%s: %d, want %d\n%s", path, res.StatusCode, want, body)
		}
	}
	if err := errors.Join(s.Shutdown(t.Context()), <-served); err != nil {
		t.Error(err)
	}
}
