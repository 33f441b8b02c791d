package ondemand

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

// freezer wraps the claims of replicas. While the field `on` is true, each call fails after the
// delay, like a call to a database that hangs. If the field `carried` is true, the store executes
// calls of End but loses the responses.
type freezer struct {
	on, carried atomic.Bool
	delay       time.Duration
}

func (f *freezer) before(c Claims) Claims { return frozen{c, f} }

// fails waits for the delay and reports whether the call fails.
func (f *freezer) fails() bool {
	if f.on.Load() {
		time.Sleep(f.delay)
	}
	return f.on.Load()
}

type frozen struct {
	Claims
	f *freezer
}

func (c frozen) Enter(ctx context.Context, e dedup.ClaimEntry) (dedup.Claim, error) {
	if c.f.fails() {
		return dedup.Claim{}, redisdb.ErrDown
	}
	return c.Claims.Enter(ctx, e)
}

func (c frozen) Hold(ctx context.Context, key captcha.ID, fence int64, id captcha.ID) (mine, wanted bool, err error) {
	if c.f.fails() {
		return false, false, redisdb.ErrDown
	}
	return c.Claims.Hold(ctx, key, fence, id)
}

func (c frozen) Release(ctx context.Context, key captcha.ID, fence int64, id captcha.ID) error {
	if c.f.fails() {
		return redisdb.ErrDown
	}
	return c.Claims.Release(ctx, key, fence, id)
}

func (c frozen) End(ctx context.Context, key captcha.ID, fence int64, e dedup.ClaimEnd) (bool, error) {
	if c.f.carried.Load() {
		_, _ = c.Claims.End(ctx, key, fence, e)
	}
	if c.f.fails() {
		return false, redisdb.ErrDown
	}
	return c.Claims.End(ctx, key, fence, e)
}

// sumSavings waits until the counts of requests are written, and returns their sums over all days.
func (w *scenario) sumSavings(t *testing.T) map[dedup.SavingsSource]int64 {
	t.Helper()
	time.Sleep(2 * countEvery)
	days, err := w.replicas[0].claims.Days(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := map[dedup.SavingsSource]int64{}
	for _, day := range days {
		for source, n := range day.BySource {
			sum[source] += n
		}
	}
	return sum
}

// When the claim store hangs while a solve ends, one caller at the holder gets the token as bought, and
// the other callers at this holder get it as shared. Later holders of the claim hand the token out
// as shared.
func TestASolveEndsWhileTheClaimStoreHangs(t *testing.T) {
	for name, carried := range map[string]bool{"the end is lost": false, "its answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			play(t, 0, func(t *testing.T, w *scenario) {
				f := &freezer{delay: 900 * time.Millisecond}
				f.carried.Store(carried)
				here, there := w.start(doubles{claims: f.before}), w.start(doubles{claims: f.before})
				var first, second, later answers
				first.call(t.Context(), here, 5, sharing(request("x")))
				time.Sleep(time.Second)
				second.call(t.Context(), there, 3, sharing(request("x")))
				time.Sleep(8 * time.Second)
				f.on.Store(true)
				time.Sleep(6 * time.Second) // the solve ends meanwhile
				first.calls.Wait()
				if len(first.errs) > 0 || first.sources[FromSolve] != 1 || first.sources[FromShared] != 4 {
					t.Errorf("at the holder: %v, %v", first.sources, first.errs)
				}
				f.on.Store(false)
				second.calls.Wait()
				if len(second.errs) > 0 || second.sources[FromShared] != 3 {
					t.Errorf("at the other replica: %v, %v", second.sources, second.errs)
				}
				later.call(t.Context(), here, 1, sharing(request("x"))).call(t.Context(), there, 1, sharing(request("x"))).calls.Wait()
				if later.sources[FromShared] != 2 {
					t.Errorf("later: %v, %v", later.sources, later.errs)
				}
				maps.Copy(first.tokens, second.tokens)
				maps.Copy(first.tokens, later.tokens)
				if len(first.tokens) != 1 || w.service.sold() != 1 {
					t.Errorf("%d tokens, %d bought", len(first.tokens), w.service.sold())
				}
				if sum := w.sumSavings(t); sum[dedup.SavedSolve] != 1 || sum[dedup.SavedWaiting]+sum[dedup.SavedAfter] != 9 || len(sum) > 3 {
					t.Errorf("counted %v of 10 requests", sum)
				}
			})
		})
	}
}

// dryStock is a stock in which each wait ends without a token.
type dryStock struct{ Tokens }

func (dryStock) Take(ctx context.Context, r pool.Request) (pool.Token, error) {
	_ = backoff.Sleep(ctx, r.Wait)
	return pool.Token{}, &pool.EmptyError{}
}

// If a shared solve has no token at its time limit, it fails for all its callers at all replicas. The
// error names the limit.
func TestASharedSolveHasALimit(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		holder := w.start(doubles{tokens: func(t Tokens) Tokens { return dryStock{t} }})
		patient := sharing(request("x"))
		patient.Take.Wait = 2 * dedup.ClaimLongest
		began := time.Now()
		var a answers
		a.call(t.Context(), holder, 3, patient)
		time.Sleep(2 * time.Second)
		a.call(t.Context(), w.replicas[0], 2, patient).calls.Wait()
		if took := time.Since(began); failed[*SolveError](&a) != 5 || took < dedup.ClaimLongest-2*endMargin || took > dedup.ClaimLongest {
			t.Errorf("after %v: %v", took, a.errs)
		}
		for _, err := range a.errs {
			if !strings.Contains(err.Error(), "no token came within 3m0s") {
				t.Error(err)
			}
		}
	})
}
