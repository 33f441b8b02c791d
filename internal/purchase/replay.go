package purchase

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

const (
	// replayEvery is how often dead letters are tried again.
	replayEvery = 2 * time.Second
	// mostStuck is how many identities in a row Redis must not answer for until the
	// others are left for the next time. A Redis that is away is not asked for each
	// of thousands of letters, and one that is away in part answers soon: what it did
	// not answer for last is tried last.
	mostStuck = 5
)

// Replayed says how a replay of the dead letters went.
type Replayed struct {
	Replayed int `json:"replayed"` // ended their orders
	Dropped  int `json:"dropped"`  // their orders had ended before
	Expired  int `json:"expired"`  // outlived their tokens
	Left     int `json:"left"`
	// Reason says why letters are left although others were replayed.
	Reason string `json:"reason,omitempty"`
}

// OpenDeadLetters makes the folder of the dead letters ready and finds what an earlier
// run left there.
func (d *Buyer) OpenDeadLetters() error {
	if err := d.letters.Open(); err != nil {
		return err
	}
	orders, err := d.letters.List()
	for _, o := range orders {
		if order, ok := pool.ParseRef(o); ok {
			d.firstArrival(order, time.Time{})
		}
	}
	d.tellTrouble(err)
	return nil
}

// DeadLetters lists the callbacks that could not be stored yet, without their
// tokens; with an error, those that can be read.
func (d *Buyer) DeadLetters() ([]DeadLetter, error) { return d.letters.show() }

// DeadLetterCount is how many there are.
func (d *Buyer) DeadLetterCount() int { return d.letters.Count() }

// DeadLettersSetAside is how many files could not be read and wait for a person.
func (d *Buyer) DeadLettersSetAside() int { return d.letters.SetAside() }

// replayQuietly is Replay now and then; the store says when Redis is away.
func (d *Buyer) replayQuietly(ctx context.Context) { _, _ = d.Replay(ctx) }

// Replay tries all dead letters again, those of one identity oldest first. What
// Redis does not take keeps no other letter from its turn: only where it took none
// of those that were tried is that the error. One replay is made at a time.
func (d *Buyer) Replay(ctx context.Context) (r Replayed, err error) {
	select {
	case d.replaying <- struct{}{}:
		defer func() { <-d.replaying }()
	case <-ctx.Done():
		return r, ctx.Err()
	}
	var stuck, refused error
	var took bool
	row := 0 // identities in a row that Redis did not answer for
	tried := map[captcha.ID]bool{}
	last := maps.Clone(d.stuck)
	unread := d.letters.each(func(x, y captcha.ID) int {
		// Identities are hashes, so those of one node seldom come in a row.
		return cmp.Or(last[x].Compare(last[y]), cmp.Compare(x, y))
	}, func(l letter, _ int64) bool {
		if tried[l.Identity] {
			return true // its slot, and so this one, is away
		}
		if err = ctx.Err(); err != nil {
			return false
		}
		outcome, failed := d.tryAgain(ctx, l)
		if failed != nil {
			refused, tried[l.Identity], d.stuck[l.Identity] = failed, true, time.Now()
			row++
			return row < mostStuck
		}
		if outcome != DeadLetterExpired {
			took, row = true, 0
			delete(d.stuck, l.Identity)
		}
		if order, ok := pool.ParseRef(l.Order); ok {
			d.forgetArrival(order)
		}
		if failed := d.letters.Remove(l.Order); failed != nil {
			stuck = failed // it will be found again, and of no use
			return true
		}
		d.countLetter(outcome, &r)
		return true
	})
	d.tellTrouble(errors.Join(unread, stuck))
	if r.Expired > 0 {
		d.log.Warn("dead letters outlived their tokens", "letters", r.Expired)
	}
	if r.Replayed+r.Dropped > 0 {
		d.log.Info("dead letters were replayed", "replayed", r.Replayed, "dropped", r.Dropped)
	}
	r.Left = d.letters.Count()
	switch {
	case r.Left == 0:
		clear(d.stuck)
	case err == nil && refused != nil && !took:
		err = refused
	case refused != nil:
		r.Reason = "redis does not take the others now"
	}
	return r, err
}

// countLetter counts a letter that is none any more.
func (d *Buyer) countLetter(outcome string, r *Replayed) {
	switch outcome {
	case CallbackSettled, CallbackFailed:
		r.Replayed++
		d.observe.Letter(DeadLetterReplayed)
	case DeadLetterExpired:
		r.Expired++
		d.observe.Letter(DeadLetterExpired)
	default:
		r.Dropped++
		d.observe.Letter(DeadLetterDropped)
	}
}

// tryAgain delivers a letter while it is of use.
func (d *Buyer) tryAgain(ctx context.Context, l letter) (outcome string, err error) {
	if !time.Now().Before(l.Until) {
		return DeadLetterExpired, nil
	}
	order, ok := pool.ParseRef(l.Order)
	if !ok {
		return CallbackMalformed, nil
	}
	outcome, err = d.deliver(ctx, l, d.firstArrival(order, time.Time{}))
	if err == nil && outcome == CallbackUnknown {
		// The first delivery may have ended the order and lost the answer.
		err = attempt(ctx, func(ctx context.Context) error { return d.stock.Release(ctx, l.Provider, order) })
	}
	return outcome, err
}

// tellTrouble logs what is wrong with the disk, and that it is over, once.
func (d *Buyer) tellTrouble(err error) {
	d.mu.Lock()
	before := d.trouble
	d.trouble = err != nil
	d.mu.Unlock()
	switch {
	case err != nil && !before:
		d.log.Error("dead letters cannot be read or removed", "err", err)
	case err == nil && before:
		d.log.Info("dead letters can be read and removed again")
	}
}
