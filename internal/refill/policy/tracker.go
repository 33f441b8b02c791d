package refill

import (
	"context"
	"slices"
	"time"

	"poold/internal/pool"
	"poold/internal/targets"
)

const (
	// saveEvery is how often what was learned is saved, at most.
	saveEvery = time.Minute
	// saveLimit bounds a save, also the one at a stop.
	saveLimit = time.Second
	// mostEvents of one kind are learned from between two looks: more of them say
	// no more than that there were very many.
	mostEvents = 10_000
)

// memory is a Mind that learns from what the stock says: the counts there are
// those of all replicas.
type memory struct {
	*Mind
	own      Knobs
	calendar calendar     // its warm windows
	figures  pool.Figures // at the last look
	leads    []time.Duration
	looked   time.Time // when figures and leads were read; zero = not yet
	asked    time.Time // when the last request was noticed; zero = none yet
	recalled bool      // what an earlier run saved has been read
	unsaved  bool      // something was learned since
	savedAt  time.Time
	shadow   *shadow // nil before anybody asks
}

func newMemory(t targets.Target, firstPoll, interval time.Duration) *memory {
	k := knobs(t, firstPoll, interval)
	return &memory{Mind: NewMind(k), own: k, calendar: calendar{windows: t.Warm}}
}

// knobs are what the file and the provider say about a target.
func knobs(t targets.Target, firstPoll, interval time.Duration) Knobs {
	return Knobs{
		Adaptive: t.Refill == targets.RefillAdaptive, Depth: t.Depth, Min: t.Min,
		HitRate: t.HitRate, MaxWaste: t.MaxWaste, IdleAfter: t.IdleAfter, Usable: t.Usable(),
		FirstPoll: firstPoll, PollInterval: interval,
	}
}

// remembers reports whether the demand so far matters to the policy.
func (k Knobs) remembers() bool { return k.Adaptive || k.IdleAfter > 0 }

// learner is the Mind that learns what happens next: the adaptive one of the two,
// nil where that is a shadow and there is none, or it dozes.
func (m *memory) learner() *Mind {
	switch {
	case m.own.Adaptive:
		return m.Mind
	case m.shadow == nil || m.shadow.dozes():
		return nil
	}
	return m.shadow.adaptive.mind
}

// pace takes notice of another provider's.
func (m *memory) pace(firstPoll, interval time.Duration) {
	if m.own.FirstPoll != firstPoll || m.own.PollInterval != interval {
		m.own.FirstPoll, m.own.PollInterval = firstPoll, interval
		m.Change(m.own)
	}
}

// warm says how many tokens warm windows want ready, and how long that holds.
func (m *memory) warm(at time.Time) (tokens int, change time.Duration) {
	return m.calendar.at(at, m.Ahead())
}

// worth is what one more token is worth with n ahead of it, as of the last look.
// One that `min` or a warm window keeps is needed for sure.
func (m *memory) worth(n int) float64 {
	switch l := m.learner(); {
	case n < m.floor():
		return m.own.MaxWaste
	case l != nil:
		return l.Worth(n)
	default:
		return m.Worth(n)
	}
}

// learn tells the Mind what has happened since the last look.
func (m *memory) learn(at time.Time, s *pool.Stock, concurrency int) {
	now, then := s.Figures, m.figures
	requests, hits := 0, now.Hits-then.Hits
	request := func(n int) { m.Request(at, int64(n) < hits) }
	// Counts that went back are those of a Redis that lost its data.
	lost := now.Requests < then.Requests || now.Solved < then.Solved
	known := !m.looked.IsZero() && !lost
	if known {
		requests = int(min(now.Requests-then.Requests, mostEvents))
	}
	if m.shadow == nil {
		for n := range requests {
			request(n)
		}
	} else {
		if lost {
			m.shadow.begin(at, now)
		}
		m.shadow.learn(m, concurrency, at, requests, s, request)
	}
	if known {
		for i := min(int(now.Solved-then.Solved), len(s.Leads)) - 1; i >= 0; i-- {
			m.Landed(at, s.Leads[i])
		}
		for range min(now.Failed-then.Failed, mostEvents) {
			m.Failed(at)
		}
		if expired := now.Expired - then.Expired; expired > 0 {
			m.Expired(at, int(expired))
		}
	}
	if !slices.Equal(s.Leads, m.leads) {
		m.leads = s.Leads
		m.Learn(at, s.Leads)
	}
	if requests > 0 {
		m.unsaved, m.asked = true, at
	}
	m.calendar.posted, m.calendar.read = s.Windows, at
	m.figures, m.looked = now, at
}

// recall reads what an earlier run of any replica saved, once, and again where a
// shadow begins or wakes up. What cannot be read is learned anew.
func (w *worker) recall(ctx context.Context, at time.Time) error {
	m := w.mind
	lively := !m.asked.IsZero() && at.Sub(m.asked) < shadowLife
	own := !m.recalled && m.own.remembers()
	begins := lively && m.shadow == nil
	if begins && m.own.Adaptive { // its shadow has nothing to remember
		m.shadow, begins = newShadow(m, w.desk.Concurrency(), at, NewMind), false
	}
	wakes := lively && m.shadow != nil && m.shadow.dozes()
	if !own && !begins && !wakes {
		return nil
	}
	saved, err := w.stock.Recall(ctx, w.target.ID)
	if err != nil {
		return err
	}
	m.recalled = true
	restore := func(k Knobs) *Mind {
		if saved == nil {
			return NewMind(k)
		}
		mind, err := Restore(k, saved, at)
		if err != nil {
			w.log.Warn("what was learned about the demand is lost", "err", err)
		}
		return mind
	}
	if own {
		m.Mind = restore(m.own)
	}
	switch {
	case begins:
		m.shadow = newShadow(m, w.desk.Concurrency(), at, restore)
	case wakes:
		m.shadow.wake(restore)
	}
	return nil
}

// doze lets go of what only a shadow knows where nobody asks: it is saved.
func (w *worker) doze(ctx context.Context, at time.Time) {
	m := w.mind
	if m.own.Adaptive || m.learner() == nil || at.Sub(m.asked) < shadowLife {
		return
	}
	w.save(ctx, at, 0)
	if at.Equal(m.savedAt) {
		m.shadow.doze()
	}
}

// save keeps what was learned, if the last save is at least so long ago and
// somebody has asked since; with 0, also what silence has taught.
func (w *worker) save(ctx context.Context, at time.Time, every time.Duration) {
	m, learner := w.mind, w.mind.learner()
	if !m.recalled || learner == nil || at.Sub(m.savedAt) < every {
		return
	}
	if !m.unsaved && (every > 0 || learner.sampled <= unixSeconds(m.savedAt)) {
		return
	}
	saved, err := learner.MarshalBinary()
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, saveLimit)
		defer cancel()
		err = w.stock.Remember(limited, w.target.ID, saved)
	}
	if err != nil {
		w.log.Debug("what was learned is not saved", "err", err)
		return
	}
	m.unsaved, m.savedAt = false, at
}
