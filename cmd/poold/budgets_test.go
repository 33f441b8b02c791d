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
	d := daemonOf(t, "server: {listen: '127.0.0.1:0'}\nbudget: {per_day: 5000}\n"+
		"providers: [{name: p, url: 'http://127.0.0.1:9', key: k, price_per_1000: 1}]\nowners: {qa@example.com: {budget: {money_per_day: 5}}}\n"+
		"solve: {owner: o, pages: ['https://example.com/*'], budget: {per_day: 9}}\ntargets:\n  login: {type: turnstile, sitekey: k, pageurl: 'https://example.com/', owner: qa@example.com, budget: {per_day: 10}}\n"+
		"  free: {type: turnstile, sitekey: f, pageurl: 'https://example.com/', owner: qa@example.com}\n", &output)
	defer func() { _ = d.disconnect() }()
	now := time.Now()
	row := func(id, target string, outcome history.Outcome, age time.Duration) history.Row {
		o := history.Order{ID: id, Target: target, Owner: "qa", Type: captcha.Turnstile, Price: 2_000_000, Outcome: outcome,
			Status: history.StatusError, PlacedAt: history.Time{Time: now.Add(-age)}, EndedAt: history.Time{Time: now.Add(-age)}}
		if outcome == history.Solved {
			o.Status = history.StatusSolved
		}
		return o.Row()
	}
	rows := []history.Row{
		row("A", "login", history.Solved, time.Minute), row("B", "login", history.Lost, 5*time.Hour),
		row("C", "login", history.Refused, time.Minute), row("D", "login", history.Solved, 25*time.Hour),
		row("E", "free", history.Solved, time.Minute), row("F", "/solve", history.Solved, time.Minute),
	}
	testkit.NoError(t, d.stores.sink.Append(t.Context(), rows))
	for range 2 {
		testkit.NoError(t, d.countHistory(t.Context(), 2))
	}
	totals, err := d.pool.Totals(t.Context(), "overall", "/solve", "owner:qa@example.com")
	testkit.NoError(t, err)
	free, login := d.file.Current().Targets[0].ID, d.file.Current().Targets[1].ID
	stocks, err := d.pool.LookAll(t.Context(), []pool.Query{{ID: login}, {ID: free}})
	testkit.NoError(t, err)
	got := [6]int{stocks[0].SpentHour, stocks[0].SpentDay, totals.Spent["/solve"].Hour, totals.Spent["/solve"].Day,
		totals.Spent["overall"].Day, stocks[1].SpentDay}
	spent := totals.Spent
	if want := [6]int{1, 2, 1, 1, 4, 0}; got != want || spent["owner:qa@example.com"].Day != 3 ||
		now.UTC().Day() == now.Add(-5*time.Hour).UTC().Day() && spent["owner:qa@example.com"].MoneyDay != 6000 {
		t.Errorf("spent by the owner: %+v; %v orders of login (hour, day), /solve (hour, day), all and free; want %v", spent,
			got, want)
	}
}
