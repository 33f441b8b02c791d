//go:build !race

package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"poold/internal/daemontest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// rule is a recording or an alert rule of prometheus/rules.yaml.
type rule struct {
	Record, Alert, Expr string
	For                 time.Duration
	Labels, Annotations map[string]string
}

// rules returns the recording rules and the alerts of prometheus/rules.yaml.
func rules(t *testing.T) (records, alerts []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	parse(t, "prometheus/rules.yaml", &file)
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			if r.Alert == "" {
				records = append(records, r)
			} else {
				alerts = append(alerts, r)
			}
		}
	}
	return records, alerts
}

func parse(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.NoError(t, err)
	return string(text)
}

func write(t testing.TB, path, text string) string {
	t.Helper()
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// promtool runs promtool, and fails the test if promtool fails.
func promtool(t testing.TB, args ...string) {
	t.Helper()
	output, err := exec.Command("promtool", args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s (Debian: apt-get install prometheus): %v\n%s", strings.Join(args, " "), err, output)
	}
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "prometheus/rules.yaml")
	// A copy with another path of the key, which promtool reads.
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), read(t, "prometheus/rules.yaml"))
	text := strings.ReplaceAll(read(t, "prometheus/prometheus.yaml"), "/etc/prometheus/poold.key",
		write(t, filepath.Join(dir, "poold.key"), "a key"))
	promtool(t, "check", "config", write(t, filepath.Join(dir, "prometheus.yaml"), text))
}

func TestStoriesOfTheAlertsHold(t *testing.T) {
	t.Parallel()
	promtool(t, "test", "rules", "prometheus/rules_test.yaml")
}

// TestEachAlertHasStories: a new alert needs a story in which it fires and one in which it is silent
// although its metrics exist.
func TestEachAlertHasStories(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			Name   string
			Series []struct{ Series string } `yaml:"input_series"`
			Alerts []struct {
				Name string `yaml:"alertname"`
				At   string `yaml:"eval_time"`
				Exp  []struct {
					Annotations map[string]string `yaml:"exp_annotations"`
				} `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	parse(t, "prometheus/rules_test.yaml", &file)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, story := range file.Tests {
		for _, alert := range story.Alerts {
			if len(story.Series) == 0 {
				t.Errorf("the story %q has no series", story.Name)
			}
			if len(alert.Exp) == 0 {
				silent[alert.Name] = true
			} else {
				fires[alert.Name] = true
			}
		}
	}
	_, alerts := rules(t)
	for _, alert := range alerts {
		if !fires[alert.Alert] || !silent[alert.Alert] {
			t.Errorf("%s fires in a story: %v, is silent in one: %v", alert.Alert, fires[alert.Alert], silent[alert.Alert])
		}
	}
}

// TestAlertsAreDocumented: each alert has a summary, one sentence on what to do, and a link to its section
// in docs/operating.md, in the same order.
func TestAlertsAreDocumented(t *testing.T) {
	t.Parallel()
	_, alerts := rules(t)
	var names []string
	for _, alert := range alerts {
		names = append(names, alert.Alert)
		if link := "docs/operating.md#" + strings.ToLower(alert.Alert); alert.Annotations["runbook_url"] != link {
			t.Errorf("%s links to %q, want %s", alert.Alert, alert.Annotations["runbook_url"], link)
		}
		action := alert.Annotations["description"]
		if !strings.HasSuffix(action, ".") || strings.Count(action+" ", ". ") != 1 {
			t.Errorf("%s: what to do is not one sentence: %q", alert.Alert, action)
		}
		if alert.Annotations["summary"] == "" ||
			!slices.Contains([]string{"critical", "warning", "info"}, alert.Labels["severity"]) {
			t.Errorf("%s has no summary or an unknown severity %q", alert.Alert, alert.Labels["severity"])
		}
	}
	sections := found(`(?m)^### (Poold\w+)$`, sectionOf(t, "operating.md", "## Alerts"))
	testkit.DeepEqual(t, "the sections of docs/operating.md, like the alerts", sections, names)
}

// TestCommandsOfTheAlertsWork runs each command that an alert, or the sections about states, codes and
// alerts of docs/operating.md name.
func TestCommandsOfTheAlertsWork(t *testing.T) {
	t.Parallel()
	commands := found("`(poold [^`]+)`", sectionOf(t, "operating.md", "## States and codes")+
		sectionOf(t, "operating.md", "## Alerts"))
	_, alerts := rules(t)
	for _, alert := range alerts {
		commands = append(commands, found(`"(poold [^"]+)"`, alert.Annotations["description"])...)
	}
	w := watch(t, daemontest.Settings{
		Config: fmt.Sprintf(faultConfig, redistest.Server(t), service(t, 100*time.Millisecond), "") + login})
	w.calm(tokensOf + "2")
	values := strings.NewReplacer("TARGET", "login", "{{ $labels.target }}", "login", "NAME", "main",
		"{{ $labels.provider }}", "main")
	slices.Sort(commands)
	for _, command := range slices.Compact(commands) {
		arguments := strings.Fields(values.Replace(command))
		run := exec.Command(daemontest.Binary(t), arguments[1:]...)
		run.Dir = filepath.Dir(w.Config)
		run.Env = []string{"POOLD_URL=" + w.URL, "POOLD_KEY=" + key}
		if output, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, output)
		}
	}
	testkit.AtLeast(t, "commands", len(commands), 10)
}

// found returns the first group of each match.
func found(pattern, text string) (all []string) {
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}
