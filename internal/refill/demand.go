package refill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

const (
	// saveEvery is how often a learned state is saved while it changes.
	saveEvery = 10 * time.Second
	// current is how long after a decision a replica has followed the demand well enough: it knows all requests, and
	// when they came to within a few seconds. Reading a saved state costs more: the policy drops what it has noted
	// and not learned yet.
	current = saveEvery
	// stopLimit limits the saves at a stop.
	stopLimit = 3 * time.Second
)

// demand is what this replica knows about the demand of a target. One decision at a time owns it.
type demand struct {
	tracker *policy.Tracker
	version int64     // of the saved state that this replica read or wrote last
	decided time.Time // of the last decision
}

// learned is a saved state: the policy's, and the counts to which it belongs.
type learned struct {
	Seen  policy.Figures
	State []byte
}

// recall reads the saved state if another replica knows more. If Redis has lost it, the memory holds.
func (d *decision) recall(ctx context.Context, at time.Time, c *pool.Counts) error {
	newer := c.Learned != 0 && c.Learned != d.version && at.Sub(d.decided) > current
	if !d.tracker.WantsSaved() && !newer {
		d.decided = at
		return nil
	}
	var l learned
	var corrupt error
	if c.Learned != 0 {
		text, err := d.m.pool.Learned(ctx, d.id)
		if err != nil {
			return err
		}
		corrupt = json.Unmarshal(text, &l)
	}
	d.decided, d.version = at, c.Learned
	if corrupt = errors.Join(corrupt, d.tracker.Load(at, l.State)); corrupt != nil {
		d.m.log.Warn("the learned demand is dropped, and learned again", "target", d.spec.Target, "err", corrupt)
	} else if c.Learned != 0 {
		d.tracker.SetSeen(at, l.Seen)
	}
	return nil
}

// save saves the learned state if it has changed, at most once in the interval. A replica that has not followed the
// demand lately leaves a newer state of another one.
func (d *demand) save(ctx context.Context, m *Manager, id captcha.ID, interval time.Duration) error {
	at := time.Now()
	state, err := d.tracker.Unsaved(at, interval)
	if state == nil || err != nil {
		return err
	}
	replaces := int64(pool.AnyVersion)
	if at.Sub(d.decided) > current {
		replaces = d.version
	}
	text, _ := json.Marshal(learned{Seen: d.tracker.Seen(), State: state}) // of numbers and bytes: no error is possible
	version, err := m.pool.SaveLearned(ctx, id, text, replaces)
	if err != nil {
		return err
	}
	d.version = cmp.Or(version, d.version)
	d.tracker.Saved(at)
	return nil
}

// saveAll saves what this replica has learned, when it stops.
func (m *Manager) saveAll(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer stop()
	m.mu.Lock()
	subjects := maps.Clone(m.subjects)
	m.mu.Unlock()
	for id, s := range subjects {
		if s.target != nil {
			m.decisions.Go(func() error { return s.save(ctx, m, id, 0) })
		}
	}
	if err := m.decisions.Wait(); err != nil {
		m.log.Warn("what was learned of the demand lately is not saved", "err", err)
	}
}

// stock converts the counts for the policy.
func stock(c *pool.Counts) *policy.Stock {
	f := c.Counters
	s := &policy.Stock{
		Fresh: c.Fresh, Outliving: c.Outliving, Orders: c.Orders, Waiting: c.Waiting, Paused: c.Brake.IsPaused(),
		NextExpiry: c.NextExpiry, NextLook: c.NextLook, NextEnd: max(0, c.NextEnd), Leads: c.Leads,
		Figures: policy.Figures{
			Requests: c.Requests(), Hits: f.Hits, Waited: f.Waited, Misses: f.Missed,
			Solved: f.Solved, Failed: f.Failed, Expired: f.Expired,
		},
	}
	if s.Paused && !c.Brake.Resumes.IsZero() {
		s.Resumes = max(time.Millisecond, c.Brake.Resumes.Sub(c.At))
	}
	return s
}

// Params returns the policy's parameters for a target, at a provider with the given poll times.
func Params(t *targets.Target, firstPoll, interval time.Duration) policy.Params {
	return policy.Params{
		Adaptive: t.Refill == targets.RefillAdaptive, Depth: t.Depth, Min: t.Min, HitRate: t.HitRate, MaxWaste: t.MaxWaste,
		IdleAfter: t.IdleAfter, Usable: t.Usable(), FirstPoll: firstPoll, PollInterval: interval,
	}
}

// Windows converts a target's warm windows for the policy.
func Windows(t *targets.Target) (list []policy.Warm) {
	for _, w := range t.Warm {
		list = append(list, policy.Warm{Tokens: w.Tokens, Next: w.Next})
	}
	return list
}
