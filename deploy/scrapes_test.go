//go:build !race

package deploy_test

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"poold/internal/daemontest"
	"poold/internal/testkit"
)

// key is the key of the callers in the tests.
const key = "key-of-the-tests"

// scrape is what Prometheus stores of one scrape: values by series.
type scrape map[string]float64

// unreachable is the scrape of a replica that does not answer.
var unreachable = scrape{`up{job="poold",instance="a"}`: 0}

// sample matches a line of /metrics that is a sample of poold: name, labels, value.
var sample = regexp.MustCompile(`(?m)^(poold_\w+)(?:\{(.*)\})? (\S+)$`)

// scraped returns the metrics of a running poold, with the labels that Prometheus adds. It omits the
// buckets of histograms, which no alert uses.
func scraped(t testing.TB, text string) scrape {
	t.Helper()
	all := scrape{`up{job="poold",instance="a"}`: 1}
	for _, line := range sample.FindAllStringSubmatch(text, -1) {
		if strings.HasSuffix(line[1], "_bucket") {
			continue
		}
		value, err := strconv.ParseFloat(line[3], 64)
		if err != nil || math.IsNaN(value) {
			t.Fatalf("the sample %q: %v", line[0], err)
		}
		all[line[1]+strings.TrimSuffix(`{job="poold",instance="a",`+line[2], ",")+"}"] = value
	}
	return all
}

// watched is a poold whose metrics are scraped before and during faults.
type watched struct {
	testing.TB
	*daemontest.Process
	before  scrape
	stories []story
}

// story is a fault with the scrapes before and during it.
type story struct {
	name   string
	alerts []string
	before scrape
	during []scrape
}

func watch(t testing.TB, o daemontest.Settings) *watched {
	t.Helper()
	o.Key = key
	return &watched{TB: t, Process: daemontest.Start(t, o)}
}

// scrapeWith waits until /metrics contains all the given lines, and returns this scrape. A line that
// ends in >0 matches a sample with any value above 0.
func (w *watched) scrapeWith(lines ...string) (found scrape) {
	w.Helper()
	var last string
	defer func() {
		if found == nil {
			w.Logf("the last scrape: %v", scraped(w.TB, last))
		}
	}()
	testkit.Within(w.TB, 30*time.Second, strings.Join(lines, " and "), func() bool {
		status, body := w.Call("GET", "/metrics", "")
		last = body
		if status != http.StatusOK {
			return false
		}
		for _, line := range lines {
			pattern := regexp.QuoteMeta(line)
			if series, positive := strings.CutSuffix(line, ">0"); positive {
				pattern = regexp.QuoteMeta(series) + "[1-9]"
			}
			if !regexp.MustCompile("(?m)^" + pattern).MatchString(body) {
				return false
			}
		}
		found = scraped(w.TB, body)
		return true
	})
	return found
}

// calm waits until /metrics contains all the given lines. The scrape is then the one before the next
// faults.
func (w *watched) calm(lines ...string) {
	w.Helper()
	w.before = w.scrapeWith(lines...)
}

// fault scrapes poold as soon as /metrics shows the lines of a fault. The alerts are all those that
// must fire.
func (w *watched) fault(name string, alerts []string, lines ...string) {
	w.Helper()
	w.stories = append(w.stories, story{name, alerts, w.before, []scrape{w.scrapeWith(lines...)}})
}

// The times of a story in minutes. A fault has lasted in the test for some seconds when it is scraped,
// but an alert waits up to 30 minutes. So each scrape is repeated: the one before the fault
// from 0 to faultAt, those during the fault for roundTime, and the last of these until storyEnd.
const (
	faultAt   = 40
	roundTime = 5
	storyEnd  = 95
)

// check lets promtool evaluate the rules on the scrapes: before a fault no alert fires, and during the
// fault exactly the expected alerts fire.
func (w *watched) check() {
	w.Helper()
	rules, err := filepath.Abs("prometheus/rules.yaml")
	testkit.NoError(w, err)
	// query returns a query for the alerts that fired from a time on, and the alerts that must be its result.
	query := func(from, at int, alerts []string) map[string]any {
		var want []any
		for _, alert := range alerts {
			want = append(want, map[string]any{"labels": fmt.Sprintf("{alertname=%q}", alert), "value": 1})
		}
		return map[string]any{"expr": firing(at - from), "eval_time": fmt.Sprintf("%dm", at), "exp_samples": want}
	}
	var groups []any
	for _, s := range w.stories {
		var series []any
		for _, name := range s.names() {
			series = append(series, map[string]any{"series": name, "values": s.values(name)})
		}
		groups = append(groups, map[string]any{"name": s.name, "interval": "1m", "input_series": series,
			"promql_expr_test": []any{query(0, faultAt-1, nil), query(faultAt, storyEnd, s.alerts)}})
	}
	text, err := yaml.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": groups})
	testkit.NoError(w, err)
	promtool(w.TB, "test", "rules", write(w.TB, filepath.Join(w.TempDir(), "faults.yaml"), string(text)))
}

// firing is a query for the names of the alerts that fired in the last minutes.
func firing(minutes int) string {
	return fmt.Sprintf(`group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[%dm]))`, minutes)
}

// names returns the series of all scrapes of a story.
func (s *story) names() []string {
	all := maps.Clone(s.before)
	for _, one := range s.during {
		maps.Copy(all, one)
	}
	return slices.Sorted(maps.Keys(all))
}

// values returns the samples of a series, in the notation of promtool. As Prometheus does, it ends a
// series that a scrape lacks.
func (s *story) values(series string) string {
	var all []string
	known := false
	add := func(from scrape, minutes int) {
		value, has := from[series]
		switch {
		case has:
			all = append(all, fmt.Sprintf("%sx%d", strconv.FormatFloat(value, 'f', -1, 64), minutes-1))
		case known:
			all = append(all, "stale", fmt.Sprintf("_x%d", minutes-1))
		default:
			all = append(all, fmt.Sprintf("_x%d", minutes))
		}
		known = has
	}
	add(s.before, faultAt)
	last := len(s.during) - 1
	for _, one := range s.during[:last] {
		add(one, roundTime)
	}
	add(s.during[last], storyEnd-faultAt-last*roundTime)
	return strings.Join(all, " ")
}
