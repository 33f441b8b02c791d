package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"poold/internal/httpapi/openapi"
	"poold/internal/httpapi/openapi/openapitest"
	"poold/internal/status"
	"poold/internal/testkit"
)

func docsPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	testkit.NoError(t, err)
	return string(text)
}

// TestDocsNameEveryRoute: docs/api.md lists each route with its required scope. The routes for the
// files of the status page are not listed.
func TestDocsNameEveryRoute(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| ([^|]*/[^|]*) \| ([^|]*) \|`).FindAllStringSubmatch(docsPage(t, "api.md"), -1)
	for _, route := range assemble(t, sampleSet()).routes() {
		if regexp.MustCompile(`\.(css|js|svg)$`).MatchString(route.path) {
			continue
		}
		path := regexp.MustCompile(`/:(provider/:order/:secret|\w+)`).ReplaceAllString(route.path, "/([A-Z]+|…)")
		form, found := regexp.MustCompile("[` ]"+path+"[`?]"), false
		for _, row := range rows {
			if !form.MatchString(row[1]) {
				continue
			}
			found = true
			if !strings.Contains(row[2], string(route.scope)) {
				t.Errorf("docs/api.md says %q of %s, which needs %s", row[2], route.path, route.scope)
			}
		}
		if !found {
			t.Errorf("the table of docs/api.md has no %s", route.path)
		}
	}
}

// TestDescriptionIsComplete: programs rely on the codes, so openapi.yaml lists exactly these codes, each with its
// status. It also has exactly the routes for programs. TestDocsHelpInEveryState compares the codes with
// docs/operating.md.
func TestDescriptionIsComplete(t *testing.T) {
	var want, routes []string
	for code, m := range meanings {
		want = append(want, fmt.Sprintf("%d `%s`", m.status, code))
	}
	if described := describedCodes(t); !sameNames(described, want) {
		t.Errorf("openapi.yaml has the codes %q, want %q", described, want)
	}
	for _, route := range assemble(t, sampleSet()).routes() {
		for _, method := range route.methods {
			if openapitest.IsForPeople(route.path) {
				continue
			}
			routes = append(routes, method+" "+regexp.MustCompile(`:(\w+)`).ReplaceAllString(route.path, "{$1}"))
		}
	}
	if described := openapitest.Poold().Operations(); !sameNames(described, routes) {
		t.Errorf("openapi.yaml has the routes %q, want %q", described, routes)
	}
}

// TestDescriptionSuitsGenerators: generators of clients make one type of a component's name, and none of a value
// without a type.
func TestDescriptionSuitsGenerators(t *testing.T) {
	var described struct{ Components map[string]map[string]any }
	testkit.NoError(t, yaml.Unmarshal(openapi.Document, &described))
	kinds := map[string]string{}
	for kind, components := range described.Components {
		for name := range components {
			if other := kinds[name]; other != "" {
				t.Errorf("%s is one of the %s and of the %s", name, kind, other)
			}
			kinds[name] = kind
		}
	}
	typeless := regexp.MustCompile(`(?m)^.*(: \{(const|enum):|^ +enum:|anyOf:|\[\w+, object\]).*$`)
	for _, line := range typeless.FindAllString(string(openapi.Document), -1) {
		if !strings.Contains(line, "allOf:") && !strings.Contains(line, "anyOf: [{type: 'null'}") {
			t.Error(line)
		}
	}
}

// describedCodes returns the codes in openapi.yaml, each with its status.
func describedCodes(t *testing.T) (codes []string) {
	t.Helper()
	byStatus, err := openapitest.Poold().Codes()
	testkit.NoError(t, err)
	for status, list := range byStatus {
		for _, code := range list {
			codes = append(codes, fmt.Sprintf("%d `%s`", status, code))
		}
	}
	return codes
}

func TestDocsNameEveryField(t *testing.T) {
	text := docsPage(t, "history.md")
	for _, answer := range []any{Active{}, UsageLine{}, KeyUsageLine{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(answer)) {
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if tag != "" && !strings.Contains(text, "`"+tag+"`") {
				t.Errorf("docs/history.md does not explain %s of %T", tag, answer)
			}
		}
	}
}

// TestDocsHelpInEveryState: the tables of docs/operating.md have a row for each state and mark of a
// target, each state of a provider and each code of a problem, and no other row. Each row says what to
// do.
func TestDocsHelpInEveryState(t *testing.T) {
	var described struct {
		Components struct {
			Schemas struct {
				ProviderState struct{ Enum []string } `yaml:"ProviderState"`
				TargetMembers struct {
					Properties struct {
						State struct{ Enum []string }
						Marks struct{ Items struct{ Enum []string } }
					}
				} `yaml:"TargetMembers"`
			}
		}
	}
	testkit.NoError(t, yaml.Unmarshal(openapi.Document, &described))
	schemas := described.Components.Schemas
	quoted := func(names []string) (all []string) {
		for _, name := range names {
			all = append(all, "`"+name+"`")
		}
		return all
	}
	if states := schemas.TargetMembers.Properties.State.Enum; !sameNames(states, status.States()) {
		t.Errorf("openapi.yaml has the states %q, want %q", states, status.States())
	}
	text := docsPage(t, "operating.md")
	for heading, want := range map[string][]string{
		"States of a target":   quoted(status.States()),
		"Marks of a target":    quoted(schemas.TargetMembers.Properties.Marks.Items.Enum),
		"States of a provider": quoted(schemas.ProviderState.Enum),
		"Codes":                describedCodes(t),
	} {
		_, section, _ := strings.Cut(text, "\n### "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n##")
		var got []string
		rows := regexp.MustCompile("(?m)^\\| ((?:\\d+ )?`[a-z_]+`) \\| (.+) \\| (.+) \\|$")
		for _, row := range rows.FindAllStringSubmatch(section, -1) {
			got = append(got, row[1])
		}
		if len(want) == 0 || !sameNames(got, want) {
			t.Errorf("docs/operating.md, %s: the rows %q, want %q", heading, got, want)
		}
	}
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
