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
	// fewRequests say nothing about a policy.
	fewRequests = 50
	// asGood is how much worse a fixed depth's hit rate may be to count as reaching
	// that of the adaptive policy.
	asGood = 0.005
)

// ladder holds the fixed depths that an adaptive target is compared with.
var ladder = []int{1, 2, 4, 8, 16, 32, 64, 128}

// shadow is what another way of refilling would have done with a target's
// demand: replays that live on the real requests and lead times. An adaptive
// target is shadowed by fixed depths, any other by the adaptive policy.
type shadow struct {
	runs     []*replay
	calendar calendar
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

// newShadow begins with an empty stock. The adaptive policy may hold and order
// what the provider can take; restore gives it its memory.
func newShadow(m *memory, concurrency int, at time.Time, restore func(Knobs) *Mind) *shadow {
	s := &shadow{calendar: calendar{windows: m.calendar.windows}}
	add := func(mind *Mind) {
		r := newReplay(mind, concurrency, sinceEpoch(at))
		r.windows = &s.calendar
		s.runs = append(s.runs, r)
	}
	k := m.own
	k.Adaptive = !k.Adaptive
	if k.Adaptive {
		k.Depth = max(1, concurrency)
		add(restore(k))
	} else {
		k.Min = 0
		most := max(1, min(concurrency, m.own.Depth))
		for _, depth := range ladder {
			if k.Depth = depth; depth < most {
				add(NewMind(k))
			}
		}
		k.Depth = min(most, ladder[len(ladder)-1])
		add(NewMind(k))
	}
	s.since = s.mark(at, m.figures)
	s.next = s.since
	return s
}

// dozes reports whether the adaptive policy has let go of what it had learned.
func (s *shadow) dozes() bool {
	mind := s.runs[0].mind
	return mind.knobs.Adaptive && mind.table == nil
}

func (s *shadow) doze() {
	if mind := s.runs[0].mind; mind.knobs.Adaptive {
		mind.table = nil
		mind.wished = 0
	}
}

// wake gives back what doze took.
func (s *shadow) wake(restore func(Knobs) *Mind) {
	mind := s.runs[0].mind
	mind.table, mind.sampled = restore(mind.knobs).table, mind.now
}

func sinceEpoch(at time.Time) float64 { return at.Sub(epoch).Seconds() }

func (s *shadow) mark(at time.Time, real pool.Figures) mark {
	runs := make([]Result, len(s.runs))
	for i, r := range s.runs {
		runs[i] = r.result
	}
	return mark{at: at, real: real, runs: runs}
}

// learn lets the shadow live from one look to the next, with so many requests
// spread over that time and solves as they are for real.
func (s *shadow) learn(m *memory, to time.Time, requests int, figures pool.Figures) {
	from, real := m.looked, &m.solves
	s.calendar.posted, s.calendar.read = m.calendar.posted, m.calendar.read
	solve := func(float64) (float64, bool) {
		fails := real.streak >= failuresInARow || rand.Float64() < real.fails //nolint:gosec // G404: a model
		return real.sorted[rand.IntN(real.many)], fails                       //nolint:gosec // G404: a model
	}
	begin, end := sinceEpoch(from), sinceEpoch(to)
	for _, r := range s.runs {
		r.solve = solve
		for n := range requests {
			at := begin + (end-begin)*float64(n+1)/float64(requests)
			r.pass(at)
			r.request(at)
		}
		r.pass(end)
	}
	if to.Sub(s.next.at) >= shadowSpan {
		s.since, s.next = s.next, s.mark(to, figures)
	}
}

// pass lets time pass up to a moment.
func (r *replay) pass(at float64) {
	for r.step(at) {
		continue
	}
}

// Shadow is what another way of refilling would have done with the demand of the
// last hours, beside what was done.
type Shadow struct {
	Since    time.Time
	Requests int64 // that had an outcome
	HitRate  float64
	Bought   int64 // tokens that landed

	Adaptive      bool // what would have been: the adaptive policy, else
	Depth         int  // this fixed depth
	ShadowHitRate float64
	ShadowBought  int64
}

// tell sums up; nil where there is too little to tell.
func (s *shadow) tell(figures pool.Figures) *Shadow {
	was := s.since.real
	got := figures.Hits - was.Hits
	outcomes := got + figures.Waited - was.Waited + figures.Misses - was.Misses
	told := &Shadow{
		Since: s.since.at, Requests: outcomes, HitRate: float64(got) / float64(max(1, outcomes)),
		Bought: figures.Solved - was.Solved,
	}
	if outcomes < fewRequests || told.Bought <= 0 || len(s.runs) == 0 {
		return nil
	}
	// The first depth that is as good, else the last one.
	for i, r := range s.runs {
		before := s.since.runs[i]
		requests := r.result.Requests - before.Requests
		told.Adaptive, told.Depth = r.mind.knobs.Adaptive, r.mind.knobs.Depth
		told.ShadowHitRate = float64(r.result.Hits-before.Hits) / float64(max(1, requests))
		told.ShadowBought = int64(r.result.Bought - before.Bought)
		if told.ShadowHitRate >= told.HitRate-asGood {
			break
		}
	}
	return told
}

// String is one sentence for an operator.
func (s *Shadow) String() string {
	who := "adaptive"
	switch {
	case s.Adaptive:
	case s.ShadowHitRate < s.HitRate-asGood:
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
	return fmt.Sprintf("%s would have bought %s at %.1f %% hits (here: %.1f %%, %d bought)",
		who, than, 100*s.ShadowHitRate, 100*s.HitRate, s.Bought)
}
