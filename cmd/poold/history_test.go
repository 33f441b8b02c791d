package main

import (
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/httpapi"
	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// Every replica lists the orders in flight, including the orders of a dead replica. It does so even
// if no history is kept.
func TestHistoryOfARunningDaemon(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Median, o.Min, o.Max = time.Minute, time.Minute, time.Minute
	w := newWorld(t, o, terms{depth: 5, timeout: "5m", provider: ", price_per_1000: 2.5", top: "history: {backend: none}"})
	one := w.start(t)
	two := w.start(t)
	listed := func(p *process, args ...string) (list httpapi.HistoryPage[httpapi.Active], text string) {
		t.Helper()
		code, stdout, stderr := runCommand(t, map[string]string{"POOLD_URL": p.url}, append([]string{"history"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, stderr)
		}
		_ = json.Unmarshal([]byte(stdout), &list)
		return list, stdout
	}
	sold := func() (tasks []string) {
		for _, sale := range ledger(t, w.provider).Sales {
			tasks = append(tasks, sale.Task)
		}
		slices.Sort(tasks)
		return tasks
	}
	same := func(p *process) bool {
		list, _ := listed(p, "active", "--json")
		var tasks []string
		for i, r := range list.Records {
			if r.Task != "" {
				tasks = append(tasks, r.Task)
			}
			if r.Target != "login" || r.Owner != "qa@example.com" || r.Type != "turnstile" || r.Sitekey != "1x00000000000000000000AA" || r.Pageurl != "https://example.com/" ||
				r.Provider != "service" || r.Status != "polling" || r.Price != 2_500_000 || r.ElapsedMS < 0 || r.ElapsedMS > 60_000 || i > 0 && list.Records[i-1].PlacedAt.Before(r.PlacedAt.Time) {
				t.Errorf("record %d: %+v", i, r)
			}
		}
		slices.Sort(tasks)
		return len(tasks) == 5 && slices.Equal(tasks, sold())
	}
	testkit.Within(t, 20*time.Second, "each replica to list the five tasks", func() bool { return same(one) && same(two) })
	one.signal(syscall.SIGKILL)
	one.waitForDeath(5 * time.Second)
	if !same(two) {
		list, _ := listed(two, "active", "--json")
		t.Errorf("after the death of a replica: %+v, sold %q", list, sold())
	}
	_, text := listed(two, "orders", "--status", "polling", "--csv", "--limit", "2")
	if rows, err := csv.NewReader(strings.NewReader(text)).ReadAll(); err != nil || len(rows) != 3 || rows[0][20] != "state" || rows[1][20] != "bought" {
		t.Errorf("%v: %q", err, text)
	}
	if _, text := listed(two, "active"); strings.Count(text, "bought") != 5 {
		t.Errorf("the table: %s", text)
	}
	for _, args := range [][]string{{"site", "1x00000000000000000000AA"}, {"day"}, {"orders", "--status", "solved"}, {"order", "x"}} {
		code, _, stderr := runCommand(t, map[string]string{"POOLD_URL": two.url}, append([]string{"history"}, args...)...)
		if code != 1 || !strings.Contains(stderr, "no_history: no history is kept") {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}
	if totals := ledger(t, w.provider).Totals; totals.Submitted != 5 {
		t.Errorf("reading bought something: %+v", simulatedtest.Totals(totals))
	}
}
