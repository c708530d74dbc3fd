package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
)

// Severity says whether chathome starts in spite of a Finding.
type Severity uint8

// The severities.
const (
	Warn   Severity = iota // start, and say so
	Refuse                 // do not start: acknowledged messages could be lost, or nothing would work
)

func (s Severity) String() string { return [...]string{"warn", "refuse"}[s] }

// Finding is one setting of the cluster that is not as it should be.
type Finding struct {
	Severity Severity
	Topic    string // "" where it is the broker's
	Broker   string // its address, where it is the broker's
	Setting  string
	Value    string
	Want     string
	Why      string
	Fix      string // a command, or what to do where no command does it
}

func (f Finding) String() string { return f.What() + ". To mend it: " + f.Fix }

// What is all but the fix.
func (f Finding) What() string {
	where := "topic " + f.Topic
	if f.Topic == "" {
		where = "broker " + f.Broker
	}
	return fmt.Sprintf("%s: %s is %s, want %s: %s", where, f.Setting, f.Value, f.Want, f.Why)
}

// Refused says whether one of the findings forbids the start.
func Refused(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Refuse })
}

// Requirements is what Check holds the cluster against.
type Requirements struct {
	// Topics as they should be; those that are not there yet are left out. Partitions 0: not pinned.
	Topics []TopicSpec
	// SessionTimeout of the consumer group; 0: not checked.
	SessionTimeout time.Duration
}

// Check reads the settings of the topics and of every broker that answers, and reports all that is wrong at once.
// An error says that they could not be read at all.
func (c *Cluster) Check(ctx context.Context, want Requirements) ([]Finding, error) {
	brokers, _, err := c.liveBrokers(ctx)
	if err != nil {
		return nil, fmt.Errorf("check the cluster: %w", err)
	}
	var found []Finding
	var errs []error
	answered := ""
	for _, id := range slices.Sorted(maps.Keys(brokers)) {
		f, err := c.checkBroker(ctx, id, brokers[id], want)
		if err != nil {
			errs = append(errs, err) // a broker that is down must not stop the others from being used
			continue
		}
		answered = brokers[id]
		found = append(found, f...)
	}
	if len(brokers) == 0 {
		errs = []error{errors.New("it names no brokers")}
	}
	if answered == "" {
		return nil, fmt.Errorf("check the cluster: %w", errors.Join(errs...))
	}
	for i := range want.Topics {
		f, err := c.checkTopic(ctx, answered, &want.Topics[i])
		if err != nil {
			return nil, fmt.Errorf("check topic %s: %w", want.Topics[i].Name, err)
		}
		found = append(found, f...)
	}
	return found, nil
}

const (
	settingMinSession = "group.min.session.timeout.ms"
	settingMaxSession = "group.max.session.timeout.ms"
	settingAutoCreate = "auto.create.topics.enable"

	resourceTopic  = 2
	resourceBroker = 4
)

func (c *Cluster) checkBroker(ctx context.Context, id int32, addr string, want Requirements) ([]Finding, error) {
	k, err := c.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	found := checkVersions(addr, k.versions)
	c.pool.put(k)
	if len(found) > 0 {
		return found, nil // too old to be asked further
	}
	settings, err := c.settings(ctx, addr, resourceBroker, strconv.Itoa(int(id)), settingMinSession, settingMaxSession, settingAutoCreate)
	if code, ok := refusal(err); ok {
		return []Finding{{
			Severity: Warn, Broker: addr, Setting: "broker settings", Value: "not visible", Want: "visible",
			Why: fmt.Sprintf("the limits of session timeouts cannot be checked (%v)", code),
			Fix: "kafka-acls.sh --bootstrap-server " + addr + " --add --allow-principal User:NAME --operation DescribeConfigs --cluster",
		}}, nil
	}
	if err != nil {
		return nil, err
	}
	if want.SessionTimeout > 0 {
		ms := want.SessionTimeout.Milliseconds()
		why := "the broker refuses every member of the group"
		if low, ok := number(settings, settingMinSession); ok && ms < low {
			found = append(found, Finding{Severity: Refuse, Broker: addr, Setting: settingMinSession, Value: settings[settingMinSession],
				Want: fmt.Sprintf("at most %d, the session timeout", ms), Why: why,
				Fix: fmt.Sprintf("chathome --session-timeout %dms or more; or %s=%d in the broker's properties and a restart of it", low, settingMinSession, ms)})
		}
		if high, ok := number(settings, settingMaxSession); ok && ms > high {
			found = append(found, Finding{Severity: Refuse, Broker: addr, Setting: settingMaxSession, Value: settings[settingMaxSession],
				Want: fmt.Sprintf("at least %d, the session timeout", ms), Why: why,
				Fix: fmt.Sprintf("chathome --session-timeout %dms or less; or %s=%d in the broker's properties and a restart of it", high, settingMaxSession, ms)})
		}
	}
	if settings[settingAutoCreate] == "true" {
		found = append(found, Finding{Severity: Warn, Broker: addr, Setting: settingAutoCreate, Value: "true", Want: "false",
			Why: "a deleted topic comes back by itself, empty and with the broker's defaults",
			Fix: settingAutoCreate + "=false in the broker's properties and a restart of it"})
	}
	return found, nil
}

func (c *Cluster) checkTopic(ctx context.Context, addr string, want *TopicSpec) ([]Finding, error) {
	t, err := c.freshTopic(ctx, want.Name)
	if errors.Is(err, kafka.UnknownTopicOrPartition) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	finding := func(s Severity, setting, value, wanted, why, fix string) Finding {
		return Finding{Severity: s, Topic: want.Name, Setting: setting, Value: value, Want: wanted, Why: why, Fix: fix}
	}
	var found []Finding
	if n := len(t.partitions); want.Partitions > 0 && n != want.Partitions {
		found = append(found, finding(Refuse, "partitions", strconv.Itoa(n), strconv.Itoa(want.Partitions),
			"rooms would be looked for on other shards than they are on",
			"partitions cannot be taken away: start with another --topic-prefix, or restore the topic"))
	}
	replicas := fewestReplicas(t)
	if replicas < want.ReplicationFactor {
		found = append(found, finding(Warn, "replication factor", strconv.Itoa(replicas), strconv.Itoa(want.ReplicationFactor),
			"fewer brokers may fail before messages are lost",
			c.reassignment(addr, want, t)))
	}
	settings, err := c.settings(ctx, addr, resourceTopic, want.Name,
		settingCleanup, settingRetentionMs, settingRetentionSize, settingMinInSync, settingUnclean, settingTimestamp, settingMaxBytes)
	if code, ok := refusal(err); ok {
		return append(found, finding(Refuse, "topic settings", "not visible", "visible",
			fmt.Sprintf("whether the topic keeps its messages cannot be checked (%v)", code),
			"kafka-acls.sh --bootstrap-server "+addr+" --add --allow-principal User:NAME --operation DescribeConfigs --topic "+want.Name)), nil
	}
	if err != nil {
		return nil, err
	}
	for _, f := range judgeTopic(settings, want, replicas) {
		f.Topic = want.Name
		if f.Fix == "" {
			f.Fix = fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s=%s",
				addr, want.Name, f.Setting, f.Want)
		}
		found = append(found, f)
	}
	return found, nil
}

// judgeTopic compares a topic's settings. Want is the value to set, as it goes into the command.
func judgeTopic(settings map[string]string, want *TopicSpec, replicas int) (found []Finding) {
	add := func(s Severity, setting, wanted, why string) {
		found = append(found, Finding{Severity: s, Setting: setting, Value: settings[setting], Want: wanted, Why: why})
	}
	if strings.Contains(settings[settingCleanup], "compact") {
		add(Refuse, settingCleanup, "delete", "compaction removes messages")
	}
	for _, s := range []string{settingRetentionMs, settingRetentionSize} {
		if n, ok := number(settings, s); ok && n != -1 {
			add(Refuse, s, "-1", "old messages would be deleted")
		}
	}
	if n, ok := number(settings, settingMaxBytes); ok && n < int64(want.MaxMessageBytes) {
		add(Refuse, settingMaxBytes, strconv.Itoa(want.MaxMessageBytes), "the broker refuses large batches, and what waits in them is never stored")
	}
	if settings[settingUnclean] == "true" {
		add(Warn, settingUnclean, "false", "a broker that lags may become leader, and acknowledged messages are lost")
	}
	if settings[settingTimestamp] == "CreateTime" {
		add(Warn, settingTimestamp, "LogAppendTime", "records have no time in the log")
	}
	if n, ok := number(settings, settingMinInSync); ok {
		switch {
		case n < int64(want.MinInSync):
			add(Warn, settingMinInSync, strconv.Itoa(want.MinInSync), "messages are acknowledged with fewer copies")
		case n > int64(replicas):
			add(Warn, settingMinInSync, strconv.Itoa(replicas), "there are fewer replicas than that, so it protects nothing")
		}
	}
	return found
}

func fewestReplicas(t *topicRoute) int {
	n := -1
	for _, p := range t.partitions {
		if n < 0 || len(p.replicas) < n {
			n = len(p.replicas)
		}
	}
	return n
}

func number(settings map[string]string, name string) (int64, bool) {
	n, err := strconv.ParseInt(settings[name], 10, 64)
	return n, err == nil
}

// refusal tells the answer of a broker that was reached from the failure to reach it.
func refusal(err error) (kafka.Error, bool) {
	var unreached *BrokerError
	if errors.As(err, &unreached) {
		return 0, false
	}
	var code kafka.Error
	return code, errors.As(err, &code)
}

// settings asks a broker for settings by name. Those that it does not know are left out. A refusal is a kafka.Error.
func (c *Cluster) settings(ctx context.Context, addr string, kind int8, name string, names ...string) (map[string]string, error) {
	m, err := c.ask(ctx, addr, &describeconfigs.Request{
		Resources: []describeconfigs.RequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: names}},
	})
	if err != nil {
		return nil, err
	}
	res := m.(*describeconfigs.Response)
	if len(res.Resources) != 1 {
		return nil, damaged("%d resources in the answer", len(res.Resources))
	}
	if code := res.Resources[0].ErrorCode; code != 0 {
		return nil, kafka.Error(code)
	}
	all := make(map[string]string, len(names))
	for _, e := range res.Resources[0].ConfigEntries {
		all[e.ConfigName] = e.ConfigValue
	}
	return all, nil
}
