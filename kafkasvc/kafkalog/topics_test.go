package kafkalog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// spec is what the test topics should be.
func spec(name string) kafkalog.TopicSpec {
	return kafkalog.TopicSpec{Name: name, Partitions: 4, ReplicationFactor: 3, MinInSync: 2, MaxMessageBytes: 1_000_000}
}

func cluster3(t *testing.T, opts ...kfake.Opt) (*kafkatest.Cluster, *kafkalog.Cluster) {
	t.Helper()
	k := kafkatest.Start(t, append([]kfake.Opt{kfake.Ports(9092, 9093, 9094)}, opts...)...)
	return k, connect(t, k)
}

func TestEnsureTopic_CreatesWhatCheckAccepts(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := cluster3(t)
		for range 2 { // the second time it is there
			if err := c.EnsureTopic(within(t, 5*time.Second), spec("new")); err != nil {
				t.Fatal(err)
			}
		}
		if n := k.Requests(kmsg.CreateTopics.Int16(), ""); n > 2 {
			t.Errorf("%d requests to create a topic", n)
		}
		for p := range int32(4) {
			if _, err := c.Append(within(t, time.Second), "new", p, records("a")); err != nil {
				t.Errorf("partition %d cannot be used at once: %v", p, err)
			}
		}
		found, err := c.Check(within(t, 5*time.Second), kafkalog.Requirements{Topics: []kafkalog.TopicSpec{spec("new")}, SessionTimeout: 6 * time.Second})
		if err != nil || len(found) > 0 {
			t.Errorf("%v, %v", found, err)
		}
		want := map[string]string{
			"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "min.insync.replicas": "2",
			"message.timestamp.type": "LogAppendTime", "max.message.bytes": "1000000",
		}
		for setting, value := range want {
			if got := k.TopicInfo("new").Configs[setting]; got == nil || *got != value {
				t.Errorf("%s is not %s", setting, value)
			}
		}
	})
}

func TestEnsureTopic_SaysWhyNot(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := cluster3(t)
		few := spec("new")
		few.ReplicationFactor = 5
		if err := c.EnsureTopic(within(t, 5*time.Second), few); !errors.Is(err, kafka.InvalidReplicationFactor) {
			t.Errorf("too few brokers: %v", err)
		}
		k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.TopicAuthorizationFailed})
		if err := c.EnsureTopic(within(t, 5*time.Second), spec("new")); !errors.Is(err, kafka.TopicAuthorizationFailed) {
			t.Errorf("no permission: %v", err)
		}
		k.Cut()
		var unreachable *kafkalog.BrokerError
		if err := c.EnsureTopic(within(t, 5*time.Second), spec("new")); !errors.As(err, &unreachable) {
			t.Errorf("cut link: %v", err)
		}
	})
}

func TestPartitionCount_SeesGrowth(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := cluster3(t)
		if err := c.EnsureTopic(t.Context(), spec("new")); err != nil {
			t.Fatal(err)
		}
		if n, err := c.PartitionCount(t.Context(), "new"); n != 4 || err != nil {
			t.Errorf("%d partitions, %v", n, err)
		}
		client := &kafka.Client{Addr: kafka.TCP(k.Addrs()[0]), Transport: &kafka.Transport{Dial: k.Dial}}
		defer client.Transport.(*kafka.Transport).CloseIdleConnections()
		if _, err := client.CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: "new", Count: 6}}}); err != nil {
			t.Fatal(err)
		}
		if n, err := c.PartitionCount(t.Context(), "new"); n != 6 || err != nil {
			t.Errorf("%d partitions afterwards, %v", n, err)
		}
		if _, err := c.PartitionCount(t.Context(), "absent"); !errors.Is(err, kafka.UnknownTopicOrPartition) {
			t.Errorf("absent topic: %v", err)
		}
	})
}

// A broker that answers for a moment that the topic has no leader, and lists no partition, does not say that it has
// none: to refuse to run would be for ever.
func TestCheck_AbsentLeaderIsNoPartitionCount(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := cluster3(t)
		if err := c.EnsureTopic(t.Context(), spec("new")); err != nil {
			t.Fatal(err)
		}
		f := k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "new", Err: kerr.LeaderNotAvailable, Count: -1})
		if n, err := c.PartitionCount(within(t, 5*time.Second), "new"); !errors.Is(err, kafka.LeaderNotAvailable) {
			t.Errorf("%d partitions, %v", n, err)
		}
		found, err := c.Check(within(t, 5*time.Second), kafkalog.Requirements{Topics: []kafkalog.TopicSpec{spec("new")}})
		if err == nil || len(found) > 0 {
			t.Errorf("%v, %v", found, err)
		}
		f.Remove()
		if n, err := c.PartitionCount(within(t, 5*time.Second), "new"); n != 4 || err != nil {
			t.Errorf("afterwards: %d partitions, %v", n, err)
		}
	})
}

func TestCheck_NamesEveryFaultAtOnce(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := cluster3(t, kfake.BrokerConfigs(map[string]string{
			"group.min.session.timeout.ms": "6000", "group.max.session.timeout.ms": "30000", "auto.create.topics.enable": "true",
		}))
		str := func(s string) *string { return &s }
		bad := kmsg.NewCreateTopicsRequest()
		bt := kmsg.NewCreateTopicsRequestTopic()
		bt.Topic, bt.NumPartitions, bt.ReplicationFactor = "bad", 7, 1
		for name, value := range map[string]string{
			"cleanup.policy": "compact,delete", "retention.ms": "604800000", "retention.bytes": "1073741824", "max.message.bytes": "500000",
			"unclean.leader.election.enable": "true", "min.insync.replicas": "1", "message.timestamp.type": "CreateTime",
		} {
			cfg := kmsg.NewCreateTopicsRequestTopicConfig()
			cfg.Name, cfg.Value = name, str(value)
			bt.Configs = append(bt.Configs, cfg)
		}
		bad.Topics = append(bad.Topics, bt)
		createRaw(t, k, &bad)

		found, err := c.Check(within(t, 5*time.Second), kafkalog.Requirements{
			Topics: []kafkalog.TopicSpec{spec("bad"), spec("absent")}, SessionTimeout: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]kafkalog.Severity{
			"partitions 7 4":                                                      kafkalog.Refuse,
			"cleanup.policy compact,delete delete":                                kafkalog.Refuse,
			"retention.ms 604800000 -1":                                           kafkalog.Refuse,
			"retention.bytes 1073741824 -1":                                       kafkalog.Refuse,
			"max.message.bytes 500000 1000000":                                    kafkalog.Refuse,
			"group.min.session.timeout.ms 6000 at most 1000, the session timeout": kafkalog.Refuse,
			"replication factor 1 3":                                              kafkalog.Warn,
			"min.insync.replicas 1 2":                                             kafkalog.Warn,
			"message.timestamp.type CreateTime LogAppendTime":                     kafkalog.Warn,
			"unclean.leader.election.enable true false":                           kafkalog.Warn,
			"auto.create.topics.enable true false":                                kafkalog.Warn,
		}
		for _, f := range found {
			key := f.Setting + " " + f.Value + " " + f.Want
			severity, ok := want[key]
			if !ok {
				if f.Topic == "" { // three brokers say it each
					continue
				}
				t.Errorf("not wanted: %v", f)
				continue
			}
			if f.Severity != severity {
				t.Errorf("%s: %v", key, f.Severity)
			}
			if f.Fix == "" || f.Why == "" {
				t.Errorf("%s: no fix or no reason", key)
			}
			if f.Setting == "replication factor" {
				plan, tool, _ := strings.Cut(f.Fix, "; ")
				if !strings.HasPrefix(plan, `echo '{"version":1,"partitions":[{"topic":"bad","partition":0,"replicas":[`) || !strings.HasSuffix(plan, "}' > bad.json") ||
					!strings.HasPrefix(tool, "kafka-reassign-partitions.sh --bootstrap-server localhost:909") || !strings.HasSuffix(tool, " --reassignment-json-file bad.json --execute") {
					t.Errorf("fix is %q", f.Fix)
				}
			}
			if strings.Contains(f.Setting, ".") && f.Topic != "" {
				line := "--alter --entity-type topics --entity-name bad --add-config " + f.Setting + "=" + f.Want
				if !strings.HasPrefix(f.Fix, "kafka-configs.sh --bootstrap-server localhost:909") || !strings.HasSuffix(f.Fix, line) {
					t.Errorf("%s: fix is %q", key, f.Fix)
				}
			}
		}
		for key := range want {
			if !slices.ContainsFunc(found, func(f kafkalog.Finding) bool { return f.Setting+" "+f.Value+" "+f.Want == key }) {
				t.Errorf("not found: %s", key)
			}
		}
		if !kafkalog.Refused(found) {
			t.Error("not refused")
		}
		long := kafkalog.Requirements{SessionTimeout: time.Minute}
		if found, err := c.Check(within(t, 5*time.Second), long); err != nil || !kafkalog.Refused(found) {
			t.Errorf("a session that is too long: %v, %v", found, err)
		}
	})
}

func createRaw(t *testing.T, k *kafkatest.Cluster, req *kmsg.CreateTopicsRequest) {
	t.Helper()
	cfgs := make(map[string]string)
	for _, c := range req.Topics[0].Configs {
		cfgs[c.Name] = *c.Value
	}
	var entries []kafka.ConfigEntry
	for n, v := range cfgs {
		entries = append(entries, kafka.ConfigEntry{ConfigName: n, ConfigValue: v})
	}
	client := &kafka.Client{Addr: kafka.TCP(k.Addrs()[0]), Transport: &kafka.Transport{Dial: k.Dial}}
	defer client.Transport.(*kafka.Transport).CloseIdleConnections()
	res, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: req.Topics[0].Topic, NumPartitions: int(req.Topics[0].NumPartitions), ReplicationFactor: int(req.Topics[0].ReplicationFactor), ConfigEntries: entries,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Errors[req.Topics[0].Topic]; err != nil {
		t.Fatal(err)
	}
}

func TestCheck_RefusesABrokerThatIsTooOld(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		_, c := cluster3(t, kfake.MaxVersions(kversion.V0_10_2()))
		found, err := c.Check(within(t, 5*time.Second), kafkalog.Requirements{SessionTimeout: 6 * time.Second})
		if err != nil || !kafkalog.Refused(found) {
			t.Errorf("%v, %v", found, err)
		}
	})
}

func TestCheck_AcceptsOldestSupported(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		_, c := cluster3(t, kfake.MaxVersions(kversion.V2_1_0()), kfake.SeedTopics(2, topic))
		found, err := c.Check(within(t, 5*time.Second), kafkalog.Requirements{SessionTimeout: 6 * time.Second})
		if err != nil || len(found) > 0 {
			t.Errorf("%v, %v", found, err)
		}
		mustAppend(t, c, "a", "b")
		r := c.Reader(topic, 0)
		defer r.Close()
		if got, err := readAll(t, r, 0); err != nil || len(got) != 2 {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestCheck_MissingPermissions(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := cluster3(t)
		if err := c.EnsureTopic(t.Context(), spec("new")); err != nil {
			t.Fatal(err)
		}
		all := kafkalog.Requirements{Topics: []kafkalog.TopicSpec{spec("new")}, SessionTimeout: 6 * time.Second}
		isTopic := func(r kmsg.Request) bool {
			return r.(*kmsg.DescribeConfigsRequest).Resources[0].ResourceType == kmsg.ConfigResourceTypeTopic
		}
		h := k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.ClusterAuthorizationFailed, Count: -1, When: func(r kmsg.Request) bool { return !isTopic(r) }})
		found, err := c.Check(within(t, 5*time.Second), all)
		if err != nil || len(found) != 3 || kafkalog.Refused(found) {
			t.Errorf("broker settings hidden: %v, %v", found, err)
		}
		h.Remove()
		k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1, When: isTopic})
		found, err = c.Check(within(t, 5*time.Second), all)
		if err != nil || len(found) != 1 || !kafkalog.Refused(found) {
			t.Errorf("topic settings hidden: %v, %v", found, err)
		}
	})
}

func TestCheck_OneBrokerDownIsNoFault(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := cluster3(t)
		if err := c.EnsureTopic(t.Context(), spec("new")); err != nil {
			t.Fatal(err)
		}
		k.RemoveNode(0)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if found, err := c.Check(ctx, kafkalog.Requirements{SessionTimeout: 6 * time.Second}); err != nil || kafkalog.Refused(found) {
			t.Errorf("%v, %v", found, err)
		}
	})
}
