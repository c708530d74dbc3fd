// Package check reads the files of this folder's parent as those programs do that they are for. It is a module of its
// own because Prometheus' parser is no dependency of chathome. That the metrics exist is tested in server/metrics.
package check

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// As promtool check rules does.
func TestRules_AreThose(t *testing.T) {
	groups, errs := rulefmt.Parse(read(t, "prometheus/rules.yaml"), false)
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		return
	}
	names := map[string]bool{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			switch severity := r.Labels["severity"]; {
			case names[r.Alert]:
				t.Errorf("%s twice", r.Alert)
			case severity != "warning" && severity != "critical":
				t.Errorf("%s: severity %q", r.Alert, severity)
			case !strings.HasSuffix(r.Annotations["summary"], "."):
				t.Errorf("%s does not say what to do", r.Alert)
			}
			names[r.Alert] = true
		}
	}
	if len(names) < 10 {
		t.Errorf("only %d alerts", len(names))
	}
}

func TestDashboard_AsksWhatPrometheusUnderstands(t *testing.T) {
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Name string } }
	}
	if err := json.Unmarshal(read(t, "grafana/chathome.json"), &board); err != nil {
		t.Fatal(err)
	}
	grafana := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*")
	asked, ids := 0, map[int]bool{}
	for i, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("%s: id %d twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		for _, o := range board.Panels[:i] {
			a, b := p.GridPos, o.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q lies over %q", p.Title, o.Title)
			}
		}
		for _, target := range p.Targets {
			asked++
			if _, err := parser.ParseExpr(grafana.Replace(target.Expr)); err != nil {
				t.Errorf("%s: %v", p.Title, err)
			}
		}
	}
	if asked < 30 || len(board.Templating.List) != 3 {
		t.Errorf("%d questions, %d variables", asked, len(board.Templating.List))
	}
}

// The manifest is what kubectl reads: documents with a kind, and labels, ports and volumes that meet.
func TestManifest_FitsTogether(t *testing.T) {
	type mount struct {
		Name string
		Path string `yaml:"mountPath"`
	}
	type object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       yaml.Node
	}
	var set struct {
		ServiceName string `yaml:"serviceName"`
		Template    struct {
			Spec struct {
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
				Containers                    []struct {
					Ports          []struct{ Name string }
					Env            []struct{ Name, Value string }
					VolumeMounts   []mount `yaml:"volumeMounts"`
					ReadinessProbe struct {
						HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
					} `yaml:"readinessProbe"`
					Lifecycle struct {
						PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
					}
				}
			}
		}
		Claims []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
	kinds := map[string]string{}
	for decode := yaml.NewDecoder(strings.NewReader(string(read(t, "kubernetes/chathome.yaml")))); ; {
		var o object
		if err := decode.Decode(&o); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if o.APIVersion == "" || o.Kind == "" || o.Metadata.Name == "" {
			t.Errorf("%+v is no object", o)
		}
		kinds[o.Kind+" "+o.Metadata.Name] = o.APIVersion
		if o.Kind == "StatefulSet" {
			if err := o.Spec.Decode(&set); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, want := range []string{"Service chathome", "Service " + set.ServiceName, "StatefulSet chathome", "PodDisruptionBudget chathome"} {
		if kinds[want] == "" {
			t.Errorf("no %s among %v", want, kinds)
		}
	}
	if len(set.Template.Spec.Containers) != 1 || len(set.Claims) != 1 {
		t.Fatalf("%+v", set)
	}
	c := set.Template.Spec.Containers[0]
	ports := []string{}
	for _, p := range c.Ports {
		ports = append(ports, p.Name)
	}
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || !slices.Contains(ports, c.ReadinessProbe.HTTPGet.Port) || !slices.Contains(ports, "metrics") {
		t.Errorf("probe %+v, ports %v", c.ReadinessProbe, ports)
	}
	if set.Claims[0].Metadata.Name != c.VolumeMounts[0].Name {
		t.Errorf("mounts %+v of %+v", c.VolumeMounts, set.Claims)
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	if env["CHATHOME_DATA_DIR"] != c.VolumeMounts[0].Path || env["CHATHOME_SHUTDOWN_TIMEOUT"] != "10s" ||
		set.Template.Spec.TerminationGracePeriodSeconds < 10+c.Lifecycle.PreStop.Sleep.Seconds+2 {
		t.Errorf("the drain does not fit: %+v, %+v", env, set.Template.Spec)
	}
}
