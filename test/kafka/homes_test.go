//go:build kafka

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/test/kafka"
)

// house lets instance have a method Home.
type house = kafkasvc.Home

// instance is a running chat home on a cluster, in this process.
type instance struct {
	*house
	t       *testing.T
	cluster *kafka.Cluster
	cfg     kafkasvc.Config
	link    *kafkatest.Link
	log     *logLines
	stop    context.CancelFunc
	done    chan struct{}
	err     error // of Run; after done

	mu     sync.Mutex
	alarms []string
}

// join starts an instance with a link of its own.
func join(t *testing.T, c *kafka.Cluster, prefix, id string, change ...func(*kafkasvc.Config)) *instance {
	t.Helper()
	return newborn(t, c, prefix, id, change...).run()
}

// newborn is an instance that does not run yet.
func newborn(t *testing.T, c *kafka.Cluster, prefix, id string, change ...func(*kafkasvc.Config)) *instance {
	t.Helper()
	in := &instance{t: t, cluster: c, link: kafkatest.Outside(c.Addrs()...).Link, log: &logLines{}, done: make(chan struct{})}
	in.cfg = kafkasvc.Config{
		Brokers: c.Addrs(), Dial: in.link.Dial, Shards: 4, InstanceID: id, AdvertisedURL: "http://" + id,
		TopicPrefix: prefix, DataDir: local.InMemory,
		Log: slog.New(slog.NewTextHandler(in.log, nil)).With("instance", id),
		Alarm: func(kind string) {
			in.mu.Lock()
			defer in.mu.Unlock()
			in.alarms = append(in.alarms, kind)
		},
	}
	for _, f := range change {
		f(&in.cfg)
	}
	h, err := kafkasvc.New(in.cfg)
	if err != nil {
		t.Fatal(err)
	}
	in.house = h
	return in
}

func (in *instance) run() *instance {
	ctx, cancel := context.WithCancel(context.Background())
	in.stop = cancel
	go func() {
		defer close(in.done)
		in.err = errors.Join(in.house.Run(ctx), in.house.Close())
	}()
	in.t.Cleanup(func() {
		in.end()
		if in.t.Failed() {
			in.t.Logf("log of instance %s:\n%s", in.cfg.InstanceID, in.log)
		}
	})
	return in
}

// end stops it, and the test fails if it had ended with a fault.
func (in *instance) end() {
	in.stop()
	<-in.done
	if in.err != nil {
		in.t.Errorf("instance %s: %v", in.cfg.InstanceID, in.err)
	}
}

func (in *instance) alarmed(kind string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Contains(in.alarms, kind)
}

func (in *instance) notReady() error {
	if rs := in.Ready(); len(rs) > 0 {
		return fmt.Errorf("not ready: %+v", rs)
	}
	return nil
}

// ready waits until the gate is open for all that is assigned.
func (in *instance) ready() *instance {
	in.t.Helper()
	eventually(in.t, 60*time.Second, "instance "+in.cfg.InstanceID+" is ready", in.notReady)
	return in
}

func (in *instance) opens(s domain.ShardID) func() error {
	return func() error {
		if no := in.Shards()[s].NotOwned; no != nil {
			return no
		}
		return nil
	}
}

// evict takes the group's members out of it, as an administrator can.
func evict(t *testing.T, c *kafka.Cluster, group string) {
	t.Helper()
	all, err := c.Admin.DescribeGroups(within(t, 10*time.Second), group)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all[group].Members {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = group
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = m.MemberID
		req.Members = append(req.Members, one)
		if _, err := req.RequestWith(within(t, 10*time.Second), c.Client); err != nil {
			t.Fatal(err)
		}
	}
}

func topics(prefix string) (messages, directory string) {
	return prefix + ".messages", prefix + ".directory"
}

func drop(t *testing.T, c *kafka.Cluster, names ...string) {
	t.Helper()
	res, err := c.Admin.DeleteTopics(within(t, 20*time.Second), names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res {
		if r.Err != nil {
			t.Fatalf("delete topic %s: %v", r.Topic, r.Err)
		}
	}
}

func set(t *testing.T, c *kafka.Cluster, topic string, settings ...string) {
	t.Helper()
	var all []kadm.AlterConfig
	for i := 0; i < len(settings); i += 2 {
		all = append(all, kadm.AlterConfig{Op: kadm.SetConfig, Name: settings[i], Value: &settings[i+1]})
	}
	res, err := c.Admin.AlterTopicConfigs(within(t, 10*time.Second), all, topic)
	if err == nil {
		err = res[0].Err
	}
	if err != nil {
		t.Fatalf("set %v of topic %s: %v", settings, topic, err)
	}
}

func send(in domain.ChatHome, room domain.ChatRoomInfo, user, id, text string) (domain.Message, bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := in.ChatRoom(ctx, room.Shard, room.ID)
	if err != nil {
		return domain.Message{}, false, err
	}
	return r.Send(ctx, domain.Draft{User: user, ClientID: id, Text: text})
}

// logLines is where an instance logs to.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(p []byte) (int, error) {
	if os.Getenv("TEST_LOG") != "" {
		os.Stderr.Write(p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

func (l *logLines) String() string { return strings.Join(l.with(), "") }

// with are the lines that hold all of the words.
func (l *logLines) with(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			found = append(found, line)
		}
	}
	return found
}

// says waits for a line that holds all of the words.
func (in *instance) says(words ...string) {
	in.t.Helper()
	eventually(in.t, 30*time.Second, fmt.Sprintf("instance %s logs a line with %q", in.cfg.InstanceID, words), func() error {
		if len(in.log.with(words...)) == 0 {
			return errors.New("no such line")
		}
		return nil
	})
}
