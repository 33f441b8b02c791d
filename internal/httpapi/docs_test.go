package httpapi

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"poold/internal/httpapi/historyapi"
	"poold/internal/httpapi/kernel"
	"poold/internal/refill"
	"poold/internal/status"
)

func docsPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	noError(t, err)
	return string(text)
}

// TestDocsNameEveryRoute: docs/api.md lists each route with its required scope. The routes for the
// files of the status page are not listed.
func TestDocsNameEveryRoute(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| ([^|]*/[^|]*) \| ([^|]*) \|`).FindAllStringSubmatch(docsPage(t, "api.md"), -1)
	for _, route := range new(areas).table() {
		if regexp.MustCompile(`\.(css|js|svg)$`).MatchString(route.Path) {
			continue
		}
		path := regexp.MustCompile(`/:(provider/:order/:secret|\w+)`).ReplaceAllString(route.Path, "/([A-Z]+|…)")
		form, found := regexp.MustCompile("[` ]"+path+"[`?]"), false
		for _, row := range rows {
			if !form.MatchString(row[1]) {
				continue
			}
			found = true
			if !strings.Contains(row[2], string(route.Scope)) || !strings.Contains(row[2], string(route.AltScope)) {
				t.Errorf("docs/api.md says %q of %s, which needs %s", row[2], route.Path, route.Scope)
			}
		}
		if !found {
			t.Errorf("the table of docs/api.md has no %s", route.Path)
		}
	}
}

func TestDocsNameEveryField(t *testing.T) {
	text := docsPage(t, "history.md")
	for _, answer := range []any{
		historyapi.Record{}, historyapi.ActiveRecord{}, historyapi.Day{}, historyapi.DayType{}, historyapi.DayTarget{}, historyapi.Usage{}, historyapi.UsageLine{}, historyapi.AuditEntry{}, historyapi.KeyUsage{}, historyapi.KeyUsageLine{},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(answer)) {
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if tag != "" && !strings.Contains(text, "`"+tag+"`") {
				t.Errorf("docs/history.md does not explain %s of %T", tag, answer)
			}
		}
	}
}

// TestDocsHelpInEveryState: docs/operating.md contains a remedy for each state of a target, and for
// each problem code of a request that gets no token.
func TestDocsHelpInEveryState(t *testing.T) {
	text := docsPage(t, "operating.md")
	states := []string{refill.OK, status.StateIdle, refill.Paused, refill.Starved, refill.Budget, refill.Refused}
	for _, c := range []kernel.Code{kernel.CodePoolEmpty, kernel.CodePaused, kernel.CodeBudget, kernel.CodeProviderDown, kernel.CodeStoreDown, kernel.CodeShuttingDown, kernel.CodeRateLimited, kernel.CodeSolveRefused} {
		states = append(states, string(c))
	}
	for _, state := range states {
		if !regexp.MustCompile("(?m)^\\| [^|]*`" + state + "`[^|]*\\|").MatchString(text) {
			t.Errorf("docs/operating.md does not say what to do: %s", state)
		}
	}
}
