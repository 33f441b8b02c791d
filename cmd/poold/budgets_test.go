package main

import (
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/testkit"
)

// Orders that cost count again in the budgets that they had, once, with the time of their placing.
func TestOrdersOfTheHistoryAreCountedAgain(t *testing.T) {
	var output testkit.Log
	d := daemonOf(t, "server: {listen: '127.0.0.1:0'}\nbudget: {per_day: 5000}\ntargets:\n  login: {type: turnstile, sitekey: k, pageurl: 'https://example.com/', owner: qa@example.com, budget: {per_day: 10}}\n"+
		"  free: {type: turnstile, sitekey: f, pageurl: 'https://example.com/', owner: qa@example.com}\n", &output)
	defer func() { _ = d.disconnect() }()
	now := time.Now()
	row := func(id, target string, outcome history.Outcome, age time.Duration) history.Row {
		o := history.Order{ID: id, Target: target, Owner: "qa", Type: captcha.Turnstile, Outcome: outcome, Status: history.StatusError,
			PlacedAt: history.Time{Time: now.Add(-age)}, EndedAt: history.Time{Time: now.Add(-age)}}
		if outcome == history.Solved {
			o.Status = history.StatusSolved
		}
		return o.Row()
	}
	rows := []history.Row{
		row("A", "login", history.Solved, time.Minute), row("B", "login", history.Lost, 5*time.Hour), row("C", "login", history.Refused, time.Minute),
		row("D", "login", history.Solved, 25*time.Hour), row("E", "free", history.Solved, time.Minute), row("F", "/solve", history.Solved, time.Minute),
	}
	testkit.NoError(t, d.stores.sink.Append(t.Context(), rows))
	for range 2 {
		testkit.NoError(t, d.countHistory(t.Context(), 2))
	}
	for scope, want := range map[string][2]int{
		string(d.file.Current().Targets[1].ID): {1, 2}, pool.ScopeSolve: {1, 1}, pool.ScopeAll: {3, 4}, string(d.file.Current().Targets[0].ID): {0, 0},
	} {
		hour, day, err := d.pool.Spent(t.Context(), scope)
		if got := [2]int{hour, day}; err != nil || got != want {
			t.Errorf("%s: %v in the last hour and day, want %v, %v", scope, got, want, err)
		}
	}
}
