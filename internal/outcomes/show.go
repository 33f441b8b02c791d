package outcomes

import (
	"time"

	"poold/internal/captcha"
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

// Rows returns a row for each configured provider and each type with an ended order or a report. The
// providers are in the order of the file. With fewer than two providers there are no rows.
func (b *Book) Rows(at time.Time) []Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.providers) < 2 {
		return nil
	}
	var rows []Row
	for _, p := range b.providers {
		for _, t := range captcha.SolvableTypes() {
			m := b.types[t]
			if m == nil || m.estimates[p.Name] == nil {
				continue
			}
			e := m.estimates[p.Name]
			r := Row{
				Provider: p.Name, Type: t, Cost: p.Price(t), Solved: e.Solved.Mean(), Accepted: e.Accepted.Mean(),
				Ended: e.Solved.Outcomes(), Reports: e.Accepted.Outcomes(), LeadP50: e.Leads.Quantile(0.5), LeadP90: e.Leads.Quantile(0.9),
			}
			if r.Ended+r.Reports == 0 {
				continue // it was only compared
			}
			if r.Cost >= 0 {
				r.Cost /= r.Solved
				if r.Reports > 0 {
					r.Cost /= r.Accepted
				}
			}
			var all float64
			for _, c := range m.orders {
				all += c.weight(at)
			}
			if own := m.orders[p.Name]; own != nil && all > 0 {
				r.Share = own.weight(at) / all
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// Changes returns the last change of the provider with the most orders, for each type with a change.
func (b *Book) Changes() []Change {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Change
	for _, t := range captcha.SolvableTypes() {
		if m := b.types[t]; m != nil && !m.change.At.IsZero() && len(b.providers) > 1 {
			list = append(list, m.change)
		}
	}
	return list
}
