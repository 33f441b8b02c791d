package refill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/pool"
)

// Solves is a model of a provider: lognormal lead times, cut to [Least, Most],
// and a share of solves that fail, each after its lead time.
type Solves struct {
	Median, Least, Most time.Duration
	Sigma               float64
	Fail                float64

	// Drift, if set, multiplies the lead time of an order placed so long after the
	// start, and Out, if set, tells whether such an order fails.
	Drift func(since time.Duration) float64
	Out   func(since time.Duration) bool
}

// DefaultSolves is the provider of design and contract: 18 s in the median, 7 %
// fail.
func DefaultSolves() Solves {
	return Solves{Median: 18 * time.Second, Sigma: 0.45, Least: 6 * time.Second, Most: 120 * time.Second, Fail: 0.07}
}

// ErrLead says that a lead-time model cannot be used.
var ErrLead = errors.New("lead times are lognormal:MEDIAN,SIGMA,LEAST,MOST, such as lognormal:18s,0.45,6s,120s")

// ParseLead reads lognormal:MEDIAN,SIGMA,LEAST,MOST.
func (p *Solves) ParseLead(text string) error {
	const mostSigma = 5
	numbers, ok := strings.CutPrefix(text, "lognormal:")
	parts := strings.Split(numbers, ",")
	if !ok || len(parts) != 4 {
		return fmt.Errorf("%w; not %q", ErrLead, text)
	}
	sigma, err := strconv.ParseFloat(parts[1], 64)
	if err != nil || !(sigma >= 0 && sigma <= mostSigma) {
		return fmt.Errorf("%w; sigma is from 0 to %d", ErrLead, mostSigma)
	}
	var least, median, most time.Duration
	for i, d := range []*time.Duration{&median, nil, &least, &most} {
		if d == nil {
			continue // sigma
		}
		if *d, err = time.ParseDuration(parts[i]); err != nil {
			return fmt.Errorf("%w; %q is no time with a unit", ErrLead, parts[i])
		}
	}
	if least <= 0 || least > median || median > most {
		return fmt.Errorf("%w; 0 < least <= median <= most", ErrLead)
	}
	p.Least, p.Median, p.Most, p.Sigma = least, median, most, sigma
	return nil
}

// Simulation is a replay of demand against a policy in virtual time.
type Simulation struct {
	Knobs       Knobs
	Solves      Solves
	Concurrency int           // most orders at once
	Wait        time.Duration // that a request waits for a token; 0 = it is lost at once
	Arrivals    []float64     // seconds from the start, ascending
	Seed        uint64
	// Progress, if set, is called now and then with the share that is done.
	Progress func(done float64)
}

// Result is what came of it; the JSON of `poold simulate`.
type Result struct {
	Requests        int     `json:"requests"`
	Hits            int     `json:"hits"` // found a token at once
	HitRate         float64 `json:"hit_rate"`
	Misses          int     `json:"misses"` // found none, also not by waiting
	Waited          int     `json:"waited"` // got a token that landed while they waited
	WaitP50         float64 `json:"wait_p50_s"`
	WaitP95         float64 `json:"wait_p95_s"`
	WaitP99         float64 `json:"wait_p99_s"`
	Bought          int     `json:"bought"` // tokens that landed: a failed solve costs nothing
	Served          int     `json:"served"`
	Expired         int     `json:"expired"`
	Failed          int     `json:"failed"`
	WastePerRequest float64 `json:"waste_per_request"`
	BoughtPerServed float64 `json:"bought_per_served"`
	PeakInFlight    int     `json:"peak_in_flight"`
	PeakStock       int     `json:"peak_stock"`
	PeakHeld        int     `json:"peak_held"`    // stock + orders - callers waiting
	StaleServed     int     `json:"stale_served"` // handed out after their usable life: always 0
}

const (
	// afterLast is how many seconds a run goes on after the last request.
	afterLast = 600.0
	// A wish that is to be made anew at once is made leastLook seconds later, so
	// that time passes.
	leastLook = 1e-3
	// Every progressEvery requests Progress is called, and ctx looked at.
	progressEvery = 1024
)

// epoch is when simulated time begins.
var epoch = time.Unix(1_000_000_000, 0).UTC()

// order is a solve under way.
type order struct {
	placed, ends float64
	fails        bool
}

// replay is the state of a simulation.
type replay struct {
	*Simulation
	mind    *Mind
	random  *rand.Rand
	now     float64
	next    int       // arrival
	look    float64   // when the policy wants to be asked
	tokens  []float64 // when they expire, oldest first
	orders  []order   // by start
	waiting []float64 // since when callers wait, first come first
	waits   []float64 // how long those that were served waited
	stock   pool.Stock
	result  Result
}

// what happens next in a replay; at the same moment the first one does.
const (
	asked = iota
	landed
	expired
	gaveUp
	looked
)

// Run replays the demand, from the first arrival to 600 s after the last. The
// same Simulation gives the same Result. It ends early with the error of ctx.
func (s Simulation) Run(ctx context.Context) (Result, error) {
	r := &replay{Simulation: &s, mind: NewMind(s.Knobs)}
	r.random = rand.New(rand.NewPCG(s.Seed, 0)) //nolint:gosec // G404: a model, and repeatable
	if len(s.Arrivals) == 0 {
		return r.result, nil
	}
	r.look = s.Arrivals[0]
	end := s.Arrivals[len(s.Arrivals)-1] + afterLast
	for steps := 0; ; steps++ {
		at, what, i := r.soonest()
		if at > end {
			break
		}
		r.now = at
		r.happens(what, i)
		r.decide()
		if steps%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return Result{}, err
			}
			if s.Progress != nil {
				s.Progress(float64(r.next) / float64(len(s.Arrivals)))
			}
		}
	}
	return r.finish(), nil
}

// soonest says what happens next, and to which order.
func (r *replay) soonest() (at float64, what, i int) {
	at, what = r.look, looked
	consider := func(t float64, kind int) {
		if t < at || t == at && kind < what {
			at, what = t, kind
		}
	}
	if r.next < len(r.Arrivals) {
		consider(r.Arrivals[r.next], asked)
	}
	if len(r.tokens) > 0 {
		consider(r.tokens[0], expired)
	}
	if len(r.waiting) > 0 {
		consider(r.waiting[0]+r.Wait.Seconds(), gaveUp)
	}
	for n := range r.orders {
		if t := r.orders[n].ends; t < at || t == at && landed < what {
			at, what, i = t, landed, n
		}
	}
	return at, what, i
}

func (r *replay) happens(what, i int) {
	switch what {
	case asked:
		r.next++
		r.request()
	case landed:
		r.completed(i)
	case expired:
		r.tokens = r.tokens[1:]
		r.result.Expired++
		r.mind.Expired(r.at(), 1)
	case gaveUp:
		r.waiting = r.waiting[1:]
		r.result.Misses++
	}
}

func (r *replay) at() time.Time { return epoch.Add(time.Duration(r.now * float64(time.Second))) }

func (r *replay) request() {
	r.result.Requests++
	r.mind.Request(r.at())
	switch {
	case len(r.tokens) > 0:
		if r.tokens[0] < r.now {
			r.result.StaleServed++
		}
		r.tokens = r.tokens[1:]
		r.result.Hits++
	case r.Wait > 0:
		r.waiting = append(r.waiting, r.now)
	default:
		r.result.Misses++
	}
}

func (r *replay) completed(i int) {
	o := r.orders[i]
	r.orders = slices.Delete(r.orders, i, i+1)
	if o.fails {
		r.result.Failed++
		r.mind.Failed(r.at())
		return
	}
	r.result.Bought++
	r.mind.Landed(r.at(), inSeconds(o.ends-o.placed))
	if len(r.waiting) > 0 {
		r.waits = append(r.waits, r.now-r.waiting[0])
		r.waiting = r.waiting[1:]
		r.result.Waited++
		return
	}
	r.tokens = append(r.tokens, r.now+r.Knobs.Usable.Seconds())
	r.result.PeakStock = max(r.result.PeakStock, len(r.tokens))
}

// decide asks the policy and places what it says, as the daemon's worker does.
func (r *replay) decide() {
	at := r.at()
	w := r.mind.Wish(at, 0)
	lead := w.Lead.Seconds()
	dying, _ := slices.BinarySearch(r.tokens, r.now+lead)
	s := &r.stock
	s.Fresh, s.Outliving, s.Orders, s.Waiting = len(r.tokens), len(r.tokens)-dying, len(r.orders), len(r.waiting)
	s.NextExpiry, s.NextLook = -1, -1
	if len(r.tokens) > 0 {
		s.NextExpiry = inSeconds(r.tokens[0] - r.now)
	}
	if dying < len(r.tokens) {
		s.NextLook = inSeconds(r.tokens[dying] - r.now - lead)
	}
	s.OrderAges = s.OrderAges[:0]
	for i := range r.orders {
		s.OrderAges = append(s.OrderAges, inSeconds(r.now-r.orders[i].placed))
	}
	d := r.mind.Decide(at, w, s)
	for range min(d.Order, r.Concurrency-len(r.orders)) {
		r.place()
	}
	r.result.PeakHeld = max(r.result.PeakHeld, len(r.tokens)+len(r.orders)-len(r.waiting))
	r.look = math.Inf(1)
	if d.Look != Never {
		r.look = r.now + max(d.Look.Seconds(), leastLook)
	}
}

func (r *replay) place() {
	p := &r.Solves
	since := inSeconds(r.now)
	lead := p.Median.Seconds() * math.Exp(p.Sigma*r.random.NormFloat64())
	lead = min(max(lead, p.Least.Seconds()), p.Most.Seconds())
	if p.Drift != nil {
		lead *= p.Drift(since)
	}
	fails := r.random.Float64() < p.Fail
	if p.Out != nil && p.Out(since) {
		fails = true
	}
	r.orders = append(r.orders, order{placed: r.now, ends: r.now + lead, fails: fails})
	r.mind.Placed(r.at())
	r.result.PeakInFlight = max(r.result.PeakInFlight, len(r.orders))
}

func (r *replay) finish() Result {
	s := &r.result
	s.Misses += len(r.waiting)
	s.Served = s.Hits + s.Waited
	s.HitRate = float64(s.Hits) / float64(s.Requests)
	s.WastePerRequest = float64(s.Expired) / float64(s.Requests)
	if s.Served > 0 {
		s.BoughtPerServed = float64(s.Bought) / float64(s.Served)
	}
	slices.Sort(r.waits)
	s.WaitP50, s.WaitP95, s.WaitP99 = below(r.waits, 0.5), below(r.waits, 0.95), below(r.waits, 0.99)
	return *s
}

// below is the value that the share f of a sorted list does not exceed, 0 for an
// empty one.
func below(sorted []float64, f float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(f*float64(len(sorted))))-1)]
}
