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

// SimulatedProvider is a model of a provider whose properties change with the time.
type SimulatedProvider struct {
	Name string
	At   func(second float64) ProviderTruth // seconds from the start
}

// ProviderTruth is the true state of a simulated provider at one time.
type ProviderTruth struct {
	Price    float64 // price of one token; negative = unknown
	Accepted float64 // share of tokens that the site accepts
	Solves   Solves
}

// ProviderSimulation replays a demand, and lets a policy choose the provider of each order.
type ProviderSimulation struct {
	Simulation        // Solves is not used
	Providers         []SimulatedProvider
	Policy            worth.Policy
	Fixed             int     // index of the provider of all orders; negative = Policy chooses
	Reported          float64 // share of tokens on which a caller reports
	Callers           int     // number of callers that report; at least 1
	rand              *rand.Rand
	pending           []observation // ascending
	estimates         []*worth.Estimate
	explorer          worth.Explorer
	explored, ordered int
	hours             []HourCost
	shares            []int
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

// ProviderResult is the outcome of a ProviderSimulation.
type ProviderResult struct {
	Result
	Hours    []HourCost
	Orders   []int // by provider
	Explored int   // orders that tried another provider than the best
}

// observation is something that the daemon notices after an order.
type observation struct {
	at       float64
	provider int
	report   bool // a caller reports on the token; otherwise the order ended
	good     bool
	lead     time.Duration
	caller   int
}

// reportDelay is the mean time in seconds from the landing of a token to the caller's report.
const reportDelay = 20.0

// Run replays the demand. Equal ProviderSimulations have equal results.
func (s ProviderSimulation) Run(ctx context.Context) (ProviderResult, error) {
	s.rand = rand.New(rand.NewPCG(s.Seed, 1)) //nolint:gosec // G404: a model, and repeatable
	s.estimates = make([]*worth.Estimate, len(s.Providers))
	for i := range s.estimates {
		s.estimates[i] = new(worth.Estimate)
	}
	s.shares = make([]int, len(s.Providers))
	s.hours = make([]HourCost, int(math.Ceil(s.Length/3600)))
	result, err := s.Simulation.run(ctx, 0, s.solve)
	return ProviderResult{Result: result, Hours: s.hours, Orders: s.shares, Explored: s.explored}, err
}

// solve chooses the provider of an order, and draws its outcome.
func (s *ProviderSimulation) solve(r *replay) (lead float64, fails bool) {
	second := r.now - r.began
	s.learn(second)
	truths := make([]ProviderTruth, len(s.Providers))
	for i, p := range s.Providers {
		truths[i] = p.At(second)
	}
	need := worth.Need{MaxWaste: s.Params.MaxWaste}
	callers := len(r.waiting) > len(r.orders)
	if !callers {
		need.Afford = r.state.Lasts(max(0, len(r.tokens)+len(r.orders)-len(r.waiting)) + 1)
	}
	i := s.choose(truths, need, callers)
	s.shares[i]++
	s.count(second, truths, need, i)

	truth := truths[i]
	lead, fails = truth.Solves.Draw(s.rand)
	s.notice(observation{at: second + lead, provider: i, good: !fails, lead: inSeconds(lead)})
	if !fails && s.rand.Float64() < s.Reported {
		s.notice(observation{at: second + lead + reportDelay*s.rand.ExpFloat64(), provider: i, report: true,
			good: s.rand.Float64() < truth.Accepted, caller: s.rand.IntN(max(1, s.Callers))})
	}
	return lead, fails
}

// learn adds what was noticed until now to the estimates.
func (s *ProviderSimulation) learn(second float64) {
	n := 0
	for ; n < len(s.pending) && s.pending[n].at <= second; n++ {
		o := s.pending[n]
		if e := s.estimates[o.provider]; o.report {
			e.Accepted.Add(strconv.Itoa(o.caller), o.good)
		} else {
			e.Ended(o.good, o.lead)
		}
	}
	s.pending = slices.Delete(s.pending, 0, n)
}

func (s *ProviderSimulation) notice(o observation) {
	i, _ := slices.BinarySearchFunc(s.pending, o.at, func(p observation, at float64) int {
		if p.at <= at {
			return -1
		}
		return 1
	})
	s.pending = slices.Insert(s.pending, i, o)
}

func (s *ProviderSimulation) choose(truths []ProviderTruth, need worth.Need, callers bool) int {
	if s.Fixed >= 0 {
		return s.Fixed
	}
	prices, names := make([]float64, len(truths)), make([]string, len(truths))
	for i, t := range truths {
		prices[i], names[i] = t.Price, s.Providers[i].Name
	}
	offers := worth.Compare(s.estimates, prices)
	best := worth.Choose(s.Policy, offers, need)
	if s.Policy != worth.Best {
		return best
	}
	s.explorer.Ordered(callers)
	if s.explorer.May(callers, s.Wait > 0) {
		if i, loss := s.explorer.Next(names, offers, best, need); i >= 0 {
			s.explorer.Explored(names[i], loss)
			s.explored++
			return i
		}
	}
	return best
}

// count adds the expected cost of an order to its hour.
func (s *ProviderSimulation) count(second float64, truths []ProviderTruth, need worth.Need, chosen int) {
	hour := int(second / 3600)
	if hour >= len(s.hours) {
		return
	}
	offers := make([]worth.Figures, len(truths))
	for i, t := range truths {
		offers[i] = worth.Figures{Price: t.Price, Solved: 1 - t.Solves.Fail, Accepted: t.Accepted, Leads: t.Solves.leads()}
	}
	tokens := offers[chosen].Solved * offers[chosen].Accepted
	s.hours[hour].Add(HourCost{Cost: worth.Costs(offers, need)[chosen] * tokens, Tokens: tokens})
}

// leads returns the distribution of the lead times.
func (p *Solves) leads() *worth.Leads {
	const n = 50
	leads := make([]time.Duration, n)
	for i := range leads {
		z := math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/n-1)
		leads[i] = inSeconds(min(max(p.Median.Seconds()*math.Exp(p.Sigma*z), p.Least.Seconds()), p.Most.Seconds()))
	}
	return worth.LeadsOf(leads)
}
