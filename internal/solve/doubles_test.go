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

// Freezer makes calls of claim stores fail.
type Freezer struct {
	On      atomic.Bool   // each call fails
	Carried atomic.Bool   // the store executes the calls even so, and the answers of swaps are lost
	Delay   time.Duration // before the failure of a call
}

// frozen returns the Freezer of a replica's claim store.
func frozen(r *Replica) *Freezer { return r.Store.(*icebox).Freezer }

func (f *Freezer) err() error {
	if f.On.Load() {
		time.Sleep(f.Delay)
	}
	if f.On.Load() {
		return redisdb.ErrDown
	}
	return nil
}

// icebox is a claim store whose calls may fail.
type icebox struct {
	*Freezer
	claims.Store
}

func newIcebox(s claims.Store) claims.Store { return &icebox{&Freezer{}, s} }

func (c *icebox) Load(ctx context.Context, key captcha.ID) (value []byte, version int64, now time.Time, err error) {
	if !c.Carried.Load() {
		if err := c.err(); err != nil {
			return nil, 0, time.Time{}, err
		}
	}
	return c.Store.Load(ctx, key)
}

func (c *icebox) Swap(ctx context.Context, key captcha.ID, version int64, to claims.Change) (ok bool, err error) {
	if !c.Carried.Load() {
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
