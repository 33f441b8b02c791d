package status

import (
	"math"
	"slices"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/targets"
)

// fewReports is the minimum number of reports for the mark markRejected.
const fewReports = 5

// usage returns the use of a budget; nil if the budget has no limit.
func usage(used, limit int) *Usage {
	if limit <= 0 {
		return nil
	}
	return &Usage{Used: used, Limit: limit}
}

func configStatus(status targets.Status, set *targets.Set) Config {
	c := Config{LoadedAt: stamp(status.LoadedAt), OK: status.OK, Problems: []string{}, Warnings: []string{}, Lasting: set.Lasting()}
	for _, p := range status.Problems {
		c.Problems = append(c.Problems, p.String())
	}
	for _, p := range set.Warnings {
		c.Warnings = append(c.Warnings, p.String())
	}
	return c
}

func (c *Collector) providerStatuses(states []purchase.Status, set *targets.Set) []Provider {
	list := make([]Provider, len(states))
	for i, p := range states {
		list[i] = Provider{
			Name: p.Name, State: string(p.State.Kind), Reason: p.State.Reason,
			InFlight: p.InFlight, Concurrency: p.Concurrency, Balance: p.State.Balance, RetryAt: stamp(p.State.Until),
			Remedy: p.State.Remedy, Since: stamp(p.State.Since),
			CallsPerToken: math.Round(c.CallsPerToken(p.Name)*10) / 10,
			Callbacks:     slices.ContainsFunc(set.Providers, func(q targets.Provider) bool { return q.Name == p.Name && q.CallbackURL != "" }),
		}
	}
	return list
}

// redisStatus returns the state of Redis. The argument surveyErr is the error of the survey.
func redisStatus(mode string, health redisdb.Health, surveyErr error) Redis {
	r := Redis{Mode: mode, OK: surveyErr == nil && health.Up, Reason: health.Reason}
	if surveyErr != nil && r.Reason == "" {
		r.Reason = redisdb.Reason(surveyErr)
	}
	return r
}

// targetStatus converts the refill status and the stock of a target. The state
// of the target is not set yet.
func targetStatus(t *targets.Target, refilling refill.Status, seen *observation) Target {
	f := &seen.Counters
	target := Target{
		Name: t.Name, Type: string(t.Identity.Type), Identity: string(t.ID), Owner: t.Owner,
		Marks: marks(refilling, seen.Verdicts), FailedInARow: seen.Brake.Failures,
		Depth: t.Depth, Want: refilling.Want,
		Refill: string(t.Refill), Forecast: thousandths(refilling.Forecast), Risk: thousandths(refilling.Risk), Limit: refilling.Limit,
		Warm:    refilling.Warm,
		Sitekey: t.Identity.Sitekey, Pageurl: t.Identity.Pageurl,
		Fresh: seen.Fresh, Ageing: seen.Fresh - seen.Outliving, InFlight: seen.Orders, BoughtInFlight: seen.Bought, Unknown: seen.Unknown, Waiting: seen.Waiting,
		Counters:        countersOf(f, seen.Waiting),
		HitRate:         ratio(f.Hits, f.Hits+f.Waited+f.Missed), // requests without an outcome do not count
		BoughtPerServed: ratio(f.Bought, f.Hits+f.Waited),
		LeadTime:        LeadTime{P50: percentile(seen.Leads, 50), P90: percentile(seen.Leads, 90)},
		Spent:           money(f.Spent),
		Days:            targetDays(&seen.Stock),
		Hour:            targetHour(&seen.Stock),
		LastFailures:    lastFailures(seen.Failures),
	}
	if t.Budget != (targets.Budget{}) {
		target.Budget = &Budget{Hour: usage(seen.SpentHour, t.Budget.PerHour), Day: usage(seen.SpentDay, t.Budget.PerDay)}
	}
	if t.Refill == targets.RefillAdaptive {
		target.Credit = thousandths(refilling.Credit)
	}
	if seen.NextExpiry >= 0 {
		left := seconds(seen.NextExpiry)
		target.NextExpiry = &left
	}
	return target
}

// lastFailures converts failures. The result is never nil.
func lastFailures(list []pool.Failure) []LastFailure {
	all := make([]LastFailure, len(list))
	for i, f := range list {
		all[i] = LastFailure{At: stamp(f.At), Reason: f.Reason}
	}
	return all
}

// marks lists the marks of a target. The result is never nil.
func marks(refilling refill.Status, verdicts []bool) []string {
	list := []string{}
	if refilling.Failing {
		list = append(list, markFailing)
	}
	rejected := 0
	for _, accepted := range verdicts {
		if !accepted {
			rejected++
		}
	}
	if len(verdicts) >= fewReports && 2*rejected > len(verdicts) {
		list = append(list, markRejected)
	}
	return list
}
