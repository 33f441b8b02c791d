package purchase

import (
	"context"
	"errors"
	"time"

	"poold/internal/pool"
)

// replayEvery is how often dead letters are tried again.
const replayEvery = 2 * time.Second

// Replayed says how a replay of the dead letters went.
type Replayed struct {
	Replayed int `json:"replayed"` // ended their orders
	Dropped  int `json:"dropped"`  // their orders had ended before
	Expired  int `json:"expired"`  // outlived their tokens
	Left     int `json:"left"`
}

// OpenLetters makes the folder of the dead letters ready and finds what an earlier
// run left there.
func (d *Desk) OpenLetters() error {
	if err := d.letters.open(); err != nil {
		return err
	}
	d.tellTrouble(d.letters.each(func(l letter) bool {
		if order, ok := pool.ParseRef(l.Order); ok {
			d.firstArrival(order, time.Time{})
		}
		return true
	}))
	return nil
}

// Letters lists the callbacks that could not be stored yet, without their
// tokens; with an error, those that can be read.
func (d *Desk) Letters() ([]Letter, error) { return d.letters.list() }

// LetterCount is how many there are.
func (d *Desk) LetterCount() int { return d.letters.count() }

// LettersSetAside is how many files could not be read and wait for a person.
func (d *Desk) LettersSetAside() int { return d.letters.badCount() }

// replayQuietly is Replay now and then; the store says when Redis is away.
func (d *Desk) replayQuietly(ctx context.Context) { _, _ = d.Replay(ctx) }

// Replay tries all dead letters again, oldest first, until Redis does not
// answer, which is the error then. One replay is made at a time.
func (d *Desk) Replay(ctx context.Context) (r Replayed, err error) {
	select {
	case d.replaying <- struct{}{}:
		defer func() { <-d.replaying }()
	case <-ctx.Done():
		return r, ctx.Err()
	}
	var stuck error
	unread := d.letters.each(func(l letter) bool {
		var outcome string
		if err = ctx.Err(); err == nil {
			outcome, err = d.tryAgain(ctx, l)
		}
		if err != nil {
			return false
		}
		if order, ok := pool.ParseRef(l.Order); ok {
			d.forgetArrival(order)
		}
		if failed := d.letters.remove(l.Order); failed != nil {
			stuck = failed // it will be found again, and of no use
			return true
		}
		switch outcome {
		case CallbackSettled, CallbackFailed:
			r.Replayed++
			d.observe.Letter(LetterReplayed)
		case LetterExpired:
			r.Expired++
			d.observe.Letter(LetterExpired)
		default:
			r.Dropped++
			d.observe.Letter(LetterDropped)
		}
		return true
	})
	d.tellTrouble(errors.Join(unread, stuck))
	if r.Expired > 0 {
		d.log.Warn("dead letters outlived their tokens", "letters", r.Expired)
	}
	if r.Replayed+r.Dropped > 0 {
		d.log.Info("dead letters were replayed", "replayed", r.Replayed, "dropped", r.Dropped)
	}
	r.Left = d.letters.count()
	return r, err
}

// tryAgain delivers a letter while it is of use.
func (d *Desk) tryAgain(ctx context.Context, l letter) (outcome string, err error) {
	if !time.Now().Before(l.Until) {
		return LetterExpired, nil
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
func (d *Desk) tellTrouble(err error) {
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
