package refill

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"poold/internal/pool"
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
var ladder = []int{1, 2, 4, 8, 16, 32, 64}

// shadow is what another way of refilling would have done with a target's
// demand: replays that live on the real requests and lead times.
type shadow struct {
	adaptive *replay   // of a target with a fixed depth; else nil
	fixed    []*replay // of an adaptive one, by depth
	calendar calendar
	born     time.Time
	warmedUp bool // it has lived for a usable life: before, its stock is not what it would be
	// since and next are where the figures stood when counting began; next takes
	// the place of since when it is old enough.
	since, next mark
}

// mark is where the figures stood at a moment.
type mark struct {
	at   time.Time
	real pool.Figures
	runs []Result
}

// newShadow begins with an empty stock. restore gives the adaptive policy its
// memory.
func newShadow(m *memory, concurrency int, at time.Time, restore func(Knobs) *Mind) *shadow {
	s := &shadow{calendar: calendar{windows: m.calendar.windows}, born: at}
	begin := func(mind *Mind) *replay {
		r := newReplay(mind, concurrency, sinceEpoch(at))
		r.patience = waitersPatience.Seconds()
		r.windows = &s.calendar
		return r
	}
	k := m.own
	k.Adaptive = !k.Adaptive
	if k.Adaptive {
		k.Depth = max(k.Depth, concurrency)
		s.adaptive = begin(restore(k))
	} else {
		k.Min = 0
		for _, k.Depth = range ladder {
			s.fixed = append(s.fixed, begin(NewMind(k)))
		}
	}
	s.begin(at, m.figures)
	return s
}

// runs are all its replays.
func (s *shadow) runs() []*replay {
	if s.adaptive != nil {
		return []*replay{s.adaptive}
	}
	return s.fixed
}

// begin begins counting.
func (s *shadow) begin(at time.Time, real pool.Figures) {
	s.since = s.mark(at, real)
	s.next = s.mark(at, real)
}

// dozes reports whether the adaptive policy has let go of what it had learned.
func (s *shadow) dozes() bool { return s.adaptive != nil && s.adaptive.mind.table == nil }

func (s *shadow) doze() {
	s.adaptive.mind.table = nil
	s.adaptive.mind.wished = 0
}

// wake gives back what doze took, as it was saved.
func (s *shadow) wake(restore func(Knobs) *Mind) {
	mind := s.adaptive.mind
	if saved := restore(mind.knobs); saved.scale == mind.scale {
		mind.table = saved.table
	} else { // lead times have changed by much: its times mean nothing any more
		mind.table = newTable()
	}
	mind.sampled = mind.now
}

func (s *shadow) mark(at time.Time, real pool.Figures) mark {
	m := mark{at: at, real: real}
	for _, r := range s.runs() {
		m.runs = append(m.runs, r.result)
	}
	return m
}

// learn lets the shadow live from the last look to this one, with the requests
// that were noticed spread over that time and solves as they are for real. What
// happens while an operator has paused the buying counts for nobody.
func (s *shadow) learn(m *memory, concurrency int, at time.Time, requests int, stock *pool.Stock) {
	s.calendar.posted, s.calendar.read = m.calendar.posted, m.calendar.read
	var was mark
	if stock.Paused {
		was = s.mark(at, m.figures)
	}
	s.live(m, concurrency, at, requests, stock.Figures)
	switch {
	case !s.warmedUp && at.Sub(s.born) >= m.own.Usable:
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

func (s *shadow) live(m *memory, concurrency int, at time.Time, requests int, figures pool.Figures) {
	real := &m.solves
	solve := func(float64) (float64, bool) {
		fails := real.streak >= failuresInARow || rand.Float64() < real.fails //nolint:gosec // G404: a model
		return float64(real.sorted[rand.IntN(real.many)]), fails              //nolint:gosec // G404: a model
	}
	// As many callers wait for a token as do for real.
	waiters := float64(figures.Waited) / float64(max(1, figures.Waited+figures.Misses))
	begin, end := sinceEpoch(m.looked), sinceEpoch(at)
	for _, r := range s.runs() {
		r.solve, r.concurrency = solve, concurrency
		for n := range requests {
			at := begin + (end-begin)*float64(n+1)/float64(requests)
			r.pass(at)
			r.request(at, rand.Float64() < waiters) //nolint:gosec // G404: a model
		}
		r.pass(end)
	}
}

// skip leaves out what happened between two marks.
func (m *mark) skip(was, is mark) {
	m.real.Hits += is.real.Hits - was.real.Hits
	m.real.Waited += is.real.Waited - was.real.Waited
	m.real.Misses += is.real.Misses - was.real.Misses
	m.real.Solved += is.real.Solved - was.real.Solved
	for i := range m.runs {
		m.runs[i].Requests += is.runs[i].Requests - was.runs[i].Requests
		m.runs[i].Hits += is.runs[i].Hits - was.runs[i].Hits
		m.runs[i].Bought += is.runs[i].Bought - was.runs[i].Bought
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
}

// tell sums up; nil where there is too little to tell.
func (s *shadow) tell(at time.Time, figures pool.Figures) *Shadow {
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
	// The first depth that is as good, else the last one.
	for i, r := range s.runs() {
		before := s.since.runs[i]
		requests := r.result.Requests - before.Requests
		told.Adaptive, told.Depth = r.mind.knobs.Adaptive, r.mind.knobs.Depth
		told.ShadowHitRate = float64(r.result.Hits-before.Hits) / float64(max(1, requests))
		told.ShadowBought = int64(r.result.Bought - before.Bought)
		if told.asGood() {
			break
		}
	}
	return told
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
