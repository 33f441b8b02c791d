package status

import (
	"cmp"
	"math"
	"slices"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/purchase/choice"
	"poold/internal/refill"
	"poold/internal/targets"
)

// targetOf builds the entry of a target. The argument outage is the reason why no provider can be used; "" = some
// provider can be used. The argument stale is the reason why the stock may be outdated.
func targetOf(set *targets.Set, t *targets.Target, s *pool.Stock, spends pool.Spending, outage, stale string) Target {
	plan, f, priced := refill.StatusOf(t, &s.Counts), &s.Counters, !lacksPrice(set, t.Identity.Type)
	cause := CauseOf(t, plan, &s.Counts, outage)
	if s.At.IsZero() && (plan.State == refill.OK || plan.State == refill.Starved) {
		cause.State, cause.Reason = refill.Starved, stale
	}
	target := Target{
		Name: t.Name, Type: string(t.Identity.Type), Identity: string(t.ID), Owner: t.Owner,
		Sitekey: t.Identity.Sitekey, Pageurl: t.Identity.Pageurl, Depth: t.Depth, Refill: string(t.Refill),
		State: cause.State, Reason: cause.Reason, FailedInARow: s.Brake.FailedInARow,
		Marks: marks(plan.Failing && cause.State != refill.Refused, s.Reports),
		Want:  plan.Want, Forecast: thousandths(plan.Forecast), Risk: thousandths(plan.Risk), LimitedBy: plan.Limit,
		Warm: plan.Warm, Fresh: s.Fresh, Ageing: s.Fresh - s.Outliving, InFlight: s.Orders, BoughtInFlight: s.BoughtInFlight,
		Unknown: s.Unknown, Waiting: s.Waiting, Counters: countersOf(f, s.Waiting), Spent: spent(f, priced),
		HitRate:         ratio(f.Hits, f.Hits+f.Waited+f.Missed), // requests without an outcome do not count
		BoughtPerServed: ratio(f.Bought, f.Hits+f.Waited),
		LeadTime:        LeadTime{P50: percentile(s.Leads, 50), P90: percentile(s.Leads, 90)},
		NextExpiry:      known(s.NextExpiry >= 0, seconds(s.NextExpiry)),
		Days:            []TargetDay{}, LastFailures: []LastFailure{},
		counted: *f, objective: t.HitRate, unread: s.At.IsZero(), outage: cause.Outage,
	}
	if cause.State == refill.Refused {
		target.RetryAt = stamp(plan.Until)
	}
	if cause.State == plan.State && !cause.Outage {
		target.Since = stamp(plan.Since)
	}
	if t.Refill == targets.RefillAdaptive {
		target.Credit = thousandths(plan.Credit)
	}
	target.Hour.Counts, target.Hour.HitRate, target.Hour.Minutes = sumPeriods(s.Minutes)
	for _, day := range slices.Backward(s.Days) {
		target.Days = append(target.Days, TargetDay{
			Date: day.At.Format(time.DateOnly), Counts: countsOf(&day.Counters), Failed: day.Failed, Lost: day.Lost,
			Expired: day.Expired, Spent: spent(&day.Counters, priced),
		})
	}
	for _, f := range s.Failures {
		target.LastFailures = append(target.LastFailures, LastFailure{At: stamp(f.At), Reason: f.Reason})
	}
	if t.Budget != (targets.Budget{}) {
		spends.Hour, spends.Day = s.SolvesHour, s.SolvesDay
		target.Budget = new(budgetOf(refill.Limits(string(t.ID), t.Budget), spends))
	}
	return target
}

// marks lists the marks of a target. The result is never nil.
func marks(failing bool, reports []bool) []string {
	list := []string{}
	if failing {
		list = append(list, markFailing)
	}
	rejected := 0
	for _, accepted := range reports {
		if !accepted {
			rejected++
		}
	}
	if len(reports) >= fewReports && 2*rejected > len(reports) {
		list = append(list, markRejected)
	}
	return list
}

// solveOf converts the sums over all guests. The argument stale says why the sums are not current; "" = they are
// current.
func solveOf(set *targets.Set, t *pool.Totals, stale string) *Solve {
	section := cmp.Or(set.Solve, &targets.Solve{})
	g, f := t.Guests, &t.Guests.Counters
	return &Solve{
		Owner: section.Owner, Reason: stale,
		Guests: g.Guests, Fresh: g.Fresh, InFlight: g.Orders, BoughtInFlight: g.BoughtInFlight, Waiting: g.Waiting,
		Counters: countersOf(f, g.Waiting), Denied: f.Denied, Replays: f.Replays,
		Spent:   spent(f, !lacksPrice(set, captcha.SolvableTypes()...)),
		Budget:  budgetOf(refill.Limits(pool.ScopeSolve, section.Budget), t.Spent[pool.ScopeSolve]),
		counted: *f,
	}
}

// savingsOf converts and sums the savings. The argument stale says why the savings are not current; "" = they are
// current.
func savingsOf(days []pool.SavingsDay, stale string) *Savings {
	d, sum := Savings{Days: append([]pool.SavingsDay{}, days...), Reason: stale}, map[pool.SavingsSource]int64{}
	for _, day := range days {
		for source, n := range day.BySource {
			sum[source] += n
			d.Requests += n
		}
	}
	d.Missed, d.Denied = sum[pool.SavedMissed], sum[pool.SavedDenied]
	d.Saved = sum[pool.SavedSharedWait] + sum[pool.SavedSharedCache] + sum[pool.SavedReplay]
	if served := d.Served(); served > 0 {
		d.SavedPct = math.Round(1000*float64(d.Saved)/float64(served)) / 10
	}
	return &d
}

func configOf(status targets.FileStatus, set *targets.Set) Config {
	c := Config{LoadedAt: stamp(status.LoadedAt), OK: status.OK, RefusedAt: stamp(status.RefusedAt), Problems: []string{},
		Warnings: []string{}}
	for _, p := range status.Problems {
		c.Problems = append(c.Problems, p.String())
	}
	for _, p := range set.Warnings {
		c.Warnings = append(c.Warnings, p.String())
	}
	return c
}

// providersOf converts the states of the providers, with the rows that compare them.
func providersOf(states []purchase.ProviderStatus, rows []choice.Comparison, set *targets.Set) []Provider {
	list := make([]Provider, len(states))
	for i, p := range states {
		list[i] = Provider{
			Name: p.Name, State: string(p.State.Kind), Reason: p.State.Reason, Remedy: p.State.Remedy,
			Since: stamp(p.State.Since), Balance: p.State.Balance,
			InFlight: p.InFlight, Concurrency: p.Concurrency,
			Callbacks: slices.ContainsFunc(set.Providers,
				func(q targets.Provider) bool { return q.Name == p.Name && q.CallbackURL != "" }),
			Types: []ProviderType{},
		}
		if time.Until(p.State.Until) > 0 { // a provider that no order needs is not tried
			list[i].RetryAt = stamp(p.State.Until)
		}
		for _, r := range rows {
			if r.Provider == p.Name {
				list[i].Types = append(list[i].Types, ProviderType{
					Type: string(r.Type), Share: thousandths(r.Share), Solved: thousandths(r.Solved),
					Cost: known(r.Cost >= 0, math.Round(r.Cost*1e9)/1e9), Accepted: known(r.Reports > 0, thousandths(r.Accepted)),
					LeadP50: seconds(r.LeadP50), LeadP90: seconds(r.LeadP90),
				})
			}
		}
	}
	return list
}

// usage returns the use of a budget; nil if the budget has no limit.
func usage(used, limit float64) *Usage {
	if limit <= 0 {
		return nil
	}
	return &Usage{used, limit}
}

// budgetOf returns the use of the budgets of a scope.
func budgetOf(limits pool.Budget, s pool.Spending) Windows {
	money := func(micros, limit int64) *Usage { return usage(float64(micros)/1e6, float64(limit)/1e6) }
	return Windows{
		Hour:     usage(float64(s.Hour), float64(limits.PerHour)),
		Day:      usage(float64(s.Day), float64(limits.PerDay)),
		MoneyDay: money(s.MoneyDay, limits.MicrosPerDay), MoneyMonth: money(s.MoneyMonth, limits.MicrosPerMonth),
	}
}

// countersOf converts counters, given the number of callers that wait now.
func countersOf(f *pool.Counters, waiting int) Counters {
	c := Counters{
		Counts: countsOf(f), Expired: f.Expired, Flushed: f.Flushed, Failed: f.Failed, Lost: f.Lost, Returned: f.Returned,
		Accepted: f.Accepted, Rejected: f.Rejected,
	}
	c.Requests += int64(waiting)
	return c
}

func countsOf(f *pool.Counters) Counts {
	return Counts{
		Requests: f.Hits + f.Waited + f.Missed + f.Left + f.Denied,
		Hits:     f.Hits, Waited: f.Waited, Missed: f.Missed, Bought: f.Bought, Solved: f.Solved,
	}
}

// sumPeriods converts periods, and returns the sums of their counts and the share of hits.
func sumPeriods(periods []pool.Period) (sum Counts, hitRate float64, list []TargetPeriod) {
	list = make([]TargetPeriod, len(periods))
	for i, p := range periods {
		n := countsOf(&p.Counters)
		list[i] = TargetPeriod{At: stamp(p.At), Counts: n}
		sum = Counts{
			sum.Requests + n.Requests, sum.Hits + n.Hits, sum.Waited + n.Waited, sum.Missed + n.Missed,
			sum.Bought + n.Bought, sum.Solved + n.Solved,
		}
	}
	return sum, ratio(sum.Hits, sum.Hits+sum.Waited+sum.Missed), list
}

// stamp formats a time. For the zero time the result is "".
func stamp(t time.Time) string { return history.Time{Time: t}.String() }

// known returns a pointer to a figure, or nil if the figure is unknown.
func known(is bool, figure float64) *float64 {
	if !is {
		return nil
	}
	return &figure
}

func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }

// ratio returns a/b, rounded to four decimal places; 0 if b is 0.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return math.Round(float64(a)/float64(b)*1e4) / 1e4
}

// seconds converts a duration to seconds, rounded to the millisecond. Duration.Seconds is not
// precise enough, because it returns 4.8870000000000005 for 4.887 s.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// percentile returns the p-th percentile by nearest rank, in seconds; 0 for an empty list.
func percentile(list []time.Duration, p int) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	rank := (len(sorted)*p + 99) / 100 // the rank is rounded up; the first rank is 1
	return seconds(sorted[rank-1])
}
