package broker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/server/broker"
)

// asBroker makes this test binary a broker on the directory it names, to be killed.
const asBroker = "BROKER_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asBroker); dir != "" {
		b, err := broker.Listen(broker.Config{DataDir: dir}, "127.0.0.1:0")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(b.Addrs()[0])
		select {}
	}
	goleak.VerifyTestMain(m)
}

const topic = "t"

func client(t *testing.T, b *broker.Broker) *kafkalog.Cluster {
	t.Helper()
	c := kafkalog.New(kafkalog.Config{Brokers: b.Addrs(), Dial: b.Dial})
	t.Cleanup(c.Close)
	return c
}

func create(t *testing.T, c *kafkalog.Cluster) {
	t.Helper()
	if err := c.EnsureTopic(t.Context(), kafkalog.TopicSpec{Name: topic, Partitions: 1, ReplicationFactor: 1}); err != nil {
		t.Fatal(err)
	}
}

func write(ctx context.Context, c *kafkalog.Cluster, value string) (domain.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return c.Append(ctx, topic, 0, []kafkalog.Record{{Value: []byte(value)}})
}

func read(t *testing.T, c *kafkalog.Cluster) (values []string) {
	t.Helper()
	r := c.Reader(topic, 0)
	defer r.Close()
	r.MaxWait = 20 * time.Millisecond
	for {
		n := len(values)
		if err := r.Read(t.Context(), domain.Offset(n), func(_ domain.Offset, v []byte) bool {
			values = append(values, string(v))
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if len(values) == n {
			return values
		}
	}
}

func TestEmbedded_ServesItsOwnProcessInFakeTimeToo(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		b, err := broker.Embedded(broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		c := client(t, b)
		create(t, c)
		if _, err := write(t.Context(), c, "a"); err != nil {
			t.Error(err)
		}
		if got := read(t, c); len(got) != 1 {
			t.Errorf("read %q", got)
		}
		c.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestEmbedded_TwoBrokersShareNothing(t *testing.T) {
	for range 2 {
		b, err := broker.Embedded(broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		c := client(t, b)
		if n, err := c.PartitionCount(t.Context(), topic); err == nil {
			t.Errorf("a new broker has the topic with %d partitions", n)
		}
		create(t, c)
	}
}

func TestEmbedded_ASessionOfOneSecondPassesTheCheck(t *testing.T) {
	b, err := broker.Embedded(broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := client(t, b)
	create(t, c)
	want := kafkalog.Requirements{
		Topics:         []kafkalog.TopicSpec{{Name: topic, Partitions: 1, ReplicationFactor: 1, MinInSync: 1, MaxMessageBytes: 1 << 20}},
		SessionTimeout: time.Second,
	}
	if found, err := c.Check(t.Context(), want); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	want.SessionTimeout = 999 * time.Millisecond
	if found, err := c.Check(t.Context(), want); err != nil || !kafkalog.Refused(found) {
		t.Errorf("a shorter one: %v, %v", found, err)
	}
}

func TestEmbedded_NeverCreatesATopicByItself(t *testing.T) {
	b, err := broker.Embedded(broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := client(t, b)
	if _, err := write(t.Context(), c, "a"); err == nil {
		t.Error("wrote to a topic that nobody created")
	}
	if _, err := c.PartitionCount(t.Context(), topic); err == nil {
		t.Error("asking for a topic created it")
	}
}

func TestBroker_KeepsItsDataOverAStop(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kafka")
	for round := range 3 {
		b, err := broker.Embedded(broker.Config{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		c := client(t, b)
		create(t, c)
		if off, err := write(t.Context(), c, "a"); err != nil || off != domain.Offset(round) {
			t.Errorf("round %d: at %d, %v", round, off, err)
		}
		c.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBroker_RefusesADirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	b, err := broker.Embedded(broker.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broker.Embedded(broker.Config{DataDir: dir}); !errors.Is(err, broker.ErrInUse) {
		t.Errorf("got %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, err = broker.Embedded(broker.Config{DataDir: dir})
	if err != nil {
		t.Fatalf("after the first has stopped: %v", err)
	}
	b.Close()
}

// What was acknowledged before kill -9 is there afterwards, in order, with nothing in between.
func TestListen_SurvivesKill(t *testing.T) {
	dir := t.TempDir()
	var acked []string
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asBroker+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := false
		defer func() {
			if !killed {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		}()
		addr, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		c := kafkalog.New(kafkalog.Config{Brokers: []string{strings.TrimSpace(addr)}})
		defer c.Close()
		create(t, c)
		// A write whose answer the kill took may be there too, behind the acknowledged ones.
		got := read(t, c)
		if len(got) < len(acked) || strings.Join(got[:len(acked)], " ") != strings.Join(acked, " ") {
			t.Fatalf("round %d: %d acknowledged, read %d", round, len(acked), len(got))
		}
		acked = got
		time.AfterFunc(300*time.Millisecond, func() { _ = cmd.Process.Kill() })
		for i := 0; ; i++ {
			v := fmt.Sprintf("%d.%d", round, i)
			if _, err := write(t.Context(), c, v); err != nil {
				break
			}
			acked = append(acked, v)
		}
		_ = cmd.Wait()
		killed = true
	}
	t.Logf("%d acknowledged writes", len(acked))
}

func TestListen_LoopbackOnly(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.org:0", "localhost.example.org:0"} {
		b, err := broker.Listen(broker.Config{}, address)
		if refused := (*broker.NotLoopbackError)(nil); !errors.As(err, &refused) {
			t.Errorf("%s: got %v", address, err)
		}
		if b != nil {
			b.Close()
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		b, err := broker.Listen(broker.Config{}, address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		b.Close()
	}
	if _, err := broker.Listen(broker.Config{}, "nonsense"); err == nil {
		t.Error("accepted nonsense")
	}
}

func TestListen_SurvivesStrangers(t *testing.T) {
	b, err := broker.Listen(broker.Config{}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := client(t, b)
	create(t, c)
	for name, hello := range map[string]string{
		"http":         "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"tls":          "\x16\x03\x01\x00\xf7\x01\x00\x00\xf3\x03\x03",
		"unknown key":  "\x00\x00\x00\x08\x7f\xff\x00\x00\x00\x00\x00\x01",
		"negative key": "\x00\x00\x00\x08\xff\xff\x00\x00\x00\x00\x00\x01",
		"huge":         "\x7f\xff\xff\xff\x00\x12\x00\x00",
		"tiny":         "\x00\x00\x00\x01\x00\x12\x00\x00",
		"zero":         "\x00\x00\x00\x00\x00\x12\x00\x00",
		"no client":    "\x00\x00\x00\x08\x00\x12\x00\x00\x00\x00\x00\x01",
		"odd version":  "\x00\x00\x00\x0a\x00\x03\x7f\xff\x00\x00\x00\x01\xff\xff",
		"cut body":     "\x00\x00\x00\x0a\x00\x00\x00\x03\x00\x00\x00\x01\xff\xff",
	} {
		n, err := net.Dial("tcp", b.Addrs()[0])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := n.Write([]byte(hello)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		n.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, _ = n.Read(make([]byte, 100))
		n.Close()
		if _, err := write(t.Context(), c, name); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}
