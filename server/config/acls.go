package config

import "strings"

// ACLs says for whom the command acls prints rights, and on what.
type ACLs struct {
	Brokers     []string `group:"Kafka" placeholder:"HOST:PORT,…" help:"Kafka brokers that the printed commands name."`
	TopicPrefix string   `group:"Kafka" placeholder:"NAME" help:"The topics are PREFIX.messages and PREFIX.directory."`
	GroupID     string   `group:"Kafka" name:"group-id" placeholder:"NAME" help:"Consumer group of the instances that share the work. Default: the topic prefix."`
	Principal   string   `group:"Kafka" placeholder:"TYPE:NAME" help:"Whom the brokers take an instance for: User: and the name of --kafka-user, or the subject of its certificate."`
}

// ACLDefaults is what holds for the acls command where nothing is set.
func ACLDefaults() ACLs {
	d := Defaults()
	return ACLs{Brokers: []string{"localhost:9092"}, TopicPrefix: d.TopicPrefix, Principal: "User:chathome"}
}

// Group is the consumer group: the one set, or the topic prefix.
func (a *ACLs) Group() string {
	if a.GroupID != "" {
		return a.GroupID
	}
	return a.TopicPrefix
}

// Validate returns Faults with everything that is wrong with a, or nil.
func (a *ACLs) Validate() error { return a.faults().orNil() }

func (a *ACLs) faults() Faults {
	var f Faults
	for _, broker := range a.Brokers {
		if problem := addressProblem(broker, false); problem != "" {
			f.add("brokers", "%s", problem)
		}
	}
	if len(a.Brokers) == 0 {
		f.add("brokers", "names none")
	}
	checkNames(&f, a.TopicPrefix, a.Group())
	kind, name, ok := strings.Cut(a.Principal, ":")
	if !ok || kind == "" || name == "" || strings.ContainsAny(a.Principal, "\r\n\x00") {
		f.add("principal", "%q is not a principal such as User:chathome", a.Principal)
	}
	return f
}
