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
	// replayEvery is the interval between two replays of the dead letters.
	replayEvery = 2 * time.Second
	// A replay stops when Redis has not answered for maxStuck identities in a row. This limits the
	// calls while Redis is away. If only one Redis node is away, the next replay handles the
	// identities on that node last.
	maxStuck = 5
)

// The outcomes of a dead letter.
const (
	DeadLetterReplayed = "replayed"
	DeadLetterDropped  = "dropped" // the letter's order had already ended
	DeadLetterExpired  = "expired" // the letter's token had expired
)

// DeadLetter is a dead letter without its secrets.
type DeadLetter = spool.Summary

// Replayed is the result of a replay of the dead letters.
type Replayed struct {
	Replayed int `json:"replayed"` // letters that ended their orders
	Dropped  int `json:"dropped"`  // letters whose orders had already ended
	Expired  int `json:"expired"`  // letters whose tokens had expired
	Left     int `json:"left"`
	// Reason gives the reason why some dead letters were not replayed.
	Reason string `json:"reason,omitempty"`
}

// replay retries dead letters. At most one run is active at a time. The type is safe for
// concurrent use.
type replay struct {
	*base
	callbacks *callbacks
	running   chan struct{}            // semaphore; full during a run
	stuck     map[captcha.ID]time.Time // time of each identity's last failure; owned by the active run

	mu      sync.Mutex
	trouble bool // an error of the dead letters' folder has been logged
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
			rp.callbacks.arrivals.firstArrival(order, time.Time{})
		}
		return true
	}))
	return nil
}

// runQuietly replays and ignores the results. The store logs an outage of Redis.
func (rp *replay) runQuietly(ctx context.Context) { _, _ = rp.run(ctx) }

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
	row := 0 // number of consecutive identities for which Redis did not answer
	tried := map[captcha.ID]bool{}
	unread := rp.callbacks.kept.Each(rp.compareLetters(), func(l spool.Letter, _ int64) bool {
		if tried[l.Identity] {
			return true // this identity's Redis node does not answer
		}
		if err = ctx.Err(); err != nil {
			return false
		}
		outcome, failed := rp.retryLetter(ctx, l)
		if failed != nil {
			refused, tried[l.Identity], rp.stuck[l.Identity] = failed, true, time.Now()
			row++
			return row < maxStuck
		}
		if outcome != DeadLetterExpired {
			took, row = true, 0
			delete(rp.stuck, l.Identity)
		}
		if order, ok := pool.ParseRef(l.Order); ok {
			rp.callbacks.arrivals.forget(order)
		}
		if failed := rp.callbacks.kept.Remove(l.Order); failed != nil {
			stuck = failed // the next run finds this letter again and drops it
			return true
		}
		rp.countOutcome(outcome, &r)
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

// compareLetters returns a function that sorts dead letters by identity. The identities that failed
// most recently come last. Identities are hashes, so neighbours in this order are rarely on the same
// Redis node.
func (rp *replay) compareLetters() func(x, y string) int {
	last := maps.Clone(rp.stuck)
	return func(x, y string) int {
		a, _ := pool.ParseRef(x)
		b, _ := pool.ParseRef(y)
		return cmp.Or(last[a.Identity].Compare(last[b.Identity]), cmp.Compare(a.Identity, b.Identity))
	}
}

// countOutcome adds the outcome of a removed dead letter to the result.
func (rp *replay) countOutcome(outcome string, r *Replayed) {
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

// retryLetter delivers a dead letter unless its token has expired.
func (rp *replay) retryLetter(ctx context.Context, l spool.Letter) (outcome string, err error) {
	if !time.Now().Before(l.Until) {
		return DeadLetterExpired, nil
	}
	order, ok := pool.ParseRef(l.Order)
	if !ok {
		return CallbackMalformed, nil
	}
	outcome, err = rp.callbacks.deliver(ctx, l, rp.callbacks.arrivals.firstArrival(order, time.Time{}))
	if err == nil && outcome == CallbackUnknown {
		// An earlier delivery may have ended the order although its answer from Redis was lost. In
		// this case the order still has its permit.
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
