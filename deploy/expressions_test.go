//go:build !race

package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// query is an expression of the dashboard or of a recording rule.
type query struct{ where, expr, legend string }

// dashboard returns the queries of grafana/poold.json, with the values that Grafana would set, and the
// queries of its variables.
func dashboard(t *testing.T) (queries []query, variables []string) {
	t.Helper()
	var file struct {
		Panels []struct {
			Title      string
			Datasource struct{ UID string }
			Targets    []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/poold.json")), &file); err != nil {
		t.Fatal(err)
	}
	set := strings.NewReplacer("$__rate_interval", "1m", "$job", "poold", "$target", ".*")
	for _, panel := range file.Panels {
		if len(panel.Targets) > 0 && panel.Datasource.UID != "${datasource}" {
			t.Errorf("the panel %q ignores the chosen data source", panel.Title)
		}
		for _, target := range panel.Targets {
			queries = append(queries, query{panel.Title, set.Replace(target.Expr), target.LegendFormat})
		}
	}
	var names []string
	for _, variable := range file.Templating.List {
		names = append(names, variable.Name)
		if variable.Type == "query" {
			variables = append(variables, set.Replace(variable.Definition))
		}
	}
	if !slices.Equal(names, []string{"datasource", "job", "target"}) || len(queries) == 0 {
		t.Errorf("the dashboard has the variables %q and %d queries", names, len(queries))
	}
	return queries, variables
}

// TestExpressionsBringSeries runs Prometheus with the configuration of this folder. It scrapes a poold,
// and each recording rule and each query of the dashboard must bring a series. The alerts are proved
// by TestFaultsFireTheirAlerts.
func TestExpressionsBringSeries(t *testing.T) {
	t.Parallel()
	w := busyDaemon(t)
	server := startPrometheus(t, localConfig(t, key,
		`["10.0.0.11:8080", "10.0.0.12:8080"]`, fmt.Sprintf("[%q]", strings.TrimPrefix(w.URL, "http://")),
		"_interval: 15s", "_interval: 500ms"))
	queries, variables := dashboard(t)
	records, _ := rules(t)
	for _, record := range records {
		queries = append(queries, query{where: record.Record, expr: record.Record})
	}
	results := make([][]map[string]string, len(queries))
	var missing []string
	defer func() {
		if len(missing) > 0 {
			t.Logf("no series:\n%s", strings.Join(missing, "\n"))
		}
	}()
	testkit.Within(t, 20*time.Second, "a series of each expression", func() bool {
		missing = nil
		for i, q := range queries {
			if results[i] = server.query(t, brings(q.expr)); len(results[i]) == 0 {
				missing = append(missing, q.where+": "+q.expr)
			}
		}
		return len(missing) == 0
	})
	for i, q := range queries {
		for _, labels := range results[i] {
			for _, label := range found(`\{\{(\w+)\}\}`, q.legend) {
				if labels[label] == "" {
					t.Errorf("%s: %s has no label %s for its legend: %v", q.where, q.expr, label, labels)
				}
			}
		}
	}
	for _, r := range server.rules(t) {
		if r.Health != "ok" {
			t.Errorf("the rule %s: %s %s", r.Name, r.Health, r.LastError)
		}
	}

	labels := labelsOf(w.scrapeWith())
	for _, name := range found(`(?m)^(poold_\w+_bucket)\{`, w.call(http.StatusOK, "GET", "/metrics", "")) {
		labels[name] = maps.Clone(labels[strings.TrimSuffix(name, "_bucket")+"_count"])
		labels[name]["le"] = true
	}
	for _, q := range queries {
		checkLabels(t, q.where, q.expr, labels, records)
	}
	for _, variable := range variables {
		parts := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(variable)
		if parts == nil {
			t.Fatalf("the variable %q", variable)
		}
		checkLabels(t, "a variable", fmt.Sprintf("count by (%s) (%s)", parts[2], parts[1]), labels, records)
		if len(server.query(t, parts[1])) == 0 {
			t.Errorf("no series: %s", variable)
		}
	}
}

// brings returns an expression that brings a series whenever the operands of the comparisons in expr
// have one. It omits the fallback for expressions without a series.
func brings(expr string) string {
	return strings.NewReplacer(" == 0", " == bool 0", " or vector(0)", "").Replace(expr)
}

// busyDaemon starts a poold with each kind of metric: two providers with balances, budgets, an adaptive
// target and one whose budget is used up, reports, and a refused request.
func busyDaemon(t *testing.T) *watched {
	t.Helper()
	first, second := service(t, 100*time.Millisecond), service(t, 100*time.Millisecond)
	config := fmt.Sprintf(faultConfig, redistest.Server(t), first, "balance: true") +
		"  login: {" + page + "login, depth: 3, budget: {per_hour: 100}}\n" +
		"  burst: {" + page + "burst, depth: 20, refill: adaptive, min: 1}\n" +
		"  poor: {" + page + "poor, depth: 2, budget: {per_hour: 1}}\n" +
		"budget: {per_day: 1000}\n"
	other := fmt.Sprintf("}, {name: second, url: %q, key: b-key, price_per_1000: 2, first_poll: 200ms}]\n", second)
	w := watch(t, daemontest.Options{Config: strings.Replace(config, "}]\ndefaults", other+"defaults", 1)})
	for _, outcome := range []string{"accepted", "rejected"} {
		w.call(http.StatusNoContent, "POST", "/pool/login/token/"+w.take("login").ID+"/report", fmt.Sprintf(`{"outcome": %q}`, outcome))
	}
	w.call(http.StatusNoContent, "DELETE", "/pool/login/tokens", "")
	w.take("poor")
	w.call(http.StatusServiceUnavailable, "POST", "/pool/poor/token?wait=0s", "")
	return w
}

// labelsOf returns the names of the labels of each metric in the scrapes.
func labelsOf(scrapes ...scrape) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, one := range scrapes {
		for series := range one {
			name, rest, _ := strings.Cut(series, "{")
			if all[name] == nil {
				all[name] = map[string]bool{}
			}
			for _, label := range found(`(\w+)="`, rest) {
				all[name][label] = true
			}
		}
	}
	return all
}

var (
	selector = regexp.MustCompile(`\b(poold_\w+|up)\b(?:\{([^}]*)\})?`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right) \(([^)]*)\)`)
)

// checkLabels checks that the metrics of an expression exist, that each has the labels of its matchers,
// and that at least one of them has each label of a grouping.
func checkLabels(t *testing.T, where, expr string, labels map[string]map[string]bool, records []rule) {
	t.Helper()
	for _, record := range slices.Backward(records) { // a record may use earlier ones
		expr = regexp.MustCompile(record.Record+`(\{[^}]*\})?`).ReplaceAllLiteralString(expr, "("+record.Expr+")")
	}
	every := map[string]bool{}
	for _, use := range selector.FindAllStringSubmatch(expr, -1) {
		if labels[use[1]] == nil {
			t.Errorf("%s: poold exports no %s", where, use[1])
		}
		maps.Copy(every, labels[use[1]])
		for _, label := range found(`(\w+)\s*[=!]`, use[2]) {
			if !labels[use[1]][label] {
				t.Errorf("%s: %s has no label %s", where, use[1], label)
			}
		}
	}
	for _, list := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, label := range strings.Split(list[1], ",") {
			if label = strings.TrimSpace(label); !every[label] {
				t.Errorf("%s: no metric has the label %s of %s", where, label, list[0])
			}
		}
	}
}

// prometheus is a running server of Prometheus.
type prometheus struct{ url string }

// startPrometheus runs Prometheus until the test ends.
func startPrometheus(t *testing.T, config string) prometheus {
	t.Helper()
	listen := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	output := new(testkit.Log)
	command := exec.Command("prometheus", "--config.file", config, "--storage.tsdb.path", t.TempDir(), "--web.listen-address", listen)
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatalf("starting prometheus (Debian: apt-get install prometheus): %v", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("prometheus printed:\n%s", output.String())
		}
	})
	server := prometheus{"http://" + listen}
	testkit.Within(t, 20*time.Second, "prometheus to be ready", func() bool {
		response, err := http.Get(server.url + "/-/ready")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return server
}

// query evaluates an expression now, and returns the labels of each series of the result.
func (p prometheus) query(t *testing.T, expr string) (all []map[string]string) {
	t.Helper()
	var data struct {
		Result []struct{ Metric map[string]string }
	}
	p.get(t, "/api/v1/query?query="+url.QueryEscape(expr), &data)
	for _, one := range data.Result {
		all = append(all, one.Metric)
	}
	return all
}

// loadedRule is a rule as Prometheus reports it.
type loadedRule struct{ Name, Health, LastError string }

func (p prometheus) rules(t *testing.T) (all []loadedRule) {
	t.Helper()
	var data struct {
		Groups []struct{ Rules []loadedRule }
	}
	p.get(t, "/api/v1/rules", &data)
	for _, group := range data.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func (p prometheus) get(t *testing.T, path string, data any) {
	t.Helper()
	response, err := http.Get(p.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Status != "success" {
		t.Fatalf("GET %s: %v %s", path, err, answer.Error)
	}
}
