package refill

import (
	"context"
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
	// current is how long after its last decision a replica still trusts its own memory of the demand. In this time, the
	// memory knows the time of each request to within a few seconds. Reading a saved state instead would lose the events
	// that the policy has noted but not learned yet.
	current = saveEvery
	// stopLimit limits the time for saving learned states when the daemon stops.
	stopLimit = 3 * time.Second
)

// demand is what this replica knows about the demand of a target. One decision at a time owns it.
type demand struct {
	learned *policy.Learned // nil = the saved state was not read yet
	unsaved bool            // there was a request since the last save
	savedAt time.Time
	version int64     // of the saved state that this replica read or wrote last
	decided time.Time // of the last decision

	want    int           // tokens that the last decision wanted
	next    time.Duration // time until the next decision
	avoided []string      // providers that the orders avoid
}

// recall reads the saved state from Redis if another replica may know more. If Redis has no saved state, this replica
// keeps its own.
func (d *decision) recall(ctx context.Context, at time.Time, p policy.Params, c *pool.Counts) error {
	newer := c.LearnedVersion != 0 && c.LearnedVersion != d.subject.version && at.Sub(d.subject.decided) > current
	if d.subject.learned != nil && !newer {
		d.subject.decided = at
		return nil
	}
	learned := policy.NewLearned(p)
	if c.LearnedVersion != 0 {
		text, err := d.m.pool.Learned(ctx, d.id)
		if err != nil {
			return err
		}
		if learned, err = policy.Restore(p, text, at); err != nil {
			d.m.log.Warn("the learned demand is dropped, and learned again", "target", d.spec.Target, "err", err)
		}
	}
	d.subject.learned, d.subject.decided, d.subject.version = learned, at, c.LearnedVersion
	return nil
}

// save saves the learned state if there was a request, at most once in the interval. A replica that has not decided
// about the target lately saves nothing, because another replica may know more.
func (d *demand) save(ctx context.Context, m *Manager, id captcha.ID, interval time.Duration) error {
	at := time.Now()
	if d.learned == nil || !d.unsaved || at.Sub(d.savedAt) < interval || at.Sub(d.decided) > current {
		return nil
	}
	version, err := m.pool.SaveLearned(ctx, id, d.learned.Save())
	if err != nil {
		return err
	}
	d.version, d.unsaved, d.savedAt = version, false, at
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

// counted converts the counts of package pool to the counts that package policy uses.
func counted(c *pool.Counts, lead time.Duration) *policy.Snapshot {
	f := c.Counters
	s := &policy.Snapshot{
		Lead: lead, Fresh: c.Fresh, Outliving: c.Outliving, Orders: c.Orders, Waiting: c.Waiting, Paused: c.Brake.IsPaused(),
		NextExpiry: c.NextExpiry, NextAgeing: c.NextAgeing, NextEnd: c.NextEnd, Leads: c.Leads,
		FailedInARow: c.Brake.FailedInARow, Totals: policy.Totals{Requests: c.Requests(), Hits: f.Hits, Solved: f.Solved,
			Failed: f.Failed, Expired: f.Expired},
	}
	if s.Paused && !c.Brake.Resumes.IsZero() {
		s.Resumes = max(time.Millisecond, c.Brake.Resumes.Sub(c.At))
	}
	return s
}

// Params returns the policy's parameters for a target, at a provider with the given poll times.
func Params(t *targets.Target, firstPoll, interval time.Duration) policy.Params {
	p := policy.Params{
		Adaptive: t.Refill == targets.RefillAdaptive, Depth: t.Depth, Min: t.Min, HitRate: t.HitRate, MissCost: t.MissCost,
		IdleAfter: t.IdleAfter, Usable: t.Usable(), FirstPoll: firstPoll, PollInterval: interval,
	}
	for _, w := range t.Warm {
		p.Warm = append(p.Warm, policy.Warm{Tokens: w.Tokens, Next: w.Next})
	}
	return p
}
