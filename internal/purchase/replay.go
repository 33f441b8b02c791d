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
	// replayEvery is how often dead letters are tried again.
	replayEvery = 2 * time.Second
	// mostStuck is how many identities in a row Redis must not answer for until the
	// others are left for the next time. A Redis that is away is not asked for each
	// of thousands of dead letters, and one that is away in part answers soon: what it did
	// not answer for last is tried last.
	mostStuck = 5
)

// The outcomes of a dead letter.
const (
	DeadLetterReplayed = "replayed"
	DeadLetterDropped  = "dropped" // its order had ended before
	DeadLetterExpired  = "expired" // it outlived its token
)

// DeadLetter is what may be shown of a dead letter.
type DeadLetter = spool.Summary

// Replayed says how a replay of the dead letters went.
type Replayed struct {
	Replayed int `json:"replayed"` // ended their orders
	Dropped  int `json:"dropped"`  // their orders had ended before
	Expired  int `json:"expired"`  // outlived their tokens
	Left     int `json:"left"`
	// Reason says why dead letters are left although others were replayed.
	Reason string `json:"reason,omitempty"`
}

// replay tries dead letters again, one run at a time. It is safe for concurrent use.
type replay struct {
	*base
	callbacks *callbacks
	running   chan struct{}            // holds one while dead letters are tried
	stuck     map[captcha.ID]time.Time // since when Redis takes no dead letters of an identity; belongs to who runs

	mu      sync.Mutex
	trouble bool // with the folder of the dead letters; told once
}

func newReplay(b *base, cs *callbacks) *replay {
	return &replay{base: b, callbacks: cs, running: make(chan struct{}, 1), stuck: map[captcha.ID]time.Time{}}
}

// open makes the folder ready and finds what an earlier run left there.
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

// quietly is run now and then; the store says when Redis is away.
func (rp *replay) quietly(ctx context.Context) { _, _ = rp.run(ctx) }

// run tries all dead letters; see Buyer.Replay.
func (rp *replay) run(ctx context.Context) (r Replayed, err error) {
	select {
	case rp.running <- struct{}{}:
		defer func() { <-rp.running }()
	case <-ctx.Done():
		return r, ctx.Err()
	}
	var stuck, refused error
	var took bool
	row := 0 // identities in a row that Redis did not answer for
	tried := map[captcha.ID]bool{}
	unread := rp.callbacks.kept.Each(rp.order(), func(l spool.Letter, _ int64) bool {
		if tried[l.Identity] {
			return true // its slot, and so this one, is away
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
			stuck = failed // it will be found again, and of no use
			return true
		}
		rp.count(outcome, &r)
		return true
	})
	rp.logTrouble(errors.Join(unread, stuck))
	if r.Expired > 0 {
		rp.log.Warn("dead letters outlived their tokens", "letters", r.Expired)
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

// order sorts letters by their identities: those that Redis refused latest come last. Identities
// are hashes, so those of one node are seldom in a row.
func (rp *replay) order() func(x, y string) int {
	last := maps.Clone(rp.stuck)
	return func(x, y string) int {
		a, _ := pool.ParseRef(x)
		b, _ := pool.ParseRef(y)
		return cmp.Or(last[a.Identity].Compare(last[b.Identity]), cmp.Compare(a.Identity, b.Identity))
	}
}

// count counts a dead letter that is none any more.
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

// tryAgain delivers a dead letter while it is of use.
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

// logTrouble logs what is wrong with the disk, and that it is over, once.
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
