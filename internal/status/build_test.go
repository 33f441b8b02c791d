package status

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// Readers share a document for a second, or for four times as long as it takes to build. A change ends its life;
// without readers none is built.
func TestReadersShareADocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stock := sources(newSet(newTarget("login")))
		takes := 10 * time.Millisecond
		stock.before = func(_ context.Context, call string) error {
			if call == "Stocks" {
				time.Sleep(takes)
			}
			return nil
		}
		c := NewCollector(s)
		built := func(what string, want int64, after time.Duration, do func()) {
			t.Helper()
			time.Sleep(after)
			before := stock.surveys.Load()
			do()
			testkit.Equal(t, what+": documents", stock.surveys.Load()-before, want)
		}
		read := func() { c.Build(t.Context()) }
		built("many at once", 1, 0, func() {
			var readers sync.WaitGroup
			for range 10 {
				readers.Go(read)
			}
			readers.Wait()
		})
		built("within a second", 0, 900*time.Millisecond, read)
		built("after a second", 1, 200*time.Millisecond, read)
		built("after a change", 1, 0, func() { c.Changed(); read() })
		built("a change while one is built", 2, 2*time.Second, func() {
			var reader sync.WaitGroup
			reader.Go(read)
			synctest.Wait()
			c.Stopping()
			testkit.Equal(t, "ready after the change", c.Build(t.Context()).Ready, false)
			reader.Wait()
		})
		takes = time.Second
		built("a slow one", 1, 2*time.Second, read)
		built("within four times as long", 0, 3900*time.Millisecond, read)
		built("afterwards", 1, 200*time.Millisecond, read)
		built("without readers", 0, time.Hour, func() {})
		set := newSet(newTarget("login"), newTarget("signup"))
		s.File.(*fixedFile).set = set
		built("another file", 1, 0, read)
		hangsUp, cancel := context.WithCancel(t.Context())
		cancel()
		c.Changed()
		if d := c.Build(hangsUp); !d.Redis.OK || len(d.Targets) != 2 {
			t.Errorf("for one who hung up: %+v", d)
		}
	})
}

// While Redis fails or hangs, the document has the last known figures and the reason, no later than after a second. The
// metrics omit the figures.
func TestLastKnownFiguresStay(t *testing.T) {
	fails := func(context.Context) error { return redisdb.ErrDown }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return redisdb.Down(ctx.Err()) }
	const reason = "redis does not answer; the figures are of 00:00:00 UTC"
	for name, fault := range map[string]func(context.Context) error{"fails": fails, "hangs": hangs} {
		synctest.Test(t, func(t *testing.T) {
			set := setOf(2*surveyPart + 1)
			set.Budget.PerDay, set.Solve = 10, &targets.Solve{Owner: "qa@example.com"}
			s, stock := sources(set)
			stock.totals = pool.Totals{Spent: map[string]pool.Spending{pool.ScopeOverall: {Day: 3}},
				Guests: pool.GuestStock{Guests: 1, Counters: pool.Counters{Hits: 3}}, Rows: 5,
				Savings: []pool.SavingsDay{{Date: "2026-01-02", BySource: map[pool.SavingsSource]int64{pool.SavedSolve: 3}}}}
			s.History = func() history.Health { return history.Health{} }
			for i, target := range set.Targets {
				stock.stocks[target.ID] = pool.Stock{Counts: pool.Counts{Fresh: i, NextExpiry: time.Minute, Status: "{}"}}
			}
			c := NewCollector(s)
			shows := func(what string, stocks, sums bool) {
				t.Helper()
				c.Changed()
				began := time.Now()
				d := c.Build(t.Context())
				testkit.AtMost(t, name+", "+what+": time", time.Since(began), redisdb.CallTimeout)
				last := d.Targets[len(set.Targets)-1]
				if last.Fresh != len(set.Targets)-1 || d.Budget.Used != 3 || d.Solve.Requests != 3 || d.Savings.Requests != 3 ||
					d.History.Waiting != 5 {
					t.Errorf("%s, %s: the figures changed: %+v", name, what, d)
				}
				if (last.Reason == "") != stocks || (last.NextExpiry != nil) != stocks || d.Redis.OK != stocks ||
					d.Ready != stocks || (len(d.Alarms) == 0) != stocks {
					t.Errorf("%s, %s: %+v, %+v, %q", name, what, last, d.Redis, d.Alarms)
				}
				if last.Reason != "" && (last.Reason != reason || last.State != refill.Starved) {
					t.Errorf("%s, %s: %+v", name, what, last)
				}
				if (d.Solve.Reason == "") != sums || (d.Savings.Reason == "") != sums ||
					strings.Contains(string(d.JSON()), "canary") {
					t.Errorf("%s, %s: %+v, %+v", name, what, d.Solve, d.Savings)
				}
				m := metricsOf(t, c)
				_, tokens := m["pool_tokens t00001"]
				_, budget := m["budget_used * day"]
				_, guests := m["bought_total /solve"]
				if tokens != stocks || budget != sums || guests != sums || len(m) < len(set.Targets) {
					t.Errorf("%s, %s: metrics %v", name, what, m)
				}
			}
			shows("at first", true, true)
			stock.before = func(ctx context.Context, _ string) error { return fault(ctx) }
			shows("without Redis", false, false)
			stock.before = nothing
			shows("with Redis", true, true)
			stock.before = func(_ context.Context, call string) error {
				if call == "Totals" {
					return errors.New("dial redis://user:canary@host")
				}
				return nil
			}
			shows("without totals", true, false)
		})
	}
}

// The stock is queried with the margin of the target, and with the lead time that the last document found.
func TestQueriesOfASurvey(t *testing.T) {
	s, stock := sources(newSet(newTarget("login")))
	target := s.File.Current().Targets[0]
	stock.stocks[target.ID] = decided(pool.Stock{}, refill.Status{State: refill.OK, Lead: 7 * time.Second})
	c := NewCollector(s)
	for _, lead := range []time.Duration{UnknownLead, 7 * time.Second} {
		c.Changed()
		c.Build(t.Context())
		want := pool.Query{ID: target.ID, Margin: 40 * time.Second, Lead: lead}
		testkit.Equal(t, "the query", (*stock.queries.Load())[0], want)
	}
}

// After a reload that removes the section solve, the document shows guests while there are some.
func TestGuestsWithoutASection(t *testing.T) {
	s, stock := sources(newSet(newTarget("login")))
	stock.totals.Guests = pool.GuestStock{Guests: 1, Fresh: 1, Counters: pool.Counters{Hits: 3}}
	c := NewCollector(s)
	if d := c.Build(t.Context()).Solve; d == nil || d.Guests != 1 || d.Fresh != 1 || d.Requests != 3 || d.Owner != "" ||
		d.Budget != (Windows{}) {
		t.Errorf("while there is one: %+v", d)
	}
	stock.totals.Guests.Guests = 0
	c.Changed()
	if d := c.Build(t.Context()); d.Solve != nil || d.Savings == nil {
		t.Errorf("%+v, %+v", d.Solve, d.Savings)
	}
}

// The details of a target have its minutes and the sums of the last day; without Redis the last day is missing.
func TestATargetHasItsMinutesAndItsLastDay(t *testing.T) {
	s, stock := sources(newSet(newTarget("login")))
	stock.stocks[s.File.Current().Targets[0].ID] = pool.Stock{
		Minutes: []pool.Period{{At: day, Counters: pool.Counters{Hits: 2}}}}
	stock.hours = []pool.Period{
		{At: day, Counters: pool.Counters{Hits: 3, Waited: 2, Missed: 1, Left: 3, Bought: 4, Solved: 3}},
		{At: day.Add(time.Hour), Counters: pool.Counters{Hits: 1}},
	}
	c := NewCollector(s)
	d := c.Detail(t.Context(), "login")
	if got := d.LastDay; got == nil ||
		got.Counts != (Counts{Requests: 10, Hits: 4, Waited: 2, Missed: 1, Bought: 4, Solved: 3}) || got.HitRate != 0.5714 ||
		len(got.Hours) != 2 || got.Hours[1] != (TargetPeriod{At: stamp(day.Add(time.Hour)),
		Counts: Counts{Requests: 1, Hits: 1}}) {
		t.Errorf("%+v", got)
	}
	if d.Hour.Hits != 2 || len(d.Hour.Minutes) != 1 || d.Hour.Minutes[0].Hits != 2 {
		t.Errorf("%+v", d.Hour)
	}
	stock.before = func(context.Context, string) error { return redisdb.ErrDown }
	if d := c.Detail(t.Context(), "login"); d.LastDay != nil || c.Detail(t.Context(), "other") != nil {
		t.Errorf("%+v without redis", d)
	}
}

// A provider that is down and that no order needs is not tried, so the time of its next try has passed.
func TestTheNextTryOfAProvider(t *testing.T) {
	s, _ := sources(newSet(newTarget("login")))
	next := time.Now().Add(time.Minute)
	s.Buyer = &fixedBuyer{providers: []purchase.ProviderStatus{
		{Name: "needed", State: provider.Condition{Kind: provider.StateDown, Until: next}},
		{Name: "idle", State: provider.Condition{Kind: provider.StateDown, Until: next.Add(-time.Hour)}},
	}}
	list := NewCollector(s).Build(t.Context()).Providers
	testkit.Equal(t, "next try of the provider that is needed", list[0].RetryAt, stamp(next))
	testkit.Equal(t, "next try of the idle one", list[1].RetryAt, "")
}
