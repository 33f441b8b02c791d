package delivery

import (
	"context"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/status"
)

const (
	// supplyEvery is the interval between two checks whether a token can still come.
	supplyEvery = 250 * time.Millisecond
	// outagePatience limits the wait for the end of an outage. Many outages end at once.
	outagePatience = 2 * time.Second
)

// Looker returns the stock of an identity; see pool.Tokens.Look.
type Looker interface {
	Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (pool.Stock, error)
}

// Supply knows whether tokens can be bought for a target. A caller never waits for a token
// that cannot be bought.
type Supply struct {
	Refill Notes
	Status *status.Collector
	Stock  Looker
}

// Attend ends the wait of a request when no token can come for it: at once if an operator must
// act first, even while an order is in flight. ctx is the request's.
func (s *Supply) Attend(ctx context.Context, t *kernel.Target, r *pool.Request) {
	if s.needsOperator(ctx, t) {
		r.Wait = 0
		return
	}
	s.Watch(ctx, t, r)
}

// Watch ends the wait of a request when no token can come for it, not while an order is in
// flight. ctx is the request's.
func (s *Supply) Watch(ctx context.Context, t *kernel.Target, r *pool.Request) {
	over, began := make(chan struct{}), time.Now()
	r.Over = over
	go func() {
		ticker := time.NewTicker(supplyEvery)
		defer ticker.Stop()
		// A token that was just taken for this caller is neither in the stock nor an
		// order, so the stock must be empty twice.
		for empty := 0; empty < 2; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			out := time.Since(began) >= outagePatience && s.IsOut(ctx)
			if (out || s.IsBarred(ctx, t)) && s.IsEmpty(ctx, t) {
				empty++
			} else {
				empty = 0
			}
		}
		close(over)
	}()
}

// needsOperator reports whether an operator must act before anything is bought for a target.
func (s *Supply) needsOperator(ctx context.Context, t *kernel.Target) bool {
	if t.Paused {
		return true
	}
	note, known := s.Refill.Current(ctx, t.Name)
	return known && (note.State == refill.Refused || note.State == refill.Paused)
}

// IsBarred reports whether nothing may be bought for a target now.
func (s *Supply) IsBarred(ctx context.Context, t *kernel.Target) bool {
	note, known := s.Refill.Current(ctx, t.Name)
	return s.needsOperator(ctx, t) || known && note.State == refill.Budget && time.Now().Before(note.Until)
}

// IsOut reports whether no provider can be asked.
func (s *Supply) IsOut(ctx context.Context) bool {
	_, _, is := s.Status.Outage(ctx)
	return is
}

// IsEmpty reports whether a target has neither tokens nor orders that could bring one.
func (s *Supply) IsEmpty(ctx context.Context, t *kernel.Target) bool {
	stock, err := s.Stock.Look(ctx, t.ID, t.Margin, 0)
	return err == nil && stock.Fresh+stock.Orders == 0
}

// Notes gives what refill knows of a target; *refill.Manager implements it.
type Notes interface {
	// Current is how a target does, as all replicas know it; false while no worker refills it.
	Current(ctx context.Context, name string) (refill.Status, bool)
}
