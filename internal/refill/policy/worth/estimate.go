package worth

import (
	"cmp"
	"time"
)

// Estimate contains the estimates of one provider for one type of CAPTCHA. The zero value has no data.
type Estimate struct {
	Solved   Share
	Accepted Reports
	Leads    Leads
}

// Ended adds the end of an order. The lead time counts only if the order was solved.
func (e *Estimate) Ended(solved bool, lead time.Duration) (changed bool) {
	if solved {
		e.Leads.Add(lead)
	}
	return e.Solved.Add(solved)
}

// Compare returns the figures by which Choose compares the providers: the lower confidence bounds of
// their shares. If there are no reports on any provider's tokens, all tokens count as accepted. The
// arguments have one element for each provider.
func Compare(estimates []*Estimate, prices []float64) []Figures {
	reported := false
	for _, e := range estimates {
		reported = reported || e.Accepted.all.outcomes > 0
	}
	list := make([]Figures, len(estimates))
	for i, e := range estimates {
		list[i] = Figures{Price: prices[i], Solved: e.Solved.Lower(), Accepted: 1, Leads: &e.Leads}
		if reported {
			list[i].Accepted = e.Accepted.share().Lower()
		}
	}
	return list
}

// forgotten is the weight of a caller's own reports below which the caller is forgotten.
const forgotten = 0.5

// leastOthers is the least weight of the reports of all other callers for which a caller's reports may
// be left out. So a caller decides alone if it sends 7 of 8 reports, or 165 in a row.
const leastOthers = 10

// Reports estimates the share of accepted tokens from the reports of callers. With several callers, the
// estimate leaves out the caller whose reports lower it most, so that one key cannot turn the orders
// away from a provider. A caller that sends nearly all reports is never left out. The zero value knows
// no report.
type Reports struct {
	all     Share
	callers map[string]*reporter
}

// reporter is a caller that reports on its tokens.
type reporter struct {
	weight float64 // of its reports
	others Share   // the reports of all other callers
}

// Add adds a caller's report.
func (r *Reports) Add(caller string, accepted bool) (changed bool) {
	if r.callers == nil {
		r.callers = map[string]*reporter{}
	}
	if r.callers[caller] == nil {
		r.callers[caller] = &reporter{others: r.all}
	}
	for name, c := range r.callers {
		c.weight *= keep
		if name == caller {
			c.weight++
			c.others.fade()
			continue
		}
		if c.others.Add(accepted); c.weight < forgotten {
			delete(r.callers, name)
		}
	}
	return r.all.Add(accepted)
}

// share returns the share without the caller that lowers it most. Of equal shares, the one with more
// reports counts, so the result does not depend on the order of the map.
func (r *Reports) share() *Share {
	best := &r.all
	for _, c := range r.callers {
		if c.others.outcomes < leastOthers {
			continue
		}
		if order := cmp.Compare(c.others.Mean(), best.Mean()); order > 0 || order == 0 && c.others.outcomes > best.outcomes {
			best = &c.others
		}
	}
	return best
}

// Mean returns the estimated share.
func (r *Reports) Mean() float64 { return r.share().Mean() }

// Outcomes returns the weight of the known reports.
func (r *Reports) Outcomes() float64 { return r.all.outcomes }
