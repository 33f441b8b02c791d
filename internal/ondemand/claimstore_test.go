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
	"poold/internal/testkit"
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

// A call of End returns only after another replica has replaced the holder. The replaced holder hands
// the token out as shared, because the new holder has handed it out as bought.
func TestAReplacedHolderSharesTheToken(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		late := w.start(doubles{claims: func(c Claims) Claims { return stuck{c} }})
		var early, a answers
		early.call(t.Context(), late, 1, sharing(request("x")))
		time.Sleep(time.Second)
		a.call(t.Context(), w.replicas[0], 5, sharing(request("x"))).calls.Wait()
		early.calls.Wait()
		if a.sources[FromSolve] != 1 || a.sources[FromShared] != 4 || early.sources[FromShared] != 1 || w.service.sold() != 1 {
			t.Errorf("the late one %v %v, the others %v %v, %d bought", early.sources, early.errs, a.sources, a.errs, w.service.sold())
		}
		if sum := w.sumSavings(t); sum[dedup.SavedSolve] != 1 || sum[dedup.SavedWaiting] != 5 {
			t.Errorf("counted %v of 6 requests", sum)
		}
	})
}

// unrecorded is a stock that cannot record the first holder.
type unrecorded struct{ Tokens }

func (unrecorded) FirstHolder(context.Context, captcha.ID, pool.Token, string) (bool, error) {
	return false, redisdb.ErrDown
}

// If neither the claim store nor Redis can record the end of a solve, all callers at the holder get the
// token as shared, because another holder may hand it out as bought. The log names both causes.
func TestAnUnrecordedEndCountsAsShared(t *testing.T) {
	play(t, 0, func(t *testing.T, w *scenario) {
		var log testkit.Log
		f := &freezer{}
		r := w.start(doubles{claims: f.before, tokens: func(t Tokens) Tokens { return unrecorded{t} }, log: log.Logger()})
		var a answers
		a.call(t.Context(), r, 3, sharing(request("x")))
		time.Sleep(9500 * time.Millisecond)
		f.on.Store(true)
		a.calls.Wait()
		if len(a.errs) > 0 || len(a.tokens) != 1 || a.sources[FromShared] != 3 || w.service.sold() != 1 {
			t.Errorf("%v, %v, %d bought", a.sources, a.errs, w.service.sold())
		}
		for _, message := range []string{"its end is not in the claim store", "its first hand-out is not recorded"} {
			if log.Count("level=WARN", message, "order=", redisdb.ErrDown.Error()) != 1 {
				t.Errorf("no %q in the log:\n%s", message, log.String())
			}
		}
		f.on.Store(false)
	})
}

// If the claim store does not record a failed solve, callers at the holder get the error, and later
// callers begin a new solve.
func TestAnUnrecordedFailureAnswersItsCallers(t *testing.T) {
	play(t, 0, func(t *testing.T, w *scenario) {
		var log testkit.Log
		f := &freezer{}
		r := w.start(doubles{claims: f.before, log: log.Logger()})
		w.service.with(func() { w.service.fail = true })
		var a answers
		a.call(t.Context(), r, 3, sharing(request("x")))
		time.Sleep(9500 * time.Millisecond)
		f.on.Store(true)
		a.calls.Wait()
		if failed[*SolveError](&a) != 3 || log.Count("level=DEBUG", "failure of a shared solve not recorded", redisdb.ErrDown.Error()) != 1 {
			t.Errorf("%v, logged\n%s", a.errs, log.String())
		}
		f.on.Store(false)
		w.service.with(func() { w.service.fail = false })
		if token, err := r.Solve(t.Context(), sharing(request("x"))); err != nil || token.Source != FromSolve || w.service.sold() != 2 {
			t.Errorf("the next one: %+v, %v, %d bought", token, err, w.service.sold())
		}
	})
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
