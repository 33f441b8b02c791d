package refill

import (
	"context"
	"time"

	"poold/internal/pool"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

const (
	// saveEvery is how often what was learned is saved, at most.
	saveEvery = time.Minute
	// saveLimit bounds a save, also the one at a stop.
	saveLimit = time.Second
)

// Params are what the file and the provider say about a target, as the policy needs it.
func Params(t targets.Target, firstPoll, interval time.Duration) policy.Params {
	return policy.Params{
		Adaptive: t.Refill == targets.RefillAdaptive, Depth: t.Depth, Min: t.Min,
		HitRate: t.HitRate, MaxWaste: t.MaxWaste, IdleAfter: t.IdleAfter, Usable: t.Usable(),
		FirstPoll: firstPoll, PollInterval: interval,
	}
}

// Windows are the warm windows of a target, as the policy needs them.
func Windows(t targets.Target) []policy.Warm {
	var list []policy.Warm
	for _, w := range t.Warm {
		list = append(list, policy.Warm{Tokens: w.Tokens, Next: w.Next})
	}
	return list
}

// seen is a stock as the policy needs it.
func seen(s *pool.Stock) *policy.Stock {
	f := s.Figures
	seen := &policy.Stock{
		Fresh: s.Fresh, Outliving: s.Outliving, Orders: s.Orders, Waiting: s.Waiting, Paused: s.Paused, Resumes: s.Resumes,
		NextExpiry: s.NextExpiry, NextLook: s.NextLook, NextEnd: s.NextEnd, Leads: s.Leads,
		Figures: policy.Figures{
			Requests: f.Requests, Hits: f.Hits, Waited: f.Waited, Misses: f.Misses,
			Solved: f.Solved, Failed: f.Failed, Expired: f.Expired,
		},
	}
	for _, w := range s.Windows {
		seen.Windows = append(seen.Windows, policy.Window(w))
	}
	return seen
}

// load reads what an earlier run of any replica saved, where the tracker wants it. What
// cannot be read is learned anew.
func (w *worker) load(ctx context.Context, at time.Time) error {
	if !w.tracker.WantsSaved(at) {
		return nil
	}
	saved, err := w.stock.Recall(ctx, w.target.ID)
	if err != nil {
		return err
	}
	if err := w.tracker.Load(at, saved); err != nil {
		w.log.Warn("what was learned about the demand is lost", "err", err)
	}
	return nil
}

// save keeps what was learned, if the last save is at least so long ago and somebody
// has asked since; with 0, also what silence has taught. It reports whether it is kept.
func (w *worker) save(ctx context.Context, at time.Time, every time.Duration) bool {
	learned, err := w.tracker.Unsaved(at, every)
	if err == nil && learned == nil {
		return false
	}
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, saveLimit)
		defer cancel()
		err = w.stock.Remember(limited, w.target.ID, learned)
	}
	if err != nil {
		w.log.Debug("what was learned is not saved", "err", err)
		return false
	}
	w.tracker.Saved(at)
	return true
}

// unload lets go of what only a shadow knows where nobody asks: it is saved.
func (w *worker) unload(ctx context.Context, at time.Time) {
	if w.tracker.Rests(at) && w.save(ctx, at, 0) {
		w.tracker.Unload()
	}
}
