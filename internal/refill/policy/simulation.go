package policy

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// Solves is a model of a provider. Lead times are lognormal, from a third of the median to twenty thirds. A share of the
// solves fails, each at the end of its lead time.
type Solves struct {
	Median time.Duration
	Sigma  float64
	Fail   float64
}

// DefaultSolves returns the provider of docs/refill.md: lead times from 6 to 120 s, and 7 % failing solves.
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
	// Progress is optional. It is called from time to time with the completed share of the
	// requests.
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

	// BoughtADay includes the silence after the last request, until the end of Length.
	BoughtADay float64 `json:"-"`
}

const (
	// afterLast is how many seconds a run continues after the last request.
	afterLast = 600.0
	// A run calls Progress and checks ctx once in this number of steps.
	progressEvery = 1024
)

// monday is second 0 of simulated time by default.
var monday = time.Date(2001, time.September, 10, 0, 0, 0, 0, time.UTC)

// Run replays the demand until 600 s after the last arrival. Run begins at the first arrival or, if
// there are warm windows, at second 0. If Length is longer, the run continues without requests.
// This silence counts only for BoughtADay, because a fixed depth also buys tokens without requests.
// BoughtADay counts the tokens that land within Length. Equal Simulations have equal Results. When
// ctx ends, Run returns the error of ctx.
func (s Simulation) Run(ctx context.Context) (Result, error) {
	if len(s.Arrivals) == 0 {
		return Result{}, nil
	}
	begin, last := s.Arrivals[0], s.Arrivals[len(s.Arrivals)-1]
	if len(s.Params.Warm) > 0 {
		begin = 0 // a window may precede the first request
	}
	random := rand.New(rand.NewPCG(s.Seed, 0)) //nolint:gosec // G404: a model, and repeatable
	r := newReplay(s.Params, s.Concurrency, begin)
	if r.start = s.Start; s.Start.IsZero() {
		r.start = monday
	}
	r.solve = func() (float64, bool) { return s.Solves.Draw(random) }
	length := max(s.Length, last, afterLast)
	steps, bought := 0, 0 // bought is the number of tokens that landed within Length
	until := func(limit float64) error {
		for r.step(limit) {
			if r.now < begin+length {
				bought = r.result.Bought
			}
			if s.Watch != nil {
				s.Watch(r.now, len(r.tokens), len(r.orders), &r.result)
			}
			if steps++; steps%progressEvery > 0 {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if s.Progress != nil {
				s.Progress(float64(r.result.Requests) / float64(len(s.Arrivals)))
			}
		}
		return nil
	}
	for _, at := range s.Arrivals {
		if err := until(at); err != nil {
			return Result{}, err
		}
		r.request(at)
		if s.Watch != nil {
			s.Watch(r.now, len(r.tokens), len(r.orders), &r.result)
		}
	}
	if err := until(last + afterLast); err != nil {
		return Result{}, err
	}
	result := r.finish()
	if err := until(begin + length); err != nil {
		return Result{}, err
	}
	result.BoughtADay = float64(bought) / length * daySeconds
	return result, nil
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

// Adaptive returns the same simulation with the adaptive policy and this miss_cost. The depth of a
// fixed target does not limit the adaptive policy: the new depth is at least the number of tasks that
// the provider solves at the same time.
func (s Simulation) Adaptive(missCost float64) Simulation {
	if !s.Params.Adaptive {
		s.Params.Depth = max(s.Params.Depth, s.Concurrency)
	}
	s.Params.Adaptive, s.Params.MissCost = true, missCost
	return s
}
