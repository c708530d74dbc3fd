package config

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func parse(t *testing.T, args ...string) (Command, error) {
	t.Helper()
	for _, entry := range os.Environ() { // a developer's own variables must not decide
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, envPrefix+"_") && !slices.Contains(kept, name) {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	return Parse(args, "v1", &bytes.Buffer{})
}

// kept are variables that the table test below sets itself.
var kept []string

func TestDefaults_AreValidAndThoseOfTheContract(t *testing.T) {
	cmd, err := parse(t, "serve")
	if err != nil {
		t.Fatal(err)
	}
	got, want := cmd.Serve, Config{
		Listen: "127.0.0.1:8080", DataDir: "./.chathome", GraphiQL: true, Introspection: true,
		ShutdownTimeout: 10 * time.Second, TopicPrefix: "chathome", Shards: 12, Gate: GateInstance,
		HeartbeatInterval: 200 * time.Millisecond, SessionTimeout: 6 * time.Second, RebalanceTimeout: 4 * time.Second,
		KafkaSASL: SASLNone, Logging: Logging{LogLevel: slog.LevelInfo, LogFormat: LogText},
	}
	if !equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Group() != "chathome" || !got.Embedded() {
		t.Errorf("group %q, embedded %v", got.Group(), got.Embedded())
	}
	cmd, err = parse(t, "broker")
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Broker != BrokerDefaults() || cmd.Broker.Listen != "127.0.0.1:9092" {
		t.Errorf("broker defaults: %+v", cmd.Broker)
	}
}

func equal(a, b Config) bool {
	lists := slices.Equal(a.Brokers, b.Brokers) && slices.Equal(a.AllowedOrigins, b.AllowedOrigins) && slices.Equal(a.TrustedProxies, b.TrustedProxies)
	a.Brokers, b.Brokers, a.AllowedOrigins, b.AllowedOrigins = nil, nil, nil, nil
	a.TrustedProxies, b.TrustedProxies = nil, nil
	return lists && formatAll(a) == formatAll(b)
}

func formatAll(c Config) string { return fmt.Sprintf("%+v", c) }

func TestParse_ReadsEveryFlagAndItsVariable(t *testing.T) {
	for _, tc := range []struct {
		flag, value string
		got         func(c Config) any
		want        any
		with        []string // what makes it valid
	}{
		{"listen", "0.0.0.0:0", func(c Config) any { return c.Listen }, "0.0.0.0:0", nil},
		{"advertised-url", "https://chat.example/", func(c Config) any { return c.AdvertisedURL }, "https://chat.example", nil},
		{"metrics-listen", ":9464", func(c Config) any { return c.MetricsListen }, ":9464", nil},
		{"instance-id", "a-1", func(c Config) any { return c.InstanceID }, "a-1", nil},
		{"data-dir", ":memory:", func(c Config) any { return c.DataDir }, InMemory, nil},
		{"brokers", "a:1, b:2,a:1", func(c Config) any { return strings.Join(c.Brokers, " ") }, "a:1 b:2", nil},
		{"topic-prefix", "p", func(c Config) any { return c.TopicPrefix + c.Group() }, "pp", nil},
		{"group-id", "g", func(c Config) any { return c.Group() }, "g", nil},
		{"shards", "3", func(c Config) any { return c.Shards }, 3, nil},
		{"replication-factor", "3", func(c Config) any { return c.ReplicationFactor }, 3, []string{"--brokers=a:1"}},
		{"min-insync-replicas", "2", func(c Config) any { return c.MinInsyncReplicas }, 2, nil},
		{"gate", "SHARD", func(c Config) any { return c.Gate }, GateShard, nil},
		{"heartbeat-interval", "500ms", func(c Config) any { return c.HeartbeatInterval }, 500 * time.Millisecond, nil},
		{"session-timeout", "10s", func(c Config) any { return c.SessionTimeout }, 10 * time.Second, nil},
		{"rebalance-timeout", "1m", func(c Config) any { return c.RebalanceTimeout }, time.Minute, nil},
		{"shutdown-timeout", "5s", func(c Config) any { return c.ShutdownTimeout }, 5 * time.Second, nil},
		{"allowed-origins", "http://LOCALHOST:5173/,https://app.example", func(c Config) any { return strings.Join(c.AllowedOrigins, " ") }, "http://localhost:5173 https://app.example", nil},
		{"trusted-proxies", "10.0.0.0/8, ::1", func(c Config) any { return strings.Join(c.TrustedProxies, " ") }, "10.0.0.0/8 ::1", nil},
		{"tls-cert", "f", func(c Config) any { return c.TLSCert + c.Scheme() }, "fhttps", []string{"--tls-key=k"}},
		{"tls-key", "f", func(c Config) any { return c.TLSKey }, "f", []string{"--tls-cert=c"}},
		{"graphiql", "off", func(c Config) any { return c.GraphiQL }, false, nil},
		{"introspection", "false", func(c Config) any { return c.Introspection }, false, nil},
		{"log-level", "Debug", func(c Config) any { return c.LogLevel }, slog.LevelDebug, nil},
		{"log-format", "json", func(c Config) any { return c.LogFormat }, LogJSON, nil},
		{"kafka-tls", "on", func(c Config) any { return c.KafkaTLS }, true, []string{"--brokers=a:1"}},
		{"kafka-tls-ca", "f", func(c Config) any { return c.KafkaTLSCA }, "f", []string{"--brokers=a:1", "--kafka-tls"}},
		{"kafka-tls-cert", "f", func(c Config) any { return c.KafkaTLSCert }, "f", []string{"--brokers=a:1", "--kafka-tls", "--kafka-tls-key=k"}},
		{"kafka-tls-key", "f", func(c Config) any { return c.KafkaTLSKey }, "f", []string{"--brokers=a:1", "--kafka-tls", "--kafka-tls-cert=k"}},
		{"kafka-sasl", "plain", func(c Config) any { return c.KafkaSASL }, SASLPlain, []string{"--brokers=a:1", "--kafka-user=u", "--kafka-password-file=f"}},
		{"kafka-user", "u", func(c Config) any { return c.KafkaUser }, "u", []string{"--brokers=a:1", "--kafka-sasl=plain", "--kafka-password-file=f"}},
		{"kafka-password-file", "f", func(c Config) any { return c.KafkaPasswordFile }, "f", []string{"--brokers=a:1", "--kafka-sasl=plain", "--kafka-user=u"}},
	} {
		for _, way := range []string{"flag=value", "flag value", "variable", "variable, flag wins"} {
			t.Run(tc.flag+" by "+way, func(t *testing.T) {
				name := "CHATHOME_" + strings.ToUpper(strings.ReplaceAll(tc.flag, "-", "_"))
				kept = []string{name}
				args := append([]string{"serve"}, tc.with...)
				switch way {
				case "flag=value":
					args = append(args, "--"+tc.flag+"="+tc.value)
				case "flag value":
					args = append(args, "--"+tc.flag, tc.value)
				case "variable":
					t.Setenv(name, tc.value)
				default:
					t.Setenv(name, "no value of any flag :// \x01")
					args = append(args, "--"+tc.flag+"="+tc.value)
				}
				cmd, err := parse(t, args...)
				if err != nil {
					t.Fatal(err)
				}
				if got := tc.got(cmd.Serve); got != tc.want {
					t.Errorf("got %v, want %v", got, tc.want)
				}
			})
		}
	}
	kept = nil
}

func TestParse_SwitchesTakeAllUsualForms(t *testing.T) {
	for args, want := range map[string]bool{
		"":                           true,
		"--graphiql":                 true,
		"--graphiql --shards=3":      true,
		"--graphiql on":              true,
		"--graphiql off":             false,
		"--graphiql=no":              false,
		"--graphiql=0":               false,
		"--no-graphiql":              false,
		"--no-graphiql --graphiql=1": true,
	} {
		cmd, err := parse(t, append([]string{"serve"}, strings.Fields(args)...)...)
		if err != nil || cmd.Serve.GraphiQL != want {
			t.Errorf("%q: got %v %v, want %v", args, cmd.Serve.GraphiQL, err, want)
		}
	}
}

func TestParse_NamesEveryFaultAtOnce(t *testing.T) {
	for _, tc := range []struct {
		why    string
		args   string
		faults []string // flags, in order
	}{
		{"values that cannot be read do not hide each other", "--shards=many --gate=door --graphiql=maybe --session-timeout=6 --log-level=loud --log-format=xml",
			[]string{"graphiql", "shards", "gate", "session-timeout", "log-level", "log-format"}},
		{"unreadable and unreasonable ones are told together", "--shards=x --listen=nowhere", []string{"shards", "listen"}},
		{"addresses", "--listen=:99999 --brokers=a,b:0,:9092,c:9092", []string{"listen", "brokers", "brokers", "brokers"}},
		{"metrics in the way of the API", "--listen=127.0.0.1:1 --metrics-listen=127.0.0.1:1", []string{"metrics-listen"}},
		{"urls", "--advertised-url=ftp://x --allowed-origins=*,https://*.example,https://a.example/path,app.example,null", []string{"advertised-url", "allowed-origins", "allowed-origins", "allowed-origins", "allowed-origins", "allowed-origins"}},
		{"a url with a password", "--advertised-url=http://u:p@x", []string{"advertised-url"}},
		{"proxies", "--trusted-proxies=proxy.example,10.0.0.0/8,10.0.0.0/99", []string{"trusted-proxies", "trusted-proxies"}},
		{"half a pair of our own", "--tls-cert=f", []string{"tls-key"}},
		{"its other half", "--tls-key=f", []string{"tls-cert"}},
		{"names", "--instance-id=a/b --topic-prefix=.. --data-dir= ", []string{"instance-id", "data-dir", "topic-prefix"}},
		{"a prefix too long for .directory", "--group-id=g --topic-prefix=" + strings.Repeat("p", 240), []string{"topic-prefix"}},
		{"numbers", "--shards=0 --replication-factor=-1 --min-insync-replicas=-1", []string{"shards", "replication-factor", "min-insync-replicas"}},
		{"more copies to write than there are", "--brokers=a:1 --replication-factor=2 --min-insync-replicas=3", []string{"min-insync-replicas"}},
		{"copies at the embedded broker", "--replication-factor=3", []string{"replication-factor"}},
		{"a session that ends before its loss can be known", "--heartbeat-interval=5s --rebalance-timeout=20s", []string{"session-timeout"}},
		{"a rebalance that ends before its loss can be known", "--rebalance-timeout=1700ms", []string{"rebalance-timeout"}},
		{"a rebalance shorter than a drain", "--rebalance-timeout=1s", []string{"rebalance-timeout", "rebalance-timeout"}},
		{"just enough", "--rebalance-timeout=1701ms --session-timeout=1701ms", nil},
		{"no time at all", "--heartbeat-interval=0s --session-timeout=0s --rebalance-timeout=-1s --shutdown-timeout=0s", []string{"heartbeat-interval", "session-timeout", "rebalance-timeout", "shutdown-timeout"}},
		{"a session that no stock broker takes", "--session-timeout=31m", []string{"session-timeout"}},
		{"security without brokers", "--kafka-tls --kafka-sasl=plain --kafka-user=u --kafka-password-file=f", []string{"kafka-tls", "kafka-sasl"}},
		{"TLS options without TLS", "--brokers=a:1 --kafka-tls-ca=f --kafka-tls-cert=f --kafka-tls-key=f", []string{"kafka-tls-ca", "kafka-tls-cert", "kafka-tls-key"}},
		{"half a pair", "--brokers=a:1 --kafka-tls --kafka-tls-cert=f", []string{"kafka-tls-key"}},
		{"the other half", "--brokers=a:1 --kafka-tls --kafka-tls-key=f", []string{"kafka-tls-cert"}},
		{"SASL without credentials", "--brokers=a:1 --kafka-sasl=scram-sha-512", []string{"kafka-user", "kafka-password-file"}},
		{"credentials without SASL", "--brokers=a:1 --kafka-user=u --kafka-password-file=f", []string{"kafka-user", "kafka-password-file"}},
	} {
		t.Run(tc.why, func(t *testing.T) {
			_, err := parse(t, append([]string{"serve"}, strings.Fields(tc.args)...)...)
			var faults Faults
			if err != nil && !errors.As(err, &faults) {
				t.Fatalf("not Faults: %v", err)
			}
			var flags []string
			for _, f := range faults {
				flags = append(flags, f.Flag)
				if !strings.Contains(err.Error(), "--"+f.Flag+" ("+EnvName(f.Flag)+"): ") {
					t.Errorf("the text does not name %s and its variable:\n%v", f.Flag, err)
				}
			}
			if !slices.Equal(flags, tc.faults) {
				t.Errorf("got  %v\nwant %v\n%v", flags, tc.faults, err)
			}
		})
	}
}

func TestParse_TellsWrongUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"serv"}, {"serve", "--nonsense"}, {"serve", "more"}, {"serve", "--listen"},
		{"schema", "--listen=:1"}, {"serve", "--kafka-password=secret"}} {
		_, err := parse(t, args...)
		var usage *UsageError
		if !errors.As(err, &usage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestParse_BrokerStaysOnThisMachine(t *testing.T) {
	for listen, ok := range map[string]bool{
		"127.0.0.1:9092": true, "localhost:0": true, "[::1]:9092": true, "127.8.8.8:1": true,
		"0.0.0.0:9092": false, ":9092": false, "192.168.1.2:9092": false, "broker.example:9092": false, "nonsense": false,
	} {
		_, err := parse(t, "broker", "--listen="+listen)
		if (err == nil) != ok {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestParse_HelpAndVersionEverywhere(t *testing.T) {
	for _, args := range [][]string{{}, {"serve"}, {"broker"}, {"check"}, {"acls"}, {"export"}, {"import"}, {"schema"}} {
		for _, flag := range []string{"--help", "--version"} {
			var out bytes.Buffer
			cmd, err := Parse(append(args, flag), "v1.2.3", &out)
			if err != nil || cmd.Name != "" {
				t.Errorf("%v %s: %+v, %v", args, flag, cmd, err)
			}
			if flag == "--version" && out.String() != "chathome v1.2.3\n" {
				t.Errorf("%v %s: %q", args, flag, out.String())
			}
		}
	}
}

// Each flag is explained, with its variable and its default, and the documented list is this one.
func TestFlags_AreExplainedInHelpAndInTheDocs(t *testing.T) {
	docs, err := os.ReadFile(filepath.FromSlash("../../docs/CONFIGURATION.md"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := newParser(&grammar{}, newValueFaults(), "v1", &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| `([A-Z_]+)` \\| (.*?) \\| (.*) \\|$")
	for _, command := range k.Model.Children {
		var help bytes.Buffer
		if _, err := Parse([]string{command.Name, "--help"}, "v1", &help); err != nil {
			t.Fatal(err)
		}
		documented := map[string][]string{}
		heading := "## chathome " + command.Name
		text := section(string(docs), heading)
		switch command.Name {
		case CommandCheck, CommandExport, CommandImport: // they have the flags of serve
			text += section(string(docs), "## chathome "+CommandServe)
		}
		for _, match := range row.FindAllStringSubmatch(text, -1) {
			documented[match[1]] = match
		}
		for _, flag := range command.Flags {
			if flag.Help == "" || !strings.HasSuffix(flag.Help, ".") {
				t.Errorf("%s --%s: help is no sentence: %q", command.Name, flag.Name, flag.Help)
			}
			if len(flag.Envs) != 1 || flag.Envs[0] != EnvName(flag.Name) {
				t.Errorf("%s --%s: variables %v", command.Name, flag.Name, flag.Envs)
			}
			flat := strings.Join(strings.Fields(help.String()), " ")
			if !strings.Contains(flat, flag.Name) || !strings.Contains(flat, "$"+EnvName(flag.Name)) {
				t.Errorf("%s --help does not show --%s and its variable", command.Name, flag.Name)
			}
			match := documented[flag.Name]
			delete(documented, flag.Name)
			if match == nil {
				t.Errorf("docs/CONFIGURATION.md does not list %s --%s", command.Name, flag.Name)
				continue
			}
			if match[2] != EnvName(flag.Name) || match[4] != flag.Help {
				t.Errorf("docs/CONFIGURATION.md has another variable or text for %s --%s:\n%s %s\n%s %s", command.Name, flag.Name, match[2], match[4], EnvName(flag.Name), flag.Help)
			}
			if want := "`" + flag.Default + "`"; flag.HasDefault && match[3] != want {
				t.Errorf("docs/CONFIGURATION.md: default of %s --%s is %s, want %s", command.Name, flag.Name, match[3], want)
			}
		}
		for flag := range documented {
			t.Errorf("docs/CONFIGURATION.md lists %s --%s, which is not there", command.Name, flag)
		}
	}
}

func section(text, heading string) string {
	_, text, _ = strings.Cut(text, heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

func TestReadSecrets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for content, want := range map[string]string{"pass word": "pass word", "secret\n": "secret", "secret\r\n": "secret", " x ": " x "} {
		c := Config{KafkaPasswordFile: write("password", content)}
		s, err := c.readSecrets()
		if len(err) > 0 || s.Password != want {
			t.Errorf("%q: %q, %v", content, s.Password, err)
		}
	}
	bad := Config{
		KafkaTLS: true, KafkaTLSCA: write("ca", "hush, no certificate"), KafkaTLSCert: filepath.Join(dir, "none"),
		KafkaTLSKey: write("key", "hush"), KafkaPasswordFile: write("two", "hush\nhush\n"),
		TLSCert: write("cert", "hush"), TLSKey: write("key", "hush"),
	}
	_, faults := bad.readSecrets()
	if len(faults) != 4 {
		t.Fatalf("want four faults: %v", faults)
	}
	if strings.Contains(faults.Error(), "hush") {
		t.Errorf("a secret in the text: %v", faults)
	}
	_, err := Load([]string{"serve", "--shards=0", "--brokers=a:1", "--kafka-tls", "--kafka-tls-ca=" + bad.KafkaTLSCA}, "v1", &bytes.Buffer{})
	if !errors.As(err, &faults) || len(faults) != 2 {
		t.Errorf("want faults of values and of files: %v", err)
	}
}
