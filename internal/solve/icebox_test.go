//go:build !race

package solve_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/ondemand/redisclaims"
	"poold/internal/redisdb"
	"poold/internal/solve"
	. "poold/internal/solve/solvetest"
)

// Freezer makes calls of claim stores fail.
type Freezer struct {
	On      atomic.Bool   // each call fails
	Carried atomic.Bool   // the store executes End even so, and its answer is lost
	Delay   time.Duration // before the failure of a call
}

// frozen returns the Freezer of a replica's claim store.
func frozen(r *Replica) *Freezer { return r.Claims.(*icebox).Freezer }

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
	solve.Claims
	*savings
}

func newIcebox(c *redisclaims.Claims) Claims {
	return &icebox{Freezer: &Freezer{}, Claims: c, savings: &savings{Claims: c}}
}

func (c *icebox) Enter(ctx context.Context, e dedup.ClaimEntry) (dedup.Claim, error) {
	if err := c.err(); err != nil {
		return dedup.Claim{}, err
	}
	return c.Claims.Enter(ctx, e)
}

func (c *icebox) Hold(ctx context.Context, key captcha.ID, fence int64, id captcha.ID) (mine, wanted bool, err error) {
	if err := c.err(); err != nil {
		return false, false, err
	}
	return c.Claims.Hold(ctx, key, fence, id)
}

func (c *icebox) Release(ctx context.Context, key captcha.ID, fence int64, id captcha.ID) error {
	if err := c.err(); err != nil {
		return err
	}
	return c.Claims.Release(ctx, key, fence, id)
}

func (c *icebox) End(ctx context.Context, key captcha.ID, fence int64, e dedup.ClaimEnd) (bool, error) {
	if c.Carried.Load() {
		_, _ = c.Claims.End(ctx, key, fence, e)
	}
	if err := c.err(); err != nil {
		return false, err
	}
	return c.Claims.End(ctx, key, fence, e)
}

// savings are the counts of requests in the claim store.
type savings struct {
	Claims *redisclaims.Claims
	failed atomic.Bool
}

// Count implements solve.Savings. The first call fails.
func (s *savings) Count(ctx context.Context, requests map[dedup.SavingsSource]int) error {
	if !s.failed.Swap(true) {
		return errors.New("away")
	}
	return s.Claims.Count(ctx, requests)
}

// sum returns the counts of all replicas.
func (s *savings) sum() map[dedup.SavingsSource]int64 {
	sum := map[dedup.SavingsSource]int64{}
	days, err := s.Claims.Days(context.Background())
	if err != nil {
		panic(err)
	}
	for _, day := range days {
		for source, n := range day.BySource {
			if n > 0 {
				sum[source] += n
			}
		}
	}
	return sum
}
