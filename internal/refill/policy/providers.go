package policy

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"poold/internal/refill/policy/worth"
)

// SimulatedProvider is a model of a provider that changes with the time.
type SimulatedProvider struct {
	Name string
	At   func(second float64) ProviderModel // the model at a time, in seconds from the start
}

// ProviderModel is the true state of a simulated provider at one time.
type ProviderModel struct {
	Price    float64 // price of one token; negative = unknown
	Accepted float64 // share of tokens that the site accepts
	Solves   Solves
}

// ProviderSimulation replays a demand, and lets a policy choose the provider of each order.
type ProviderSimulation struct {
	Simulation // Solves is not used
	Providers  []SimulatedProvider
	Policy     worth.Policy
	Fixed      int     // index of the provider of all orders; negative = Policy chooses
	Reported   float64 // share of tokens on which a caller reports
	Callers    int     // number of callers that report
}

// ProviderResult is the outcome of a ProviderSimulation.
type ProviderResult struct {
	Result
	Hours    []HourCost
	Orders   []int // by provider
	Explored int   // orders that tried another provider than the best
}

// HourCost is the expected cost of the orders of one hour, computed from the true state of the
// providers.
type HourCost struct {
	Cost   float64 // expected cost of all orders of the hour
	Tokens float64 // expected number of accepted tokens
}

// PerToken returns the expected cost per accepted token; 0 = no order.
func (h HourCost) PerToken() float64 {
	if h.Tokens == 0 {
		return 0
	}
	return h.Cost / h.Tokens
}

// Add adds the costs of other orders.
func (h *HourCost) Add(other HourCost) { h.Cost, h.Tokens = h.Cost+other.Cost, h.Tokens+other.Tokens }

// reportDelay is the mean time in seconds from the landing of a token to the caller's report.
const reportDelay = 20.0

// Run replays the demand. Equal ProviderSimulations have equal results.
func (s ProviderSimulation) Run(ctx context.Context) (ProviderResult, error) {
	run := &providerRun{
		ProviderSimulation: s,
		random:             rand.New(rand.NewPCG(s.Seed, 1)), //nolint:gosec // G404: a model, and repeatable
		leads:              map[Solves]*worth.Leads{},
		result:             ProviderResult{Hours: make([]HourCost, int(math.Ceil(s.Length/3600))), Orders: make([]int, len(s.Providers))},
	}
	for _, p := range s.Providers {
		run.names = append(run.names, p.Name)
		run.estimates = append(run.estimates, new(worth.Estimate))
	}
	var err error
	run.result.Result, err = s.run(ctx, 0, run.solve)
	return run.result, err
}

// providerRun is a run of a ProviderSimulation.
type providerRun struct {
	ProviderSimulation
	random    *rand.Rand
	names     []string
	estimates []*worth.Estimate
	explorer  worth.Explorer
	due       []notice // notices that are not yet due, ascending
	leads     map[Solves]*worth.Leads
	result    ProviderResult
}

// notice is something that the daemon notices after an order.
type notice struct {
	at       float64
	provider int
	report   bool // a caller reports on the token; otherwise the order ended
	good     bool
	lead     time.Duration
	caller   int
}

// solve chooses the provider of an order, and draws its outcome.
func (s *providerRun) solve(r *replay) (lead float64, fails bool) {
	second := r.now - r.began
	s.learn(second)
	models := make([]ProviderModel, len(s.Providers))
	for i, p := range s.Providers {
		models[i] = p.At(second)
	}
	need := worth.Need{MaxWaste: s.Params.MaxWaste}
	callers := len(r.waiting) > len(r.orders)
	if !callers {
		need.Afford = r.state.Lasts(max(0, len(r.tokens)+len(r.orders)-len(r.waiting)) + 1)
	}
	i := s.choose(models, need, callers)
	s.result.Orders[i]++
	s.count(second, models, need, i)

	model := models[i]
	lead, fails = model.Solves.Draw(s.random)
	s.notice(notice{at: second + lead, provider: i, good: !fails, lead: inSeconds(lead)})
	if !fails && s.random.Float64() < s.Reported {
		s.notice(notice{
			at: second + lead + reportDelay*s.random.ExpFloat64(), provider: i, report: true,
			good: s.random.Float64() < model.Accepted, caller: s.random.IntN(max(1, s.Callers)),
		})
	}
	return lead, fails
}

// learn adds the notices until the given time to the estimates.
func (s *providerRun) learn(second float64) {
	n := 0
	for ; n < len(s.due) && s.due[n].at <= second; n++ {
		o := s.due[n]
		if e := s.estimates[o.provider]; o.report {
			e.Accepted.Add(strconv.Itoa(o.caller), o.good)
		} else {
			e.Ended(o.good, o.lead)
		}
	}
	s.due = slices.Delete(s.due, 0, n)
}

func (s *providerRun) notice(n notice) {
	i, _ := slices.BinarySearchFunc(s.due, n.at, func(other notice, at float64) int {
		if other.at <= at {
			return -1
		}
		return 1
	})
	s.due = slices.Insert(s.due, i, n)
}

func (s *providerRun) choose(models []ProviderModel, need worth.Need, callers bool) int {
	if s.Fixed >= 0 {
		return s.Fixed
	}
	prices := make([]float64, len(models))
	for i, m := range models {
		prices[i] = m.Price
	}
	offers := worth.Compare(s.estimates, prices)
	best := worth.Choose(s.Policy, offers, need)
	if s.Policy != worth.Best {
		return best
	}
	s.explorer.Ordered(callers)
	if s.explorer.May(callers, s.Wait > 0) {
		if i, loss := s.explorer.Next(s.names, offers, best, need); i >= 0 {
			s.explorer.Explored(s.names[i], loss)
			s.result.Explored++
			return i
		}
	}
	return best
}

// count adds the expected cost of an order to its hour.
func (s *providerRun) count(second float64, models []ProviderModel, need worth.Need, chosen int) {
	hour := int(second / 3600)
	if hour >= len(s.result.Hours) {
		return
	}
	offers := make([]worth.Figures, len(models))
	for i, m := range models {
		if s.leads[m.Solves] == nil {
			s.leads[m.Solves] = m.Solves.leads()
		}
		offers[i] = worth.Figures{Price: m.Price, Solved: 1 - m.Solves.Fail, Accepted: m.Accepted, Leads: s.leads[m.Solves]}
	}
	tokens := offers[chosen].Solved * offers[chosen].Accepted
	s.result.Hours[hour].Add(HourCost{Cost: worth.Costs(offers, need)[chosen] * tokens, Tokens: tokens})
}

// leads returns the distribution of the lead times.
func (p *Solves) leads() *worth.Leads {
	const quantiles = 200
	leads := make([]time.Duration, quantiles)
	for i := range leads {
		z := math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/quantiles-1)
		leads[i] = inSeconds(min(max(p.Median.Seconds()*math.Exp(p.Sigma*z), p.Least.Seconds()), p.Most.Seconds()))
	}
	return worth.LeadsOf(leads)
}
