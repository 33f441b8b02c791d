package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

const (
	// After shadowLife without a request, the shadow of a fixed target frees its table.
	shadowLife = time.Hour
	// A summary covers a period that ends now and lasts one to two times shadowSpan.
	shadowSpan = 12 * time.Hour
	// waitersPatience is how long a patient caller of a shadow waits for a token. waitersPatience
	// equals the default wait of a real caller.
	waitersPatience = 20 * time.Second
	// With fewer than fewRequests requests there is no comparison.
	fewRequests = 50
	// A shadow counts as being as good as the target if its hit rate is at most asGood lower than the
	// target's.
	asGood = 0.005
)

// ladder contains the fixed depths with which an adaptive target is compared.
var ladder = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}

// shadow simulates other ways of refilling with a target's real requests and lead times.
type shadow struct {
	target Params
	// runs contains one replay for each simulated way of refilling. A fixed target has one replay,
	// with the adaptive policy. An adaptive target has one replay for each depth in ladder,
	// followed by one for each higher value of max_waste, ascending.
	runs     []*replay
	calendar calendar
	born     time.Time
	// warmedUp reports that the shadow has run for one usable life. After that time, the empty
	// stock at the shadow's start no longer matters.
	warmedUp     bool
	older, newer period // counts for the summary; after shadowSpan, newer becomes older
}

// period contains the counts of one part of a summary's time span.
type period struct {
	began time.Time
	real  Figures
	runs  []tally
}

// tally counts the outcomes of one run in a period.
type tally struct{ requests, hits, bought int }

// newShadow returns a shadow with empty stocks. The function restore returns the State for the
// adaptive policy of a fixed target's shadow. All runs of an adaptive target share the target's
// learned state.
func newShadow(t *Tracker, concurrency int, at time.Time, restore func(Params) *State) *shadow {
	s := &shadow{target: t.state.params, calendar: calendar{windows: t.calendar.windows}, born: at}
	add := func(state *State) {
		r := newReplay(state, concurrency, sinceEpoch(at))
		r.patience = waitersPatience.Seconds()
		r.windows = &s.calendar
		s.runs = append(s.runs, r)
	}
	k := s.target
	if k.Adaptive = !k.Adaptive; k.Adaptive {
		k.Depth = max(k.Depth, concurrency)
		add(restore(k))
	} else {
		k.Min = 0
		for _, k.Depth = range ladder {
			add(t.state.follower(k))
		}
		k = s.target
		for _, k.MaxWaste = range higherPrices(k.MaxWaste) {
			add(t.state.follower(k))
		}
	}
	s.begin(at)
	return s
}

func (s *shadow) begin(at time.Time) { s.older, s.newer = s.period(at), s.period(at) }

func (s *shadow) period(at time.Time) period {
	return period{began: at, runs: make([]tally, len(s.runs))}
}

// adaptive returns the State of a fixed target's adaptive policy; nil for an adaptive
// target.
func (s *shadow) adaptive() *State {
	if s.target.Adaptive {
		return nil
	}
	return s.runs[0].state
}

// loaded reports whether the adaptive policy of a fixed target has its table. The result
// is true for an adaptive target.
func (s *shadow) loaded() bool { return s.target.Adaptive || s.adaptive().learned.table != nil }

func (s *shadow) unload() {
	s.adaptive().learned.table = nil
	s.adaptive().planned = 0
}

func (s *shadow) load(restore func(Params) *State) {
	state := s.adaptive()
	if saved := restore(state.params); saved.learned.scale == state.learned.scale {
		state.learned.table = saved.learned.table
	} else { // after a change of the lead times, the table's times are no longer valid
		state.learned.table = new(table)
	}
	state.learned.sampled = state.now
}

// learn advances the shadow from the target's last look to the current look. learn spreads the new
// requests over the time between the looks, and calls the function request to add each request to
// the target's State. While an operator has paused buying, neither the target's outcomes nor the
// shadow's outcomes count.
func (s *shadow) learn(t *Tracker, concurrency int, at time.Time, requests int, stock *Stock, request func(n int)) {
	s.live(t, concurrency, at, requests, stock.Figures, request)
	for i, r := range s.runs {
		if n := &s.newer.runs[i]; !stock.Paused {
			n.requests += r.result.Requests
			n.hits += r.result.Hits
			n.bought += r.result.Bought
		}
		r.result = Result{}
	}
	if now, then, n := stock.Figures, t.figures, &s.newer.real; !stock.Paused {
		n.Hits += now.Hits - then.Hits
		n.Waited += now.Waited - then.Waited
		n.Misses += now.Misses - then.Misses
		n.Solved += now.Solved - then.Solved
	}
	if !s.warmedUp && at.Sub(s.born) >= s.target.Usable {
		s.warmedUp = true
		s.begin(at)
	}
	if at.Sub(s.newer.began) >= shadowSpan {
		s.older, s.newer = s.newer, s.period(at)
	}
}

func (s *shadow) live(t *Tracker, concurrency int, at time.Time, requests int, figures Figures, request func(n int)) {
	real := &t.state.learned.solves
	solve := func(*replay) (float64, bool) {
		fails := real.streak >= FailuresInARow || rand.Float64() < real.fails //nolint:gosec // G404: a model
		return float64(real.sorted[rand.IntN(len(real.sorted))]), fails       //nolint:gosec // G404: a model
	}
	// The share of callers that wait for a token is the same in the shadow as in reality.
	waiters := float64(figures.Waited) / float64(max(1, figures.Waited+figures.Misses))
	begin, end := sinceEpoch(t.looked), sinceEpoch(at)
	for _, r := range s.runs {
		r.solve, r.concurrency = solve, concurrency
		if r.state.follows {
			r.state.learned = t.state.learned // Tracker.Load may have replaced the learned state
		}
	}
	// The runs advance before each request, because a follower must not know future requests.
	for n := range requests {
		at := begin + (end-begin)*float64(n+1)/float64(requests)
		s.pass(at)
		request(n)
		for _, r := range s.runs {
			r.request(at, rand.Float64() < waiters) //nolint:gosec // G404: a model
		}
	}
	s.pass(end)
}

func (s *shadow) pass(at float64) {
	for _, r := range s.runs {
		r.pass(at)
		r.waits = r.waits[:0] // a shadow does not use the list, which would grow without limit
	}
}

func (s *shadow) total(run int) tally {
	a, b := s.older.runs[run], s.newer.runs[run]
	return tally{requests: a.requests + b.requests, hits: a.hits + b.hits, bought: a.bought + b.bought}
}

// Shadow compares a target's refilling with the other way of refilling, over the last hours.
type Shadow struct {
	Since    time.Time
	Span     time.Duration // duration of the comparison
	Requests int64         // number of real hits, waits and misses
	HitRate  float64
	Bought   int64 // number of tokens that landed

	Adaptive      bool // whether the other way is the adaptive policy
	Depth         int  // fixed depth of the other way, unless Adaptive is set
	ShadowHitRate float64
	ShadowBought  int64

	Need *Need // set for an adaptive target below its wanted hit rate
}

// summary returns the comparison; nil after too few requests.
func (s *shadow) summary(at time.Time) *Shadow {
	a, b := s.older.real, s.newer.real
	hits := a.Hits + b.Hits
	outcomes := hits + a.Waited + b.Waited + a.Misses + b.Misses
	c := &Shadow{
		Since: s.older.began, Span: at.Sub(s.older.began), Requests: outcomes, HitRate: float64(hits) / float64(max(1, outcomes)),
		Bought: a.Solved + b.Solved,
	}
	if !s.warmedUp || outcomes < fewRequests || c.Bought <= 0 {
		return nil
	}
	if s.target.Adaptive && c.HitRate < s.target.HitRate {
		c.Need = newNeed(&s.target, c.HitRate, s.price(c.HitRate))
	}
	// The comparison uses the first depth that is as good as the target, or else the last depth.
	for i, r := range s.runs[:min(len(s.runs), len(ladder))] {
		c.Adaptive, c.Depth = r.state.params.Adaptive, r.state.params.Depth
		c.ShadowHitRate, c.ShadowBought = s.hitRate(i), int64(s.total(i).bought)
		if c.asGood() {
			break
		}
	}
	return c
}

func (s *shadow) hitRate(run int) float64 {
	n := s.total(run)
	return float64(n.hits) / float64(max(1, n.requests))
}

// price returns the max_waste that reaches the wanted hit rate; 0 if no run reaches it.
// The argument rate is the hit rate at the target's current max_waste.
func (s *shadow) price(rate float64) float64 {
	price := s.target.MaxWaste
	for i := len(ladder); i < len(s.runs); i++ {
		next, dearer := s.hitRate(i), s.runs[i].state.params.MaxWaste
		if next >= s.target.HitRate {
			return interpolatePrice(price, dearer, rate, next, s.target.HitRate)
		}
		price, rate = dearer, next
	}
	return 0
}

// asGood reports whether the shadow has about as many hits as the target. A difference of two
// requests is treated as chance.
func (s *Shadow) asGood() bool {
	return s.ShadowHitRate >= s.HitRate-asGood-2/float64(max(1, s.Requests))
}

// String returns the comparison as a sentence for the operator.
func (s *Shadow) String() string {
	other := "adaptive"
	switch {
	case s.Adaptive:
	case !s.asGood():
		other = fmt.Sprintf("no fixed depth up to %d is as good: that one", s.Depth)
	default:
		other = fmt.Sprintf("a fixed depth of %d", s.Depth)
	}
	share := 100 * (float64(s.ShadowBought)/float64(s.Bought) - 1)
	than := "as many"
	switch {
	case share >= 0.5:
		than = fmt.Sprintf("%.0f %% more", share)
	case share <= -0.5:
		than = fmt.Sprintf("%.0f %% fewer", math.Abs(share))
	}
	span := fmt.Sprintf("%.0f h", s.Span.Hours())
	if s.Span < 2*time.Hour {
		span = fmt.Sprintf("%.0f min", s.Span.Minutes())
	}
	return fmt.Sprintf("%s would have bought %s at %.1f %% hits (in truth %d at %.1f %%, in %s)",
		other, than, 100*s.ShadowHitRate, s.Bought, 100*s.HitRate, span)
}
