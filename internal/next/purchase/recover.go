package purchase

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/backoff"
	"poold/internal/next/pool"
	"poold/internal/panics"
)

// beat is what a beat found.
type beat struct {
	owned int
	late  []string
}

// Run does what the buyer does by itself, until ctx ends: it beats, goes on with orders that this replica
// adopted or lost sight of, ends orders past their deadline, replays dead letters, passes reports on, and
// reads brakes, thread limits and balances. After the end of ctx it stops the orders of all calls of Buy,
// finishes their submits, and leaves the bought ones to other replicas.
func (b *Buyer) Run(ctx context.Context) error {
	beats, stopBeats := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBeats()
	found := make(chan beat, 1)
	var pulse, duties errgroup.Group
	pulse.Go(func() error {
		return b.pool.Run(beats, func(owned int, late []string) {
			select {
			case found <- beat{owned, late}:
			default: // the former beat's orders are being handled
			}
		})
	})
	duties.Go(func() error { b.recover(ctx, found); return nil })
	duties.Go(func() error { b.repeat(ctx, replayEvery, nil, b.replayQuietly); return nil })
	duties.Go(func() error { b.repeat(ctx, time.Second, nil, b.readBrakes); return nil })
	duties.Go(func() error { b.repeat(ctx, refreshEvery, b.arrived, b.refresh); return nil })
	duties.Go(func() error { b.sendReports(ctx); return nil })
	_ = duties.Wait() // no duty fails

	// The beats go on until the last submit in flight is stored: otherwise another replica would take its
	// order over.
	b.mu.Lock()
	b.closed = true
	for _, o := range b.running {
		o.stop()
	}
	if len(b.running) == 0 {
		close(b.idle)
	}
	b.mu.Unlock()
	<-b.idle
	_ = b.adopted.Wait()
	stopBeats()
	_ = pulse.Wait() // Run of the pool does not fail
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTime)
	defer cancel()
	if err := b.pool.Leave(leaving); err != nil {
		b.log.Debug("other replicas take the orders over when this one counts as dead", "err", err)
	}
	return nil
}

// repeat calls work at once, and then again and again until ctx ends. A panic ends only one call.
func (b *Buyer) repeat(ctx context.Context, every time.Duration, early <-chan struct{}, work func(context.Context)) {
	for {
		_ = panics.Contain(b.log, "panic at the buyer", func() { work(ctx) })
		select {
		case <-ctx.Done():
			return
		case <-early:
		case <-time.After(every):
		}
	}
}

// recover handles what the beats find.
func (b *Buyer) recover(ctx context.Context, found <-chan beat) {
	for differs := 0; ; {
		var f beat
		select {
		case <-ctx.Done():
			return
		case f = <-found:
		}
		_ = panics.Contain(b.log, "panic while recovering orders", func() {
			if differs++; f.owned == b.countOwned() {
				differs = 0
			}
			if differs >= 2 { // once, it may be an order that is just being placed or ended
				differs = 0
				b.compare(ctx)
			}
			for _, name := range f.late {
				b.endLate(ctx, name)
			}
		})
	}
}

func (b *Buyer) countOwned() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.running {
		if o.owned {
			n++
		}
	}
	return n
}

// compare compares the orders that this replica owns in Redis with those that run here. It resumes those
// that do not run: adopted ones, and those that a panic or a lost answer of Redis left behind. It stops
// those that it does not own: a callback at another replica has ended them.
func (b *Buyer) compare(ctx context.Context) {
	asked := time.Now()
	names, err := b.pool.Owned(ctx)
	if err != nil {
		return
	}
	owned := map[string]bool{}
	for _, name := range names {
		owned[name] = true
	}
	var ended []*order
	b.mu.Lock()
	for name, o := range b.running {
		if o.owned && !owned[name] && !o.waits.IsZero() && o.waits.Before(asked) {
			o.owned = false
			ended = append(ended, o)
		}
		delete(owned, name)
	}
	b.mu.Unlock()
	for _, o := range ended {
		b.endedElsewhere(o)
	}
	for name := range owned {
		b.resume(ctx, name)
	}
}

// endedElsewhere stops the goroutine of an order that a callback has ended, here or at another replica.
func (b *Buyer) endedElsewhere(o *order) {
	o.elsewhere.Store(true)
	o.stop()
	if a, _ := b.accounts.of(&o.facts); a != nil && o.facts.Called {
		b.noteCallback(a, true)
	}
}

// resume goes on with an order that this replica owns, as the table of ends says.
func (b *Buyer) resume(ctx context.Context, name string) {
	e, is, err := b.pool.Find(ctx, name)
	if err != nil || !is || e.Owner != b.pool.Replica {
		return
	}
	o, err := readOrder(&e)
	if err != nil {
		b.log.Error("an order of the journal is left to its deadline", "order", name, "err", err)
	}
	ctx, stop := context.WithCancel(ctx)
	o.stop, o.owned = stop, true
	if !b.add(o) {
		stop()
		return
	}
	log := b.log.With("target", o.facts.Target, "provider", o.facts.Provider)
	started := b.adopted.TryGo(func() error {
		defer stop()
		defer b.remove(o)
		return panics.Contain(b.log, "panic in an adopted order", func() {
			switch {
			case err != nil:
				_ = backoff.Sleep(ctx, time.Until(o.deadline()))
			case e.State == pool.Bought:
				log.Info("an order is resumed", "task", e.Task)
				b.run(ctx, o, pool.Bought)
			default:
				log.Info("an order without a task is resumed", "state", string(e.State))
				b.finish(ctx, o, e.State, news{trigger: adopted, by: "adoption"})
			}
		})
	})
	if !started { // a later beat tries again
		b.remove(o)
		stop()
	}
}

// endLate ends an order past its deadline, whoever owns it.
func (b *Buyer) endLate(ctx context.Context, name string) {
	e, is, err := b.pool.Find(ctx, name)
	if err != nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	if !is {
		if err := b.pool.Drop(limited, name); err != nil {
			b.log.Debug("a deadline without an order stays", "order", name, "err", err)
		}
		return
	}
	o, err := readOrder(&e)
	if err != nil {
		b.log.Error("an order that cannot be read ends without its budgets", "order", name, "err", err)
	}
	if _, err := b.end(limited, o, e.State, news{trigger: late, by: "deadline"}); err != nil {
		b.log.Debug("an order past its deadline stays", "order", name, "err", err)
	}
}
