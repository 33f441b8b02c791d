package status

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/strictjson"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// busySources returns sources that fill each part of the document.
func busySources() Sources {
	checkout, login, signup := newTarget("checkout"), newTarget("staging-login"), newTarget("staging-signup")
	login.Refill = targets.RefillAdaptive
	login.Budget = targets.Budget{PerHour: 10, PerDay: 500, Money: targets.Money{MoneyPerDay: 5, MoneyPerMonth: 100}}
	signup.Budget = targets.Budget{PerDay: 20}
	set := newSet(checkout, login, signup)
	set.Warnings = []targets.Problem{{File: "pools.yaml", Line: 3, Text: "a poll each 100ms is unusual"}}
	set.Solve = &targets.Solve{Owner: "ops@example.com", Budget: targets.Budget{PerDay: 300}}
	s, stock := sources(set)
	stock.totals.Guests = pool.GuestStock{
		Guests: 7, Fresh: 2, Orders: 5, BoughtInFlight: 4, Waiting: 3,
		Counters: pool.Counters{
			Hits: 20, Waited: 60, Missed: 6, Left: 2, Denied: 1, Replays: 11, Bought: 100, Solved: 84, Expired: 3,
			Failed: 9, Lost: 1, Returned: 2, Flushed: 3, Accepted: 12, Rejected: 8, Spent: 250_000_001,
		},
	}
	stock.totals.Savings = []pool.SavingsDay{
		{Date: "2026-01-02", BySource: map[pool.SavingsSource]int64{
			pool.SavedPool: 1, pool.SavedSolve: 2, pool.SavedSharedWait: 3, pool.SavedSharedCache: 4, pool.SavedReplay: 5,
			pool.SavedMissed: 2, pool.SavedDenied: 1,
		}},
		{Date: "2026-01-01", BySource: map[pool.SavingsSource]int64{pool.SavedSolve: 6}},
		{Date: "2025-12-31", BySource: map[pool.SavingsSource]int64{}},
	}
	s.File.(*fixedFile).problems = []targets.Problem{
		{File: "pools.yaml", Line: 12, Text: "server.listen changed: it needs a restart"}}
	stock.stocks[checkout.ID] = pool.Stock{Counts: pool.Counts{NextExpiry: -1, Brake: pool.Brake{Paused: "paused by ops"}}}
	stock.stocks[login.ID] = decided(pool.Stock{
		Counts: pool.Counts{
			Fresh: 3, Orders: 4, BoughtInFlight: 2, Unknown: 1, Waiting: 2,
			NextExpiry: 4887*time.Millisecond + 499*time.Microsecond,
			At:         day, Leads: []time.Duration{19001 * time.Millisecond, 8449 * time.Millisecond, 16387 * time.Millisecond},
			Reports: []bool{false, true, true, false, false},
			Brake:   pool.Brake{FailedInARow: 5}, Outliving: 1,
			Counters: pool.Counters{
				Hits: 97, Waited: 2, Missed: 1, Left: 1, Replays: 4, Bought: 115, Solved: 110, Expired: 5, Failed: 2, Lost: 1,
				Returned: 3, Flushed: 6, Accepted: 9, Rejected: 7, Spent: 105_123_499,
			},
		},
		SolvesHour: 8, SolvesDay: 77,
		Minutes: []pool.Period{{At: day.Truncate(time.Minute),
			Counters: pool.Counters{Hits: 3, Waited: 1, Left: 1, Bought: 2, Solved: 1}}},
		Days: []pool.Period{
			{At: day.Truncate(24*time.Hour).AddDate(0, 0, -1),
				Counters: pool.Counters{Hits: 90, Missed: 1, Bought: 111, Solved: 109, Failed: 2, Lost: 1, Expired: 5,
					Spent: 100_000_000}},
			{At: day.Truncate(24 * time.Hour),
				Counters: pool.Counters{Hits: 7, Waited: 2, Left: 1, Bought: 4, Solved: 1, Spent: 5_123_499}},
		},
	}, refill.Status{Want: 4, State: refill.Starved, Reason: "20 of 20 threads of solver in use; raise concurrency",
		Lead: 18 * time.Second, Forecast: 3.21449, Risk: 0.0124, Limit: policy.LimitCredit, Credit: -2.50051, At: day,
		Queued: day.Add(-time.Minute)})
	stock.stocks[signup.ID] = decided(pool.Stock{
		Counts: pool.Counts{
			NextExpiry: 33137 * time.Millisecond, Fresh: 1, At: day,
			Brake: pool.Brake{Kind: string(pool.BadParameters), Reason: "<ERROR_GOOGLEKEY> & more", Since: day,
				Every: time.Minute, Next: day.Add(time.Minute), FailedInARow: 2},
			Failures: []pool.Failure{{At: day, Reason: "<ERROR_GOOGLEKEY> & more"},
				{At: day.Add(-time.Minute), Reason: "ERROR_CAPTCHA_UNSOLVABLE"}},
		},
		SolvesDay: 20,
	}, refill.Status{Want: 5, State: refill.OK, At: day})
	stock.totals.Rows, stock.totals.DroppedRows = 7, 23
	set.Budget.PerDay, set.Budget.MoneyPerMonth, set.Solve.Budget.MoneyPerDay = 20000, 1000, 2
	set.Owners = targets.Owners{"qa@example.com": {Budget: targets.Budget{PerHour: 7,
		Money: targets.Money{MoneyPerDay: 50}}}}
	set.Server.Keys = []targets.Key{{Name: "small", Budget: targets.Money{MoneyPerDay: 1}},
		{Name: "small", Budget: targets.Money{MoneyPerDay: 1}}, {Name: "ops"}}
	stock.totals.Spent = map[string]pool.Spending{
		string(login.ID): {MoneyDay: 4990000, MoneyMonth: 70000000}, pool.ScopeOverall: {Day: 1234, MoneyMonth: 999},
		pool.ScopeSolve: {Hour: 9, Day: 33, MoneyDay: 1}, "owner:qa@example.com": {Hour: 6, MoneyDay: 49000000},
		"key:small": {MoneyDay: 1000001}, pool.ScopeSpent: {MoneyDay: 350000},
	}
	s.History = func() history.Health {
		return history.Health{Down: "history: the store does not answer: connection refused", Sent: 120, Dropped: 4}
	}
	balance := 12.5
	buyer := &fixedBuyer{
		providers: []purchase.ProviderStatus{{Name: "solver",
			State: provider.Condition{Kind: provider.StateBusy, Reason: "no slot", Balance: &balance}, InFlight: 3,
			Concurrency: 20, Silent: true}},
		letters: 2,
	}
	s.Buyer = buyer
	return s
}

// busyDocument returns the document of busySources at a fixed time.
func busyDocument(t *testing.T) *Document {
	t.Helper()
	d := NewCollector(busySources()).Build(t.Context())
	if asOf, err := time.Parse("2006-01-02T15:04:05.000Z", d.AsOf); err != nil || time.Since(asOf).Abs() > time.Minute {
		t.Errorf("as_of: %s, %v", d.AsOf, err)
	}
	d.AsOf, d.at = stamp(day), day // the text before the first call of JSON
	d.announceTargets()
	return d
}

// published compares a document with the golden file, and with what a program decodes and encodes again.
func published(t *testing.T, path string, d *Document) {
	t.Helper()
	text := bytes.TrimSuffix(d.JSON(), []byte("\n"))
	var lines bytes.Buffer
	testkit.NoError(t, json.Indent(&lines, text, "", " "))
	testkit.Published(t, path, lines.String()+"\n")
	var read Document
	testkit.NoError(t, json.Unmarshal(text, &read))
	testkit.Equal(t, "read and encoded again", string(strictjson.Encode(read)), string(text))
}

// The document is the same as in the golden file, byte by byte, because programs depend on its names and its rounding.
// A program that decodes and encodes it loses nothing. A key that is limited to some targets sees no data of others.
func TestDocument(t *testing.T) {
	whole := busyDocument(t)
	part := whole.Part(func(name string) bool { return name == "checkout" })
	published(t, "testdata/part.json", part)
	published(t, "testdata/document.json", whole) // unchanged by its part
	if _, ok := part.Target("staging-login"); ok {
		t.Error("the part holds another target")
	}
}

// Targets are sorted by the urgency of their states. A target with a mark comes before paused and
// ok targets. The sort is stable.
func TestProblemsFirst(t *testing.T) {
	list := []Target{
		{Name: "idle", State: StateIdle}, {Name: "ok 1", State: "ok"}, {Name: "paused", State: "paused"},
		{Name: "ok 2", State: "ok"},
		{Name: "marked", State: "ok", Marks: []string{markFailing}}, {Name: "budget", State: "budget"},
		{Name: "starved", State: "starved"}, {Name: "refused", State: "refused", Marks: []string{markFailing}},
		{Name: "marked idle", State: StateIdle, Marks: []string{markRejected}},
	}
	names := ""
	for _, target := range ProblemsFirst(list) {
		names += target.Name + ", "
	}
	if names != "refused, starved, budget, marked, marked idle, paused, ok 1, ok 2, idle, " || list[0].Name != "idle" {
		t.Error(names)
	}
}
