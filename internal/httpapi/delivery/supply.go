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
	// supplyEvery is the interval at which a Supply checks whether a token can still come.
	supplyEvery = 250 * time.Millisecond
	// During an outage a caller waits at least outagePatience, because many outages end within
	// seconds.
	outagePatience = 2 * time.Second
)

// Looker returns the stock of an identity; see pool.Tokens.Look.
type Looker interface {
	Look(ctx context.Context, id captcha.ID, margin, lead time.Duration) (pool.Stock, error)
}

// Supply determines whether tokens can be bought for a target, so that no caller waits for a token
// that cannot be bought.
type Supply struct {
	Refill Notes
	Status *status.Collector
	Stock  Looker
}

// Attend ends the wait of a request once no token can come for the target. If an operator must act
// before the next order, the wait ends immediately, even while an order is in flight. The argument
// ctx must be the context of the request.
func (s *Supply) Attend(ctx context.Context, t *kernel.Target, r *pool.Request) {
	if s.needsOperator(ctx, t) {
		r.Wait = 0
		return
	}
	s.Watch(ctx, t, r)
}

// Watch ends the wait of a request once no token can come for the target. While an order is in
// flight, the wait continues. The argument ctx must be the context of the request.
func (s *Supply) Watch(ctx context.Context, t *kernel.Target, r *pool.Request) {
	over, began := make(chan struct{}), time.Now()
	r.Over = over
	go func() {
		ticker := time.NewTicker(supplyEvery)
		defer ticker.Stop()
		// The stock must be empty in two consecutive checks. During the first check, a token for this
		// caller may have left the stock already but not have reached the caller yet.
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

// needsOperator reports whether an operator must act before poold places another order for a
// target.
func (s *Supply) needsOperator(ctx context.Context, t *kernel.Target) bool {
	if t.Halted() != "" {
		return true
	}
	note, known := s.Refill.Current(ctx, t.Name)
	return known && (note.State == refill.Refused || note.State == refill.Paused)
}

// IsBarred reports whether poold must not place an order for a target now.
func (s *Supply) IsBarred(ctx context.Context, t *kernel.Target) bool {
	note, known := s.Refill.Current(ctx, t.Name)
	return s.needsOperator(ctx, t) || known && note.State == refill.Budget && time.Now().Before(note.Until)
}

// IsOut reports whether all providers are down.
func (s *Supply) IsOut(ctx context.Context) bool {
	_, _, is := s.Status.Outage(ctx)
	return is
}

// IsEmpty reports whether a target has neither tokens nor orders that could bring a token.
func (s *Supply) IsEmpty(ctx context.Context, t *kernel.Target) bool {
	stock, err := s.Stock.Look(ctx, t.ID, t.Margin, 0)
	return err == nil && stock.Fresh+stock.Orders == 0
}

// Notes reads the refill status of a target; *refill.Manager implements it.
type Notes interface {
	// Current returns the refill status of a target, which includes the report of the replica that
	// watches the target. Current returns false while no worker refills the target.
	Current(ctx context.Context, name string) (refill.Status, bool)
}
