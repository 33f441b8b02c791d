package status

import (
	"github.com/prometheus/client_golang/prometheus"

	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/targets"
)

// descriptions contains the descriptions of all metrics of a snapshot.
var descriptions []*prometheus.Desc

// describe adds the description of a metric to the list descriptions, and returns this description.
func describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("poold_"+name, help, labels, nil)
	descriptions = append(descriptions, d)
	return d
}

// The help texts of metrics that cover all replicas end with overAllReplicas.
const overAllReplicas = " Counted over all replicas, as on /status: take the maximum over instances, not the sum."

// everyTarget describes a metric that covers all replicas and has the label target.
func everyTarget(name, help string, labels ...string) *prometheus.Desc {
	return describe(name, help+overAllReplicas, append([]string{"target"}, labels...)...)
}

// These are the metrics of a snapshot. The counters of an identity begin when poold first sees the
// identity.
var (
	descTokens    = everyTarget("pool_tokens", "Fresh tokens.")
	descWant      = describe("pool_want", "Tokens that the policy wants to keep now.", "target")
	descCredit    = describe("pool_waste_credit", "Tokens that may still expire unused before the adaptive policy of this replica keeps only min; absent with a fixed depth.", "target")
	descInFlight  = everyTarget("pool_in_flight", "Orders in flight.")
	descUnderWay  = everyTarget("bought_in_flight", "Orders in flight that count as bought.")
	descUnknown   = everyTarget("orders_unknown", "Orders in flight whose submit got no answer, so that they may have been bought.")
	descRequests  = everyTarget("token_requests_total", "Requests for a token since the identity was first seen: hit (was ready), waited, miss, replay (Idempotency-Key), refused (of POST /solve: no token can come).", "outcome")
	descReturned  = everyTarget("tokens_returned_total", "Hand-outs taken back, because the caller had hung up.")
	descBought    = everyTarget("bought_total", "Orders that a provider accepted or may have accepted, since the identity was first seen.")
	descSolved    = everyTarget("solved_total", "Tokens that landed since the identity was first seen.")
	descExpired   = everyTarget("tokens_expired_total", "Tokens that entered their margin unused, or had expired when they landed, since the identity was first seen.")
	descDiscarded = everyTarget("tokens_discarded_total", "Ready tokens that were flushed.")
	descFailed    = everyTarget("orders_failed_total", "Bought orders that ended without a token.")
	descLost      = everyTarget("orders_lost_total", "Bought orders whose timeout passed with an unknown outcome.")
	descReports   = everyTarget("reports_total", "Reports of callers on their tokens: accepted, rejected.", "outcome")
	descSpend     = everyTarget("spend_total", "Money spent since the identity was first seen, by the prices of the file.")

	// These two metrics are made for joins in PromQL.
	descInfo  = describe("target_info", "Owner and type of a target; always 1. /solve is the sum of all guests: identities of POST /solve without a target.", "target", "owner", "type")
	descAim   = describe("target_wanted_hit_rate", "Share of requests that should find a token at once: hit_rate of the file; absent with a fixed depth.", "target")
	descState = describe("target_state", "1 for the state that a target is in now: ok, idle, paused, starved, budget, refused.", "target", "state")

	descBudgetUsed  = everyTarget("budget_used", "Solves bought in the last hour or day; target * is the overall budget.", "window")
	descBudgetLimit = everyTarget("budget_limit", "Solves that may be bought in an hour or a day; target * is the overall budget.", "window")

	descGuests = describe("solve_guests", "Guests, which are identities of POST /solve without a target, that are still known."+overAllReplicas)
	// This metric is a gauge, not a counter, because the store keeps a separate count for each day.
	descSavings = describe("solve_requests_today", "Requests to POST /solve since midnight UTC, when it is reset, by source: pool (the token was ready), solve (bought for the request), "+
		"shared_wait (shared a solve in flight), shared_cache (shared an ended solve), replay (Idempotency-Key), missed (no token came), refused (no token can come)."+overAllReplicas, "source")

	descHistoryUp  = describe("history_up", "1 if this replica can write the history; absent without a history.")
	descHistory    = describe("history_records_total", "Ended orders that this replica sent to the history, by outcome: sent, dropped.", "outcome")
	descUnrecorded = everyTarget("history_unrecorded_total", "Ended orders of all targets (*) that the history lacks, because too many waited; absent if there are none.")
	descAudited    = describe("audit_entries_total", "Audit entries that this replica wrote; absent without an audit.")
	descUnaudited  = describe("audit_dropped_total", "Audit entries that this replica dropped, because too many waited or the store refused them; absent without an audit.")

	descLetters    = describe("dead_letters", "Callbacks that this replica has not stored in Redis yet.")
	descProviderUp = describe("provider_up", "1 while a provider can be asked (ok or busy), 0 while it is down.", "provider")
	descShare      = describe("provider_order_share", "Share of a provider in the ended orders of a type, weighted towards the last hour; absent with one provider.", "provider", "type")
	descCost       = describe("provider_token_cost", "Expected cost per accepted token at a provider; absent without a price.", "provider", "type")
	descSolvedAt   = describe("provider_solved_ratio", "Share of the orders of a type that brought a token, as estimated from the last orders.", "provider", "type")
	descAcceptedAt = describe("provider_accepted_ratio", "Share of the tokens of a type that the sites accepted, as estimated from the last reports; absent without reports.", "provider", "type")
	descBalance    = describe("provider_balance", "Last known balance at a provider; absent if none is known.", "provider")
	descConfigOK   = describe("config_last_reload_successful", "1 if the last load of the configuration file succeeded.")
	descRedisUp    = describe("redis_up", "1 while Redis serves at least a part of the targets.")
)

// allTargets is the value of the label target for the overall budget. No target can have this name.
const allTargets = "*"

// Describe implements prometheus.Collector.
func (s *Snapshot) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Snapshot) Collect(ch chan<- prometheus.Metric) {
	d := s.Document
	gauge(ch, descConfigOK, truth(d.Config.OK))
	gauge(ch, descRedisUp, truth(d.Redis.OK))
	gauge(ch, descLetters, float64(d.DeadLetters))
	for _, p := range d.Providers {
		gauge(ch, descProviderUp, truth(provider.StateKind(p.State).Usable()), p.Name)
		if p.Balance != nil {
			gauge(ch, descBalance, *p.Balance, p.Name)
		}
		for _, t := range p.Types {
			gauge(ch, descShare, t.Share, p.Name, t.Type)
			gauge(ch, descSolvedAt, t.Solved, p.Name, t.Type)
			if t.Cost != nil {
				gauge(ch, descCost, *t.Cost, p.Name, t.Type)
			}
			if t.Accepted != nil {
				gauge(ch, descAcceptedAt, *t.Accepted, p.Name, t.Type)
			}
		}
	}
	if s.budgetRead {
		collectUsage(ch, d.Budget, allTargets, "day")
	}
	if d.Dedup != nil && d.Dedup.Reason == "" && len(d.Dedup.Days) > 0 {
		collectSavings(ch, &d.Dedup.Days[0])
	}
	if h := d.History; h != nil {
		gauge(ch, descHistoryUp, truth(h.OK))
		count(ch, descHistory, float64(h.Sent), "sent")
		count(ch, descHistory, float64(h.Dropped), "dropped")
		if h.Unrecorded > 0 {
			count(ch, descUnrecorded, float64(h.Unrecorded), allTargets)
		}
	}
	if a := d.Audit; a != nil {
		count(ch, descAudited, float64(a.Written))
		count(ch, descUnaudited, float64(a.Dropped))
	}
	if s.guests != nil {
		gauge(ch, descGuests, float64(s.guests.Guests))
		gauge(ch, descInfo, 1, purchase.GuestTarget, d.Solve.Owner, "")
		collectStock(ch, purchase.GuestTarget, s.guests.Fresh, s.guests.Orders, s.guests.Bought, &s.guests.Counters)
		collectBudget(ch, &d.Solve.Budget, purchase.GuestTarget)
	}
	for i := range d.Targets {
		collectTarget(ch, &d.Targets[i], s.set.Targets[i].HitRate, &s.seen[i])
	}
}

// collectTarget sends the metrics of a target: 17 series. An adaptive target has two more, and a budget
// has two for each window. Counters of rare events begin with the first event.
func collectTarget(ch chan<- prometheus.Metric, t *Target, hitRate float64, seen *observation) {
	gauge(ch, descInfo, 1, t.Name, t.Owner, t.Type)
	gauge(ch, descState, 1, t.Name, t.State)
	gauge(ch, descWant, float64(t.Want), t.Name)
	if t.Refill == string(targets.RefillAdaptive) {
		gauge(ch, descCredit, t.Credit, t.Name)
		gauge(ch, descAim, hitRate, t.Name)
	}
	if seen.Err == nil {
		collectStock(ch, t.Name, t.Fresh, t.InFlight, t.BoughtInFlight, &seen.Counters)
		if t.Unknown > 0 {
			gauge(ch, descUnknown, float64(t.Unknown), t.Name)
		}
		collectBudget(ch, t.Budget, t.Name)
	}
}

// collectStock sends the metrics of the stock of a target, or of all guests. See collectTarget.
func collectStock(ch chan<- prometheus.Metric, name string, fresh, orders, bought int, f *pool.Counters) {
	gauge(ch, descTokens, float64(fresh), name)
	gauge(ch, descInFlight, float64(orders), name)
	gauge(ch, descUnderWay, float64(bought), name)
	for outcome, n := range map[string]int64{"hit": f.Hits, "waited": f.Waited, "miss": f.Missed} {
		count(ch, descRequests, float64(n), name, outcome)
	}
	for outcome, n := range map[string]int64{"replay": f.Replays, "refused": f.Declined} { // only guests count refusals
		if n > 0 {
			count(ch, descRequests, float64(n), name, outcome)
		}
	}
	for desc, n := range map[*prometheus.Desc]int64{descBought: f.Bought, descSolved: f.Solved, descExpired: f.Expired, descFailed: f.Failed, descLost: f.Lost} {
		count(ch, desc, float64(n), name)
	}
	for desc, n := range map[*prometheus.Desc]int64{descReturned: f.Returned, descDiscarded: f.Discarded} {
		if n > 0 {
			count(ch, desc, float64(n), name)
		}
	}
	count(ch, descReports, float64(f.Accepted), name, "accepted")
	count(ch, descReports, float64(f.Rejected), name, "rejected") // from 0 on, because an alert uses its increase
	count(ch, descSpend, float64(money(f.Spent)), name)
}

// collectBudget sends the metrics of the budgets of a target, or of all guests. Without budgets, b
// is nil.
func collectBudget(ch chan<- prometheus.Metric, b *Budget, name string) {
	if b != nil {
		collectUsage(ch, b.Hour, name, "hour")
		collectUsage(ch, b.Day, name, "day")
	}
}

// collectSavings sends the metrics of the savings on a day.
func collectSavings(ch chan<- prometheus.Metric, day *DedupDay) {
	by := &day.BySource
	for source, n := range map[dedup.SavingsSource]int64{
		dedup.SavedPool: by.Pool, dedup.SavedSolve: by.Solve, dedup.SavedWaiting: by.SharedWait, dedup.SavedAfter: by.SharedCache, dedup.SavedReplay: by.Replay,
		dedup.SavedMissed: day.Missed, dedup.SavedRefused: day.Refused,
	} {
		gauge(ch, descSavings, float64(n), string(source))
	}
}

// collectUsage sends the metrics of a budget; nil = there is no budget.
func collectUsage(ch chan<- prometheus.Metric, w *Usage, target, name string) {
	if w == nil {
		return
	}
	gauge(ch, descBudgetUsed, float64(w.Used), target, name)
	gauge(ch, descBudgetLimit, float64(w.Limit), target, name)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func count(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
