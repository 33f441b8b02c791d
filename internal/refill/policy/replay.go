package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// leastRecheck is the minimum time in seconds between two decisions without an event. leastRecheck ensures
// that virtual time advances.
const leastRecheck = 1e-3

// order is a solve in flight.
type order struct {
	placed, ends float64
	fails        bool
}

// replay is a Simulation that is running, with a stock and a provider, in seconds since its start. Calls of step and
// request must be in chronological order.
type replay struct {
	Simulation

	random   *rand.Rand // draws the solves
	learned  *Learned
	leads    []time.Duration
	failures int
	now      float64
	decides  float64   // time of the next decision without an event
	tokens   []float64 // expiry times of the tokens, ascending
	orders   []order   // in the order of placing
	result   Result
}

// step runs the next event if the event is due before the time end. Otherwise the result is false. Of simultaneous
// events, a landing is first, then an expiry, then a decision.
func (r *replay) step(end float64) bool {
	lands, expires, first := math.Inf(1), math.Inf(1), 0
	for i := range r.orders {
		if r.orders[i].ends < lands {
			lands, first = r.orders[i].ends, i
		}
	}
	if len(r.tokens) > 0 {
		expires = r.tokens[0]
	}
	at := min(lands, expires, r.decides)
	if at >= end {
		return false
	}
	r.now = at
	switch at {
	case lands:
		r.completed(first)
	case expires:
		r.tokens = r.tokens[1:]
		r.result.Expired++
	}
	r.decide()
	return true
}

func (r *replay) at() time.Time { return r.Start.Add(time.Duration(r.now * float64(time.Second))) }

// request simulates one request for a token at the time at.
func (r *replay) request(at float64) {
	r.now = at
	r.result.Requests++
	if len(r.tokens) > 0 {
		r.tokens = r.tokens[1:]
		r.result.Hits++
	}
	r.decide()
}

func (r *replay) completed(i int) {
	o := r.orders[i]
	r.orders = slices.Delete(r.orders, i, i+1)
	if o.fails {
		r.result.Failed++
		r.failures++
		return
	}
	r.result.Bought++
	r.failures = 0
	r.leads = append([]time.Duration{inSeconds(o.ends - o.placed)}, r.leads[:min(len(r.leads), 47)]...)
	r.tokens = append(r.tokens, r.now+r.Params.Usable.Seconds())
}

// decide gets the policy's decision and places its orders, like the daemon's worker.
func (r *replay) decide() {
	at := r.at()
	lead := r.learned.Lead(r.Params, at).Seconds()
	dying, _ := slices.BinarySearch(r.tokens, r.now+lead)
	n := &r.result
	s := Snapshot{
		Lead: inSeconds(lead), Leads: r.leads, FailedInARow: r.failures,
		Totals: Totals{Requests: int64(n.Requests), Hits: int64(n.Hits), Solved: int64(n.Bought), Failed: int64(n.Failed),
			Expired: int64(n.Expired)},
		Fresh: len(r.tokens), Outliving: len(r.tokens) - dying, Orders: len(r.orders),
		NextExpiry: -1, NextAgeing: -1,
	}
	if len(r.tokens) > 0 {
		s.NextExpiry = inSeconds(r.tokens[0] - r.now)
	}
	if dying < len(r.tokens) {
		s.NextAgeing = inSeconds(r.tokens[dying] - r.now - lead)
	}
	r.learned.Learn(r.Params, &s, at)
	d := Decide(r.Params, r.learned, &s, at)
	placed := min(d.Order, r.Concurrency-len(r.orders))
	if d.Order > 0 {
		r.learned.Ordered(r.Params, d.Order, placed, at)
	}
	for range placed {
		lead, fails := r.Solves.Draw(r.random)
		r.orders = append(r.orders, order{placed: r.now, ends: r.now + lead, fails: fails})
	}
	r.result.PeakInFlight = max(r.result.PeakInFlight, len(r.orders))
	r.result.PeakHeld = max(r.result.PeakHeld, len(r.tokens)+len(r.orders))
	if r.Watch != nil {
		r.Watch(r.now, len(r.tokens), len(r.orders), &r.result)
	}
	r.decides = math.Inf(1)
	if d.Next != Never {
		r.decides = r.now + max(d.Next.Seconds(), leastRecheck)
	}
}

// finish returns the result of a run of this length.
func (r *replay) finish(length float64) Result {
	s := r.result
	s.Misses = s.Requests - s.Hits
	s.BoughtADay = float64(s.Bought) / length * daySeconds
	s.HitRate = float64(s.Hits) / float64(s.Requests)
	s.WastePerRequest = float64(s.Expired) / float64(s.Requests)
	if s.Hits > 0 {
		s.BoughtPerServed = float64(s.Bought) / float64(s.Hits)
	}
	return s
}
