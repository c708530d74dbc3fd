package metrics_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/server/metrics"
)

// described are the names of all metrics of this program, whether they have samples or not.
func described(t *testing.T) []string {
	t.Helper()
	seen := describer{names: map[string]bool{}}
	none := func() int { return 0 }
	err := metrics.Register(&seen, metrics.Sources{
		Home: func() kafkasvc.Stats { return kafkasvc.Stats{} }, Followers: metrics.NewFollowers(),
		Subscriptions: none, Sockets: none, Streams: none,
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range seen.names {
		if strings.HasPrefix(name, "chathome_") {
			names = append(names, name)
		}
	}
	if len(names) < 40 {
		t.Fatalf("only %v", names)
	}
	slices.Sort(names)
	return names
}

// describer is a registry that only listens.
type describer struct{ names map[string]bool }

var descName = regexp.MustCompile(`fqName: "([a-z0-9_]+)"`)

func (d *describer) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 256)
	c.Describe(descs)
	close(descs)
	for desc := range descs {
		d.names[descName.FindStringSubmatch(desc.String())[1]] = true
	}
	return nil
}
func (d *describer) MustRegister(...prometheus.Collector) {}
func (d *describer) Unregister(prometheus.Collector) bool { return false }

// named are the metrics of this program that a text speaks of.
func named(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bchathome_[a-z_]+[a-z]\b`).FindAllString(string(text), -1) {
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, part)
		}
		names[name] = true
	}
	return names
}

// Rules and dashboard ask for metrics that there are; the dashboard shows and the manual explains each of them.
func TestMetrics_AreThoseOfTheDeployment(t *testing.T) {
	all := described(t)
	for file, complete := range map[string]bool{
		"deploy/prometheus/rules.yaml": false, "deploy/grafana/chathome.json": true, "docs/OPERATIONS.md": true,
	} {
		names := named(t, file)
		for name := range names {
			if !slices.Contains(all, name) {
				t.Errorf("%s names %s, which there is not", file, name)
			}
		}
		for _, name := range all {
			if complete && !names[name] && !(name == "chathome_build_info" && strings.HasSuffix(file, ".json")) {
				t.Errorf("%s lacks %s", file, name)
			}
		}
	}
}
