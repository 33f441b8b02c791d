package purchase

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/spool"
)

const (
	// replayEvery is how often dead letters are retried.
	replayEvery = 2 * time.Second
	// mostStuck is the number of identities in a row without an answer of Redis after which the
	// replay stops. This limits the calls while Redis is away. If only one node is away, its
	// identities come last in the next replay.
	mostStuck = 5
)

// The outcomes of a dead letter.
const (
	DeadLetterReplayed = "replayed"
	DeadLetterDropped  = "dropped" // its order had ended before
	DeadLetterExpired  = "expired" // its token had expired
)

// DeadLetter is a dead letter without its secrets.
type DeadLetter = spool.Summary

// Replayed is the result of a replay of the dead letters.
type Replayed struct {
	Replayed int `json:"replayed"` // ended their orders
	Dropped  int `json:"dropped"`  // their orders had ended before
	Expired  int `json:"expired"`  // their tokens had expired
	Left     int `json:"left"`
	// Reason is why dead letters are left although others were replayed.
	Reason string `json:"reason,omitempty"`
}

// replay retries dead letters, in one run at a time. It is safe for concurrent use.
type replay struct {
	*base
	callbacks *callbacks
	running   chan struct{}            // has an element during a run
	stuck     map[captcha.ID]time.Time // the last failure of each identity; owned by the run

	mu      sync.Mutex
	trouble bool // the folder of the dead letters failed; logged once
}

func newReplay(b *base, cs *callbacks) *replay {
	return &replay{base: b, callbacks: cs, running: make(chan struct{}, 1), stuck: map[captcha.ID]time.Time{}}
}

// open opens the folder and finds the dead letters of an earlier process.
func (rp *replay) open() error {
	if err := rp.callbacks.kept.Open(); err != nil {
		return err
	}
	rp.logTrouble(rp.callbacks.kept.Each(nil, func(l spool.Letter, _ int64) bool {
		if order, ok := pool.ParseRef(l.Order); ok {
			rp.callbacks.arrivals.first(order, time.Time{})
		}
		return true
	}))
	return nil
}

// quietly is run without results: the store logs an outage of Redis.
func (rp *replay) quietly(ctx context.Context) { _, _ = rp.run(ctx) }

// run retries all dead letters; see Buyer.Replay.
func (rp *replay) run(ctx context.Context) (r Replayed, err error) {
	select {
	case rp.running <- struct{}{}:
		defer func() { <-rp.running }()
	case <-ctx.Done():
		return r, ctx.Err()
	}
	var stuck, refused error
	var took bool
	row := 0 // identities in a row without an answer
	tried := map[captcha.ID]bool{}
	unread := rp.callbacks.kept.Each(rp.order(), func(l spool.Letter, _ int64) bool {
		if tried[l.Identity] {
			return true // its node does not answer
		}
		if err = ctx.Err(); err != nil {
			return false
		}
		outcome, failed := rp.tryAgain(ctx, l)
		if failed != nil {
			refused, tried[l.Identity], rp.stuck[l.Identity] = failed, true, time.Now()
			row++
			return row < mostStuck
		}
		if outcome != DeadLetterExpired {
			took, row = true, 0
			delete(rp.stuck, l.Identity)
		}
		if order, ok := pool.ParseRef(l.Order); ok {
			rp.callbacks.arrivals.forget(order)
		}
		if failed := rp.callbacks.kept.Remove(l.Order); failed != nil {
			stuck = failed // the next run finds the letter again and drops it
			return true
		}
		rp.count(outcome, &r)
		return true
	})
	rp.logTrouble(errors.Join(unread, stuck))
	if r.Expired > 0 {
		rp.log.Warn("dead letters were deleted, because their tokens had expired", "letters", r.Expired)
	}
	if r.Replayed+r.Dropped > 0 {
		rp.log.Info("dead letters were replayed", "replayed", r.Replayed, "dropped", r.Dropped)
	}
	r.Left = rp.callbacks.kept.Count()
	switch {
	case r.Left == 0:
		clear(rp.stuck)
	case err == nil && refused != nil && !took:
		err = refused
	case refused != nil:
		r.Reason = "redis does not take the others now"
	}
	return r, err
}

// order sorts letters by their identities: those that failed last come last. Identities are hashes,
// so those of one node are seldom in a row.
func (rp *replay) order() func(x, y string) int {
	last := maps.Clone(rp.stuck)
	return func(x, y string) int {
		a, _ := pool.ParseRef(x)
		b, _ := pool.ParseRef(y)
		return cmp.Or(last[a.Identity].Compare(last[b.Identity]), cmp.Compare(a.Identity, b.Identity))
	}
}

// count counts a dead letter that was removed.
func (rp *replay) count(outcome string, r *Replayed) {
	switch outcome {
	case CallbackSettled, CallbackFailed:
		r.Replayed++
		rp.observe.DeadLetter(DeadLetterReplayed)
	case DeadLetterExpired:
		r.Expired++
		rp.observe.DeadLetter(DeadLetterExpired)
	default:
		r.Dropped++
		rp.observe.DeadLetter(DeadLetterDropped)
	}
}

// tryAgain delivers a dead letter if its token can be alive.
func (rp *replay) tryAgain(ctx context.Context, l spool.Letter) (outcome string, err error) {
	if !time.Now().Before(l.Until) {
		return DeadLetterExpired, nil
	}
	order, ok := pool.ParseRef(l.Order)
	if !ok {
		return CallbackMalformed, nil
	}
	outcome, err = rp.callbacks.deliver(ctx, l, rp.callbacks.arrivals.first(order, time.Time{}))
	if err == nil && outcome == CallbackUnknown {
		// The first delivery may have ended the order and lost the answer.
		err = withTimeout(ctx, func(ctx context.Context) error { return rp.stock.Release(ctx, l.Provider, order) })
	}
	return outcome, err
}

// logTrouble logs once that the disk fails, and once that it works again.
func (rp *replay) logTrouble(err error) {
	rp.mu.Lock()
	before := rp.trouble
	rp.trouble = err != nil
	rp.mu.Unlock()
	switch {
	case err != nil && !before:
		rp.log.Error("dead letters cannot be read or removed", "err", err)
	case err == nil && before:
		rp.log.Info("dead letters can be read and removed again")
	}
}
