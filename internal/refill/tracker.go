package refill

import (
	"context"
	"time"

	"poold/internal/pool"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

const (
	// saveEvery is the minimum time between two saves of the learned state.
	saveEvery = time.Minute
	// saveLimit limits the duration of each save, including the last save at a stop.
	saveLimit = time.Second
)

// Params returns the policy's parameters for a target at a provider with the given poll times.
func Params(t targets.Target, firstPoll, interval time.Duration) policy.Params {
	return policy.Params{
		Adaptive: t.Refill == targets.RefillAdaptive, Depth: t.Depth, Min: t.Min,
		HitRate: t.HitRate, MaxWaste: t.MaxWaste, IdleAfter: t.IdleAfter, Usable: t.Usable(),
		FirstPoll: firstPoll, PollInterval: interval,
	}
}

// Windows converts a target's warm windows for the policy.
func Windows(t targets.Target) []policy.Warm {
	var list []policy.Warm
	for _, w := range t.Warm {
		list = append(list, policy.Warm{Tokens: w.Tokens, Next: w.Next})
	}
	return list
}

func seen(s *pool.Stock) *policy.Stock {
	f := s.Figures
	return &policy.Stock{
		Fresh: s.Fresh, Outliving: s.Outliving, Orders: s.Orders, Waiting: s.Waiting, Paused: s.Paused, Resumes: s.Resumes,
		NextExpiry: s.NextExpiry, NextLook: s.NextLook, NextEnd: s.NextEnd, Leads: s.Leads,
		Figures: policy.Figures{
			Requests: f.Requests, Hits: f.Hits, Waited: f.Waited, Misses: f.Misses,
			Solved: f.Solved, Failed: f.Failed, Expired: f.Expired,
		},
	}
}

// load restores the saved learned state if the tracker wants it. If the state cannot be decoded, the
// tracker learns from the start.
func (w *worker) load(ctx context.Context, at time.Time) error {
	if !w.tracker.WantsSaved() {
		return nil
	}
	saved, err := w.stock.Recall(ctx, w.target.ID)
	if err != nil {
		return err
	}
	if err := w.tracker.Load(at, saved); err != nil {
		w.log.Warn("the learned demand is dropped, and learned again", "err", err)
	}
	return nil
}

// save stores the learned state if at least the given interval has passed since the last save and
// there is something to save; see Tracker.Unsaved.
func (w *worker) save(ctx context.Context, at time.Time, interval time.Duration) {
	learned, err := w.tracker.Unsaved(at, interval)
	if err == nil && learned == nil {
		return
	}
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, saveLimit)
		defer cancel()
		err = w.stock.Remember(limited, w.target.ID, learned)
	}
	if err != nil {
		w.log.Debug("saving the learned demand failed", "err", err)
		return
	}
	w.tracker.Saved(at)
}
