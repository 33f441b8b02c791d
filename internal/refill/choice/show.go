package choice

import (
	"fmt"
	"math"
	"slices"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// Row describes one provider and one type of CAPTCHA.
type Row struct {
	Provider string
	Type     captcha.Type
	// Share is the provider's share of the ended orders of the type, weighted towards the last hour.
	Share float64
	// Cost is the expected cost per accepted token: the price divided by the share solved and by the
	// share accepted; negative = the price is unknown.
	Cost     float64
	Solved   float64 // share of orders that brought a token
	Accepted float64 // share of tokens that the sites accepted
	// Ended and Reports are the weights of the orders and reports from which the shares were computed.
	// Without reports, Accepted means nothing.
	Ended, Reports   float64
	LeadP50, LeadP90 time.Duration // 0 = unknown
}

// Change says that another provider gets the most orders of a type.
type Change struct {
	Type   captcha.Type
	From   string // provider that got the most orders before
	To     string // provider that gets the most orders
	At     time.Time
	Reason string // a sentence
}

// market is what this replica knows of one type.
type market struct {
	sums   map[string]pool.Sums // by provider
	read   time.Time
	latest map[string]float64 // the latest orders by provider; the weight of one falls to 1/e with latestOrders
	leader string             // the provider with the most of the latest orders; "" = not known yet
	change Change             // the last change of the leader; At is zero if this replica saw none
}

// A provider becomes the leader if its latest orders weigh leads times as much as those of the leader, and at least
// leastLead.
const latestOrders, leads, leastLead = 10.0, 2.0, 3.0

// followLocked takes over new sums, and notes if another provider gets the most orders.
func (c *Chooser) followLocked(t captcha.Type, sums map[string]pool.Sums, at time.Time) {
	m := c.types[t]
	ended, all := map[string]float64{}, 0.0
	fade := math.Exp(-at.Sub(m.read).Hours())
	for name, s := range sums {
		ended[name] = max(0, s["recent"]-m.sums[name]["recent"]*fade)
		all += ended[name]
	}
	m.sums, m.read = sums, at
	most, keep := m.leader, math.Exp(-all/latestOrders)
	for name := range ended {
		m.latest[name] = m.latest[name]*keep + latestOrders*(1-keep)*ended[name]/max(all, 1e-9)
	}
	for _, p := range c.providers {
		if m.latest[p.Name] >= max(leastLead, leads*m.latest[m.leader]) && m.latest[p.Name] > m.latest[most] {
			most = p.Name
		}
	}
	if most == m.leader {
		return
	}
	if m.leader != "" {
		m.change = Change{Type: t, From: m.leader, To: most, At: at, Reason: c.explainLocked(t, m.leader, most)}
		c.log.Info("another provider gets the most orders", "type", t, "provider", most, "before", m.leader,
			"reason", m.change.Reason)
	}
	m.leader = most
}

// explainLocked returns the figure that speaks most for the new provider.
func (c *Chooser) explainLocked(t captcha.Type, from, to string) string {
	rows := c.rowsLocked(t)
	row := func(name string) (r Row) {
		r = Row{Provider: name, Solved: priorShare, Accepted: priorShare, Cost: -1}
		if i := slices.IndexFunc(rows, func(r Row) bool { return r.Provider == name }); i >= 0 {
			r = rows[i]
		}
		return r
	}
	old, now := row(from), row(to)
	reason, most := fmt.Sprintf("%s: could not take the orders of %s, or was no longer the best", from, t), 0.02
	consider := func(gain float64, format string, args ...any) {
		if gain > most {
			most, reason = gain, fmt.Sprintf(format, args...)
		}
	}
	consider(math.Log(now.Solved/old.Solved), "%s: %.0f %% of %s unsolved in the last %.0f",
		from, 100*(1-old.Solved), t, old.Ended)
	consider(math.Log(now.Accepted/old.Accepted), "%s: %.0f %% of %s rejected in the last %.0f",
		from, 100*(1-old.Accepted), t, old.Reports)
	consider(math.Log(c.priceLocked(from, t)/c.priceLocked(to, t)), "%s: %s costs %g per 1000, at %s %g", from, t,
		1000*c.priceLocked(from, t), to, 1000*c.priceLocked(to, t))
	return reason
}

func (c *Chooser) priceLocked(provider string, t captcha.Type) float64 {
	for _, p := range c.providers {
		if p.Name == provider {
			return p.Price(t)
		}
	}
	return -1
}

// rowsLocked returns the rows of a type, in the order of the file.
func (c *Chooser) rowsLocked(t captcha.Type) (rows []Row) {
	m, all := c.types[t], 0.0
	if len(c.providers) < 2 {
		return nil
	}
	for _, p := range c.providers {
		all += m.sums[p.Name]["recent"]
	}
	for _, p := range c.providers {
		s := m.sums[p.Name]
		if len(s) == 0 {
			continue
		}
		accepted, reported := reports(s)
		r := Row{
			Provider: p.Name, Type: t, Cost: p.Price(t), Solved: mean(s["order:solved"], s["order:ended"]),
			Accepted: mean(accepted, reported), Ended: s["order:ended"], Reports: reported, Share: s["recent"] / max(all, 1e-9),
		}
		if r.Cost >= 0 {
			r.Cost /= r.Solved
			if reported > 0 {
				r.Cost /= r.Accepted
			}
		}
		if solved := s["order:solved"]; solved > 0.01 {
			r.LeadP50, r.LeadP90 = lognormal(s["order:leads"]/solved, s["order:squares"]/solved)
		}
		rows = append(rows, r)
	}
	return rows
}

// lognormal returns the quantiles 0.5 and 0.9 of lead times, which are about lognormal, by their mean and mean square
// in ms.
func lognormal(mean, square float64) (p50, p90 time.Duration) {
	spread := math.Sqrt(max(0, math.Log(square/(mean*mean))))
	median := mean * math.Exp(-spread*spread/2) * float64(time.Millisecond)
	return time.Duration(median), time.Duration(median * math.Exp(1.2816*spread))
}

// Rows returns a row for each provider of the file and each type with an ended order or a report. The
// providers are in the order of the file. With fewer than two providers there are no rows.
func (c *Chooser) Rows() (rows []Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range captcha.SolvableTypes() {
		rows = append(rows, c.rowsLocked(t)...)
	}
	return rows
}

// Changes returns the last change of the provider with the most orders, for each type with a change.
func (c *Chooser) Changes() (list []Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range captcha.SolvableTypes() {
		if change := c.types[t].change; !change.At.IsZero() && len(c.providers) > 1 {
			list = append(list, change)
		}
	}
	return list
}
