package choice

import (
	"math"
	"time"

	"poold/internal/captcha"
)

// Comparison compares a provider with the others for one type of CAPTCHA.
type Comparison struct {
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

// Rows returns a Comparison for each provider of the file and each type with an ended order or a report. The
// providers are in the order of the file. With fewer than two providers, Rows returns none.
func (c *Chooser) Rows() (rows []Comparison) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.providers) < 2 {
		return nil
	}
	for _, t := range captcha.SolvableTypes() {
		sums, all := c.sums[t], 0.0
		for _, p := range c.providers {
			all += sums[p.Name]["recent"]
		}
		for _, p := range c.providers {
			s := sums[p.Name]
			if len(s) == 0 {
				continue
			}
			accepted, reported := reports(s)
			r := Comparison{
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
