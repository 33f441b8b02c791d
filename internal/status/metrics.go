package status

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/targets"
)

// allTargets is the label of what belongs to no single target. No target can have this name.
const allTargets = "*"

// Describe implements prometheus.Collector. It names no metric in advance, because many metrics are absent at times.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector: one scrape shows one document.
func (c *Collector) Collect(ch chan<- prometheus.Metric) { c.Build(context.Background()).collect(ch) }

func (d *Document) collect(ch chan<- prometheus.Metric) {
	m := metrics{ch: ch, descs: map[string]*prometheus.Desc{}}
	all := metrics{ch, m.descs, " Over all replicas: take the maximum over instances, not the sum.", nil}
	m.show("config_last_reload_successful", "1 if the last load of the configuration file succeeded.", truth(d.Config.OK))
	m.show("redis_up", "1 while Redis can be used.", truth(d.Redis.OK))
	m.show("redis_data_lost", "1 for a day after this replica noticed that Redis had lost its data.", truth(d.dataLost))
	m.show("dead_letters", "Callbacks that this replica has not stored in Redis yet.", float64(d.DeadLetters))
	for i := range d.Providers {
		m.of("provider", d.Providers[i].Name).provider(&d.Providers[i])
	}
	if h := d.History; h != nil {
		const records = "Rows that this replica sent to the history, by outcome: sent, dropped."
		m.show("history_up", "1 if this replica can write the history; absent without a history.", truth(h.OK))
		m.show("history_records_total", records, float64(h.Sent), "outcome", "sent")
		m.show("history_records_total", records, float64(h.Dropped), "outcome", "dropped")
		all.rare("history_unrecorded_total", "Rows of all targets (*) that the history lacks, because too many waited.",
			h.Unrecorded, "target", allTargets)
	}
	states := "1 for the state that a target is in: " + strings.Join(States(), ", ") + "."
	for i := range d.Targets {
		t := &d.Targets[i]
		m, all := m.of("target", t.Name), all.of("target", t.Name)
		m.info(t.Owner, t.Type)
		m.show("target_state", states, 1, "state", t.State)
		m.show("pool_want", "Tokens that the policy wants to keep now.", float64(t.Want))
		if t.Refill == string(targets.RefillAdaptive) {
			m.show("pool_waste_credit", "Adaptive: tokens that may still expire unused before only min is kept.", t.Credit)
			m.show("target_hit_rate_objective", "Adaptive: hit_rate of the file.", t.objective)
		}
		if !t.unread {
			all.stock(t.Fresh, t.InFlight, t.BoughtInFlight, t.Unknown, &t.counted)
		}
	}
	for _, u := range d.BudgetUses() {
		name, isTarget := strings.CutPrefix(u.Scope, OfTarget)
		if !isTarget && name == pool.ScopeOverall {
			name = allTargets
		}
		all.of("target", name).budget(u)
	}
	if s := d.Solve; s != nil && d.summed {
		guests := all.of("target", purchase.GuestTarget)
		m.of("target", purchase.GuestTarget).info(s.Owner, "")
		guests.stock(s.Fresh, s.InFlight, s.BoughtInFlight, 0, &s.counted)
	}
}

type metrics struct {
	ch    chan<- prometheus.Metric
	descs map[string]*prometheus.Desc // by name
	ends  string                      // what each help ends with
	about []string                    // labels of each series, names and values in turns
}

// of returns metrics whose series all have the given labels, such as those of one target.
func (m metrics) of(labels ...string) metrics {
	m.about = labels
	return m
}

// show adds a series. The labels are pairs of a name and a value. A metric whose name ends with total is a counter.
func (m metrics) show(name, help string, value float64, labels ...string) {
	var names, values []string
	for pair := range slices.Chunk(append(labels, m.about...), 2) {
		names, values = append(names, pair[0]), append(values, pair[1])
	}
	if m.descs[name] == nil {
		m.descs[name] = prometheus.NewDesc("poold_"+name, help+m.ends, names, nil)
	}
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	m.ch <- prometheus.MustNewConstMetric(m.descs[name], kind, value, values...)
}

// rare adds a series once its count is above 0, so that quiet targets have few series. A series that an alert uses
// exists from the start, because an alert sees only an increase.
func (m metrics) rare(name, help string, n int64, labels ...string) {
	if n > 0 {
		m.show(name, help, float64(n), labels...)
	}
}

func (m metrics) provider(p *Provider) {
	m.show("provider_up", "1 while a provider can be asked (ok or busy), 0 while it is down.",
		truth(provider.StateKind(p.State).Usable()))
	if p.Balance != nil {
		m.show("provider_balance", "Last known balance at a provider; absent if none is known.", *p.Balance)
	}
	for _, t := range p.Types {
		m.show("provider_order_share", "Its share of the ended orders of a type; absent with one provider.", t.Share, "type",
			t.Type)
	}
}

func (m metrics) info(owner, of string) {
	m.show("target_info", "Owner and type of a target, for joins; always 1. /solve is the sum of all guests.", 1,
		"owner", owner, "type", of)
}

// stock adds the series of the stock of a target, or of all guests.
func (m metrics) stock(fresh, orders, bought, unknown int, f *pool.Counters) {
	m.show("pool_tokens", "Fresh tokens.", float64(fresh))
	const states = "Orders in flight by state: placed (or being submitted), bought, unknown (no answer: perhaps bought)."
	m.show("orders_in_flight", states, float64(bought-unknown), "state", "bought")
	m.rare("orders_in_flight", states, int64(orders-bought), "state", "placed")
	m.rare("orders_in_flight", states, int64(unknown), "state", "unknown")
	const requests = "Requests by outcome: hit (was ready), waited, missed, replay (repeated), denied (only /solve)."
	m.show("token_requests_total", requests, float64(f.Hits), "outcome", "hit")
	m.show("token_requests_total", requests, float64(f.Missed), "outcome", "missed")
	m.rare("token_requests_total", requests, f.Waited, "outcome", "waited")
	m.rare("token_requests_total", requests, f.Replays, "outcome", "replay")
	m.rare("token_requests_total", requests, f.Denied, "outcome", "denied")
	m.rare("tokens_returned_total", "Hand-outs taken back: the caller had hung up.", f.Returned)
	m.show("bought_total", "Orders that a provider accepted or may have accepted.", float64(f.Bought))
	m.rare("solved_total", "Tokens that landed.", f.Solved)
	m.show("tokens_expired_total", "Tokens that expired unused, or had expired when they landed.", float64(f.Expired))
	m.rare("tokens_flushed_total", "Ready tokens that were flushed.", f.Flushed)
	m.show("orders_failed_total", "Bought orders that ended without a token.", float64(f.Failed))
	m.show("orders_lost_total", "Bought orders whose end is unknown.", float64(f.Lost))
	const reports = "Reports of callers on their tokens, by outcome: accepted, rejected."
	m.rare("reports_total", reports, f.Accepted, "outcome", "accepted")
	m.show("reports_total", reports, float64(f.Rejected), "outcome", "rejected")
	m.show("spend_total", "Money spent, by the prices of the file.", float64(f.Spent)/1e9)
}

func (m metrics) budget(u BudgetUse) {
	m.show("budget_used", "Solves bought in the last hour or day, or money spent on this UTC day or in this month "+
		"(money_day, money_month); * is the overall budget.", u.Used, "window", u.Window)
	m.show("budget_limit", "Solves or money that may be spent in the window.", u.Limit, "window", u.Window)
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
