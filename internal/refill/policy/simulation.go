package policy

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// Solves is a model of a provider. Lead times are lognormal, from a third of the median to twenty thirds. A share of
// the solves fails, each at the end of its lead time.
type Solves struct {
	Median time.Duration
	Sigma  float64
	Fail   float64
}

// DefaultSolves returns the solves of the provider in docs/refill.md: lead times from 6 to 120 s, and 7 % that fail.
func DefaultSolves() Solves { return Solves{Median: 18 * time.Second, Sigma: 0.45, Fail: 0.07} }

// Simulation replays a demand with a policy in virtual time.
type Simulation struct {
	Params      Params
	Start       time.Time // time of second 0, for the windows; zero = a Monday, 00:00 UTC
	Solves      Solves
	Concurrency int       // maximum number of orders in flight
	Arrivals    []float64 // seconds from the start, ascending
	Length      float64   // length of the demand in seconds; at least until the last arrival
	Seed        uint64
	// Progress is optional. It is called from time to time with the completed share.
	Progress func(done float64)
	// Watch is optional. It is called after each event with the time in seconds, the ready tokens, the orders in flight
	// and the result so far.
	Watch func(at float64, ready, orders int, r *Result)
}

// Result is the outcome of a Simulation. `poold simulate` prints it as JSON.
type Result struct {
	Requests        int     `json:"requests"`
	Hits            int     `json:"hits"` // requests that got a token at once
	HitRate         float64 `json:"hit_rate"`
	Misses          int     `json:"misses"` // requests that got no token
	Bought          int     `json:"bought"` // tokens that landed; a failed solve costs nothing
	Expired         int     `json:"expired"`
	Failed          int     `json:"failed"`
	WastePerRequest float64 `json:"waste_per_request"`
	BoughtPerServed float64 `json:"bought_per_served"`
	PeakInFlight    int     `json:"peak_in_flight"`
	PeakHeld        int     `json:"peak_held"` // stock + orders

	BoughtADay float64 `json:"-"` // over the length of the run
}

const (
	// AfterLast is how many seconds a run continues at least after the last request.
	AfterLast = 600.0
	// A run calls Progress and checks ctx once in this number of steps.
	progressEvery = 1024
)

// monday is second 0 of simulated time by default.
var monday = time.Date(2001, time.September, 10, 0, 0, 0, 0, time.UTC)

// Run replays the demand from second 0 until 600 s after the last arrival, or until Length if that is later. Equal
// Simulations have equal Results. When ctx ends, Run returns the error of ctx.
func (s Simulation) Run(ctx context.Context) (Result, error) {
	if len(s.Arrivals) == 0 {
		return Result{}, nil
	}
	if s.Start.IsZero() {
		s.Start = monday
	}
	random := rand.New(rand.NewPCG(s.Seed, 0)) //nolint:gosec // G404: a model, and repeatable
	r := &replay{Simulation: s, random: random, learned: NewLearned(s.Params)}
	length := max(s.Length, s.Arrivals[len(s.Arrivals)-1]+AfterLast)
	for i, steps := 0, 0; i <= len(s.Arrivals); i++ {
		next := length
		if i < len(s.Arrivals) {
			next = s.Arrivals[i]
		}
		for r.step(next) {
			if steps++; steps%progressEvery > 0 {
				continue
			}
			if err := ctx.Err(); err != nil {
				return Result{}, err
			}
			if s.Progress != nil {
				s.Progress(next / length)
			}
		}
		if i < len(s.Arrivals) {
			r.request(next)
		}
	}
	return r.finish(length), nil
}

// Draw draws the lead time of a solve, in seconds, and whether it fails.
func (p *Solves) Draw(random *rand.Rand) (lead float64, fails bool) {
	factor := math.Exp(p.Sigma * random.NormFloat64())
	return p.Median.Seconds() * min(max(factor, 1.0/3), 20.0/3), random.Float64() < p.Fail
}

// Fixed returns the same simulation with a fixed depth.
func (s Simulation) Fixed(depth int) Simulation {
	s.Params.Adaptive, s.Params.Depth, s.Params.Min = false, depth, 0
	return s
}

// Adaptive returns the same simulation with the adaptive policy and this miss_cost. So that the depth of
// a fixed target does not limit the policy, the new depth is at least the number of tasks that the
// provider solves at the same time.
func (s Simulation) Adaptive(missCost float64) Simulation {
	if !s.Params.Adaptive {
		s.Params.Depth = max(s.Params.Depth, s.Concurrency)
	}
	s.Params.Adaptive, s.Params.MissCost = true, missCost
	return s
}
