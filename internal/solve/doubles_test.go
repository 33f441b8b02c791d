//go:build !race

package solve_test

import (
	"context"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/claims"
	"poold/internal/redisdb"
	. "poold/internal/solve/solvetest"
)

// An outage makes the calls of a claim store fail.
type outage struct {
	on       atomic.Bool   // each call fails
	executed atomic.Bool   // the store executes the calls even so, and the answers of swaps are lost
	delay    time.Duration // before the failure of a call
}

// outageOf returns the outage of a replica's claim store.
func outageOf(r *Peer) *outage { return r.Store.(*breakable).outage }

func (o *outage) err() error {
	if o.on.Load() {
		time.Sleep(o.delay)
	}
	if o.on.Load() {
		return redisdb.ErrDown
	}
	return nil
}

// breakable is a claim store that may have an outage.
type breakable struct {
	*outage
	claims.Store
}

func newBreakable(s claims.Store) claims.Store { return &breakable{&outage{}, s} }

func (c *breakable) Load(ctx context.Context, key captcha.ID) (value []byte, version int64, now time.Time, err error) {
	if !c.executed.Load() {
		if err := c.err(); err != nil {
			return nil, 0, time.Time{}, err
		}
	}
	return c.Store.Load(ctx, key)
}

func (c *breakable) Swap(ctx context.Context, key captcha.ID, version int64, to claims.Change) (ok bool, err error) {
	if !c.executed.Load() {
		if err := c.err(); err != nil {
			return false, err
		}
	}
	ok, err = c.Store.Swap(ctx, key, version, to)
	if down := c.err(); down != nil {
		return false, down
	}
	return ok, err
}
