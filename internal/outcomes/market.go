package outcomes

import (
	"fmt"
	"math"
	"time"

	"poold/internal/captcha"
	"poold/internal/refill/policy/worth"
)

const (
	// shareTime is the time in which the weight of an order in the shares of the orders falls to 1/e.
	shareTime = time.Hour
	// recent is the number of ended orders whose weight in the choice of the leader is at least 1/e. A
	// provider becomes the leader if its orders weigh leads times as much as those of the leader.
	recent, leads = 10.0, 2.0
	// firstLeader is the weight of orders from which a provider becomes the first leader.
	firstLeader = 3.0
	// newsFor is how old a change may be to be logged. A replica that starts reads older changes.
	newsFor = time.Minute
)

// market contains the estimates and the orders of one type of CAPTCHA.
type market struct {
	estimates map[string]*worth.Estimate // by provider
	orders    map[string]*count          // by provider: the ended orders
	explorer  worth.Explorer

	best     string    // the provider with the lowest expected cost; "" = not known yet
	bestFrom time.Time // when best changed; zero = it has not changed
	leader   string    // the provider with the most of the last orders; "" = not known yet
	basis    map[string]figures
	change   Change // the last change of the leader; At is zero if there was none
}

// count counts ended orders.
type count struct {
	hour   float64   // weight of the orders, falling with shareTime
	at     time.Time // time of the last order
	recent float64   // weight of the orders among the last ones
}

// figures are the figures of a provider at one time.
type figures struct {
	price, solved, accepted float64
	lead                    time.Duration // median
}

// Change says that another provider gets the most orders of a type.
type Change struct {
	Type   captcha.Type
	From   string // provider that got the most orders before
	To     string // provider that gets the most orders
	At     time.Time
	Reason string // a sentence
}

func (m *market) estimate(provider string) *worth.Estimate {
	e := m.estimates[provider]
	if e == nil {
		e = new(worth.Estimate)
		m.estimates[provider] = e
	}
	return e
}

// settling is how long after a change of the best provider its type is reported. Orders that were in
// flight at the former provider fail until then, and stop the orders of their targets again.
const settling = 10 * time.Second

// learn adds entries to the estimates. It returns the types for which another provider has become the
// best.
func (b *Book) learn(entries []entry) (changed []captcha.Type) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range entries {
		b.learnLocked(e)
	}
	for t, m := range b.types {
		best := b.bestLocked(t, m)
		if m.best != "" && best != m.best {
			m.bestFrom = time.Now()
		}
		if m.best = best; time.Since(m.bestFrom) < settling {
			changed = append(changed, t)
		}
	}
	return changed
}

// bestLocked returns the provider with the lowest expected cost for an order that can wait.
func (b *Book) bestLocked(t captcha.Type, m *market) string {
	var estimates []*worth.Estimate
	var prices []float64
	for _, p := range b.providers {
		estimates, prices = append(estimates, m.estimate(p.Name)), append(prices, p.Price(t))
	}
	if len(estimates) == 0 {
		return ""
	}
	return b.providers[worth.Choose(worth.Best, worth.Compare(estimates, prices), worth.Need{})].Name
}

// learnLocked adds an entry to the estimates.
func (b *Book) learnLocked(e entry) {
	m := b.marketLocked(e.kind)
	known := m.estimate(e.provider)
	if e.report {
		known.Accepted.Add(e.caller, e.good)
		return
	}
	known.Ended(e.good, e.lead)
	m.count(e.provider, e.at)
	to := m.mostOrders()
	if to == m.leader {
		return
	}
	now := b.figuresLocked(e.kind, m)
	if m.leader != "" {
		m.change = Change{Type: e.kind, From: m.leader, To: to, At: e.at, Reason: explain(e.kind, m, to, now)}
		if time.Since(e.at) < newsFor {
			b.log.Info("another provider gets the most orders", "type", e.kind, "provider", to, "before", m.leader, "reason", m.change.Reason)
		}
	}
	m.leader, m.basis = to, now
}

func (m *market) count(provider string, at time.Time) {
	own := m.orders[provider]
	if own == nil {
		own = new(count)
		m.orders[provider] = own
	}
	own.hour, own.at = own.weight(at)+1, at
	for _, c := range m.orders {
		c.recent *= math.Exp(-1 / recent)
	}
	own.recent++
}

// weight returns the weight of the ended orders at the given time.
func (c *count) weight(at time.Time) float64 {
	return c.hour * math.Exp(-max(0, at.Sub(c.at)).Seconds()/shareTime.Seconds())
}

// mostOrders returns the leader after the last order.
func (m *market) mostOrders() string {
	most := ""
	for name, c := range m.orders {
		if most == "" || c.recent > m.orders[most].recent || c.recent == m.orders[most].recent && name < most {
			most = name
		}
	}
	switch weight := m.orders[most].recent; {
	case m.leader == "" && weight < firstLeader, m.leader != "" && weight < leads*m.orders[m.leader].recent:
		return m.leader
	}
	return most
}

// figuresLocked returns the present figures of all providers.
func (b *Book) figuresLocked(t captcha.Type, m *market) map[string]figures {
	all := map[string]figures{}
	for name, e := range m.estimates {
		f := figures{price: -1, solved: e.Solved.Mean(), accepted: e.Accepted.Mean(), lead: e.Leads.Quantile(0.5)}
		if p := b.providerLocked(name); p != nil {
			f.price = p.Price(t)
		}
		all[name] = f
	}
	return all
}

// leastEffect is the logarithm of the smallest change of the cost that explains a change.
const leastEffect = 0.02

// explain returns the reason for which the orders of a type go to another provider than before: the
// greatest change of a figure for the worse at the old one, or for the better at the new one.
func explain(t captcha.Type, m *market, to string, now map[string]figures) string {
	best, reason := leastEffect, fmt.Sprintf("%s: could not take the orders of %s, or was no longer the best", m.leader, t)
	consider := func(effect float64, format string, args ...any) {
		if effect > best {
			best, reason = effect, fmt.Sprintf(format, args...)
		}
	}
	for _, side := range []struct {
		provider string
		worse    float64 // 1: a higher cost explains the change; -1: a lower one
	}{{m.leader, 1}, {to, -1}} {
		was, known := m.basis[side.provider]
		is := now[side.provider]
		if !known {
			continue
		}
		e := m.estimates[side.provider]
		consider(side.worse*math.Log(was.solved/is.solved), "%s: %.0f %% of %s unsolved in the last %.0f",
			side.provider, 100*(1-is.solved), t, e.Solved.Outcomes())
		consider(side.worse*math.Log(was.accepted/is.accepted), "%s: %.0f %% of %s rejected in the last %.0f",
			side.provider, 100*(1-is.accepted), t, e.Accepted.Outcomes())
		if was.price > 0 && is.price > 0 {
			consider(side.worse*math.Log(is.price/was.price), "%s: %s costs %g per 1000, before %g", side.provider, t, 1000*is.price, 1000*was.price)
		}
		if was.lead > 0 && is.lead > 0 {
			consider(side.worse*math.Log(is.lead.Seconds()/was.lead.Seconds()), "%s: a solve of %s takes %.1f s, before %.1f s",
				side.provider, t, is.lead.Seconds(), was.lead.Seconds())
		}
	}
	return reason
}
