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
	figures  pool.Figures // at the last look
	leads    []time.Duration
	looked   bool // figures and leads are known
	recalled bool // what an earlier run saved has been read
	unsaved  bool // something was learned since
	savedAt  time.Time
}

func newMemory(k Knobs) *memory { return &memory{Mind: NewMind(k), own: k} }

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

// pace takes notice of another provider's.
func (m *memory) pace(firstPoll, interval time.Duration) {
	if m.own.FirstPoll != firstPoll || m.own.PollInterval != interval {
		m.own.FirstPoll, m.own.PollInterval = firstPoll, interval
		m.Change(m.own)
	}
}

// learn tells the Mind what has happened since the last look.
func (m *memory) learn(at time.Time, s *pool.Stock) {
	now, then := s.Figures, m.figures
	// Counts that went back are those of a Redis that lost its data.
	if m.looked && now.Requests >= then.Requests && now.Solved >= then.Solved {
		requests := min(now.Requests-then.Requests, mostEvents)
		for range requests {
			m.Request(at)
		}
		for i := min(int(now.Solved-then.Solved), len(s.Leads)) - 1; i >= 0; i-- {
			m.Landed(at, s.Leads[i])
		}
		for range min(now.Failed-then.Failed, mostEvents) {
			m.Failed(at)
		}
		if expired := now.Expired - then.Expired; expired > 0 {
			m.Expired(at, int(expired))
		}
		m.unsaved = m.unsaved || requests > 0
	}
	m.figures, m.looked = now, true
	if !slices.Equal(s.Leads, m.leads) {
		m.leads = s.Leads
		m.Learn(at, s.Leads)
	}
}

// recall reads what an earlier run of any replica saved, once. What cannot be
// read is learned anew.
func (w *worker) recall(ctx context.Context, at time.Time) error {
	if w.mind.recalled || !w.mind.own.remembers() {
		return nil
	}
	saved, err := w.stock.Recall(ctx, w.target.ID)
	if err != nil {
		return err
	}
	w.mind.recalled = true
	if saved == nil {
		return nil
	}
	mind, err := Restore(w.mind.own, saved, at)
	if err != nil {
		w.log.Warn("what was learned about the demand is lost", "err", err)
	}
	w.mind.Mind = mind
	return nil
}

// save keeps what was learned, if anything was and the last save is at least so
// long ago.
func (w *worker) save(ctx context.Context, at time.Time, every time.Duration) {
	m := w.mind
	if !m.unsaved || !m.recalled || at.Sub(m.savedAt) < every {
		return
	}
	saved, err := m.MarshalBinary()
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
