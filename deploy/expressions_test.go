//go:build !race

package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"poold/internal/testkit"
)

// query is an expression of the dashboard.
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
	testkit.NoError(t, json.Unmarshal([]byte(read(t, "grafana/poold.json")), &file))
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

// checkDashboard lets promtool parse the queries of the dashboard, and checks the labels of queries and legends
// with checkLabels.
func checkDashboard(t *testing.T, labels map[string]map[string]bool, records []rule) {
	t.Helper()
	for _, name := range slices.Collect(maps.Keys(labels)) {
		if histogram, is := strings.CutSuffix(name, "_count"); is { // scraped omits the buckets
			labels[histogram+"_bucket"] = maps.Clone(labels[name])
			labels[histogram+"_bucket"]["le"] = true
		}
	}
	queries, variables := dashboard(t)
	for _, variable := range variables {
		parts := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(variable)
		if parts == nil {
			t.Fatalf("the variable %q", variable)
		}
		queries = append(queries, query{"a variable", parts[1], "{{" + parts[2] + "}}"})
	}
	var parsed []map[string]string
	for i, q := range queries {
		parsed = append(parsed, map[string]string{"record": fmt.Sprintf("query:%d", i), "expr": q.expr})
		checkLabels(t, q.where, q.expr, labels, records)
		for _, label := range found(`\{\{(\w+)\}\}`, q.legend) {
			checkLabels(t, q.where, fmt.Sprintf("count by (%s) (%s)", label, q.expr), labels, records)
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": parsed}}})
	testkit.NoError(t, err)
	promtool(t, "check", "rules", write(t, filepath.Join(t.TempDir(), "dashboard.yaml"), string(text)))
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
