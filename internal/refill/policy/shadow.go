package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

const (
	// shadowLife: where nobody has asked for so long, the adaptive policy's shadow
	// lets go of what it has learned. It counts on.
	shadowLife = time.Hour
	// shadowSpan: what a shadow tells is of the last one to two of it.
	shadowSpan = 12 * time.Hour
	// waitersPatience is how long those of its callers wait that do, as a caller
	// does who names no time.
	waitersPatience = 20 * time.Second
	// fewRequests say nothing about a policy.
	fewRequests = 50
	// asGood is how much worse a fixed depth's hit rate may be to count as reaching
	// that of the adaptive policy.
	asGood = 0.005
)

// ladder holds the fixed depths that an adaptive target is compared with.
var ladder = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}

// shadow is what another way of refilling would have done with a target's
// demand: replays that live on the real requests and lead times.
type shadow struct {
	own       Params    // of the target
	adaptive  *replay   // of a target with a fixed depth; else nil
	runs      []*replay // that one, or of an adaptive target by depth, and those that are
	dearer    []*replay // with other values of max_waste, ascending
	workspace workspace // of those that are dearer, by turns
	calendar  calendar
	born      time.Time
	warmedUp  bool // it has lived for a usable life: before, its stock is not what it would be
	// since and next are where the figures stood when counting began; next takes
	// the place of since when it is old enough.
	since, next mark
}

// mark is where the figures stood at a moment.
type mark struct {
	at   time.Time
	real Figures
	runs []tally
}

// tally is what a run has come to.
type tally struct{ requests, hits, bought int }

func (r *replay) tally() tally {
	return tally{requests: r.result.Requests, hits: r.result.Hits, bought: r.result.Bought}
}

// newShadow begins with an empty stock. restore gives the adaptive policy of a fixed
// target its memory; those of an adaptive one share the target's.
func newShadow(t *Tracker, concurrency int, at time.Time, restore func(Params) *State) *shadow {
	s := &shadow{own: t.state.params, calendar: calendar{windows: t.calendar.windows}, born: at}
	begin := func(state *State) *replay {
		r := newReplay(state, concurrency, sinceEpoch(at))
		r.patience = waitersPatience.Seconds()
		r.windows = &s.calendar
		s.runs = append(s.runs, r)
		return r
	}
	k := t.state.params
	k.Adaptive = !k.Adaptive
	if k.Adaptive {
		k.Depth = max(k.Depth, concurrency)
		s.adaptive = begin(restore(k))
	} else {
		k.Min = 0
		for _, k.Depth = range ladder {
			begin(t.state.follower(k))
		}
		k = t.state.params
		for _, k.MaxWaste = range dearer(k.MaxWaste) {
			state := t.state.follower(k)
			state.workspace = &s.workspace
			s.dearer = append(s.dearer, begin(state))
		}
	}
	s.begin(at, t.figures)
	return s
}

// begin begins counting.
func (s *shadow) begin(at time.Time, real Figures) {
	s.since = s.mark(at, real)
	s.next = s.mark(at, real)
}

// loaded reports whether the adaptive policy of a fixed target has what it had learned.
func (s *shadow) loaded() bool { return s.adaptive == nil || s.adaptive.state.learned.table != nil }

// unload lets go of it.
func (s *shadow) unload() {
	s.adaptive.state.learned.table = nil
	s.adaptive.state.planned = 0
}

// load gives back what unload took, as it was saved.
func (s *shadow) load(restore func(Params) *State) {
	state := s.adaptive.state
	if saved := restore(state.params); saved.learned.scale == state.learned.scale {
		state.learned.table = saved.learned.table
	} else { // lead times have changed by much: its times mean nothing any more
		state.learned.table = new(table)
	}
	state.learned.sampled = state.now
}

func (s *shadow) mark(at time.Time, real Figures) mark {
	m := mark{at: at, real: real}
	for _, r := range s.runs {
		m.runs = append(m.runs, r.tally())
	}
	return m
}

// learn lets the shadow live from the last look to this one, with the requests
// that were noticed spread over that time and solves as they are for real; request
// tells the target's own State of the next one. What happens while an operator has
// paused the buying counts for nobody.
func (s *shadow) learn(t *Tracker, concurrency int, at time.Time, requests int, stock *Stock, request func(n int)) {
	s.calendar.posted, s.calendar.read = t.calendar.posted, t.calendar.read
	var was mark
	if stock.Paused {
		was = s.mark(at, t.figures)
	}
	s.live(t, concurrency, at, requests, stock.Figures, request)
	switch {
	case !s.warmedUp && at.Sub(s.born) >= t.state.params.Usable:
		s.warmedUp = true
		s.begin(at, stock.Figures)
	case stock.Paused:
		is := s.mark(at, stock.Figures)
		s.since.skip(was, is)
		s.next.skip(was, is)
	}
	if at.Sub(s.next.at) >= shadowSpan {
		s.since, s.next = s.next, s.mark(at, stock.Figures)
	}
}

func (s *shadow) live(t *Tracker, concurrency int, at time.Time, requests int, figures Figures, request func(n int)) {
	real := &t.state.learned.solves
	solve := func(float64) (float64, bool) {
		fails := real.streak >= FailuresInARow || rand.Float64() < real.fails //nolint:gosec // G404: a model
		return float64(real.sorted[rand.IntN(real.many)]), fails              //nolint:gosec // G404: a model
	}
	// As many callers wait for a token as do for real.
	waiters := float64(figures.Waited) / float64(max(1, figures.Waited+figures.Misses))
	begin, end := sinceEpoch(t.looked), sinceEpoch(at)
	for _, r := range s.runs {
		r.solve, r.concurrency = solve, concurrency
		if r.state.follows {
			r.state.learned = t.state.learned // what an earlier run saved may have come
		}
	}
	// Who follows must not know of a request before it comes.
	for n := range requests {
		at := begin + (end-begin)*float64(n+1)/float64(requests)
		s.pass(at)
		request(n)
		for _, r := range s.runs {
			r.state.outdateShared()
			r.request(at, rand.Float64() < waiters) //nolint:gosec // G404: a model
		}
	}
	s.pass(end)
}

// pass lets time pass up to a moment.
func (s *shadow) pass(at float64) {
	for _, r := range s.runs {
		r.state.outdateShared()
		r.pass(at)
		r.waits = r.waits[:0] // nobody wants to know, and they would be ever more
	}
}

// skip leaves out what happened between two marks.
func (m *mark) skip(was, is mark) {
	m.real.Hits += is.real.Hits - was.real.Hits
	m.real.Waited += is.real.Waited - was.real.Waited
	m.real.Misses += is.real.Misses - was.real.Misses
	m.real.Solved += is.real.Solved - was.real.Solved
	for i := range m.runs {
		m.runs[i].requests += is.runs[i].requests - was.runs[i].requests
		m.runs[i].hits += is.runs[i].hits - was.runs[i].hits
		m.runs[i].bought += is.runs[i].bought - was.runs[i].bought
	}
}

// Shadow is what another way of refilling would have done with the demand of the
// last hours, beside what was done.
type Shadow struct {
	Since    time.Time
	Span     time.Duration // since then
	Requests int64         // that had an outcome
	HitRate  float64
	Bought   int64 // tokens that landed

	Adaptive      bool // what would have been: the adaptive policy, else
	Depth         int  // this fixed depth
	ShadowHitRate float64
	ShadowBought  int64

	Need *Need // of an adaptive target below its hit rate
}

// summary sums up; nil where there is too little to tell.
func (s *shadow) summary(at time.Time, figures Figures) *Shadow {
	was := s.since.real
	got := figures.Hits - was.Hits
	outcomes := got + figures.Waited - was.Waited + figures.Misses - was.Misses
	told := &Shadow{
		Since: s.since.at, Span: at.Sub(s.since.at), Requests: outcomes, HitRate: float64(got) / float64(max(1, outcomes)),
		Bought: figures.Solved - was.Solved,
	}
	if !s.warmedUp || outcomes < fewRequests || told.Bought <= 0 {
		return nil
	}
	if s.own.Adaptive && told.HitRate < s.own.HitRate {
		told.Need = newNeed(&s.own, told.HitRate, s.price(told.HitRate))
	}
	// The first depth that is as good, else the last one.
	for i, r := range s.runs[:len(s.runs)-len(s.dearer)] {
		told.Adaptive, told.Depth = r.state.params.Adaptive, r.state.params.Depth
		told.ShadowHitRate = s.hitRate(i)
		told.ShadowBought = int64(r.result.Bought - s.since.runs[i].bought)
		if told.asGood() {
			break
		}
	}
	return told
}

// hitRate is that of a run since counting began.
func (s *shadow) hitRate(run int) float64 {
	is, was := s.runs[run].tally(), s.since.runs[run]
	return float64(is.hits-was.hits) / float64(max(1, is.requests-was.requests))
}

// price is the max_waste that it takes to reach hit_rate, given the rate of the
// target's own; 0 where none does.
func (s *shadow) price(rate float64) float64 {
	price, first := s.own.MaxWaste, len(s.runs)-len(s.dearer)
	for i, r := range s.dearer {
		next, dearer := s.hitRate(first+i), r.state.params.MaxWaste
		if next >= s.own.HitRate {
			return between(price, dearer, rate, next, s.own.HitRate)
		}
		price, rate = dearer, next
	}
	return 0
}

// asGood reports whether the shadow has about as many hits; two requests more or
// less are chance.
func (s *Shadow) asGood() bool {
	return s.ShadowHitRate >= s.HitRate-asGood-2/float64(max(1, s.Requests))
}

// String is one sentence for an operator.
func (s *Shadow) String() string {
	who := "adaptive"
	switch {
	case s.Adaptive:
	case !s.asGood():
		who = fmt.Sprintf("no fixed depth up to %d is as good: that one", s.Depth)
	default:
		who = fmt.Sprintf("a fixed depth of %d", s.Depth)
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
		who, than, 100*s.ShadowHitRate, s.Bought, 100*s.HitRate, span)
}
