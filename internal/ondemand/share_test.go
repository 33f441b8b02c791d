package ondemand

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

// Of callers at three replicas that ask for the same, one has it bought and the others
// share it.
func TestOneSolvesForAll(t *testing.T) {
	play(t, 3, func(t *testing.T, w *scenario) {
		var a answers
		for _, r := range w.replicas {
			a.call(t.Context(), r, 30, sharing(request("x")))
		}
		a.calls.Wait()
		if len(a.errs) > 0 || len(a.tokens) != 1 || a.sources[FromSolve] != 1 || a.sources[FromShared] != 89 || w.service.sold() != 1 {
			t.Errorf("%v, %d tokens, %d bought, %v", a.sources, len(a.tokens), w.service.sold(), a.errs)
		}
		// It is shared for 60 s from its landing.
		time.Sleep(55 * time.Second)
		if token, err := w.replicas[2].Solve(t.Context(), sharing(request("x"))); err != nil || token.Source != FromShared || w.service.sold() != 1 {
			t.Errorf("after 55 s: %+v, %v", token, err)
		} else if left := token.TTL; left < 60*time.Second || left > 66*time.Second {
			t.Errorf("after 55 s it has %v left", left)
		}
		time.Sleep(6 * time.Second)
		if token, err := w.replicas[2].Solve(t.Context(), sharing(request("x"))); err != nil || token.Source != FromSolve || w.service.sold() != 2 {
			t.Errorf("after 61 s: %+v, %v", token, err)
		}
	})
}

// A token that is shared is counted by how each caller came by it.
func TestSavingsAreCounted(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		var a answers
		a.call(t.Context(), w.replicas[0], 10, sharing(request("x"))).call(t.Context(), w.replicas[1], 10, sharing(request("x"))).calls.Wait()
		a.call(t.Context(), w.replicas[1], 5, sharing(request("x"))).calls.Wait()
		keyed := request("y")
		keyed.Take.Idempotency = "key"
		for range 3 {
			a.call(t.Context(), w.replicas[0], 1, keyed).calls.Wait()
		}
		time.Sleep(3 * time.Second)
		days, err := w.replicas[0].claims.Days(t.Context())
		if err != nil || len(days) == 0 {
			t.Fatalf("%v, %v", days, err)
		}
		sum := map[dedup.SavingsSource]int64{}
		for _, day := range days {
			for source, n := range day.BySource {
				sum[source] += n
			}
		}
		if sum[dedup.SavedSolve] != 2 || sum[dedup.SavedWaiting] != 19 || sum[dedup.SavedAfter] != 5 || sum[dedup.SavedReplay] != 2 || sum[dedup.SavedPool] != 0 {
			t.Errorf("counted %v, errors %v", sum, a.errs)
		}
	})
}

// The solve goes on while anybody waits, whoever came first; where all have gone its
// order stands, and its token serves the next one.
func TestTheSolveBelongsToTheClaim(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		hangUp, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var gone, stay answers
		gone.call(hangUp, w.replicas[0], 5, sharing(request("x")))
		time.Sleep(time.Second)
		stay.call(t.Context(), w.replicas[1], 5, sharing(request("x"))).calls.Wait()
		gone.calls.Wait()
		if len(gone.errs) != 5 || len(stay.errs) > 0 || w.service.sold() != 1 {
			t.Errorf("gone %v, stayed %v, %d bought", gone.errs, stay.errs, w.service.sold())
		}
		hangUp, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var all answers
		all.call(hangUp, w.replicas[0], 5, sharing(request("y"))).call(hangUp, w.replicas[1], 5, sharing(request("y"))).calls.Wait()
		time.Sleep(15 * time.Second)
		token, err := w.replicas[1].Solve(t.Context(), sharing(request("y")))
		if err != nil || token.Source != pool.FromPool || w.service.sold() != 2 {
			t.Errorf("%+v, %v, %d bought", token, err, w.service.sold())
		}
	})
}

// A caller whose wait is over before its time takes nothing from the others.
func TestASharersWaitIsOver(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		over := make(chan struct{})
		first := sharing(request("x"))
		first.Take.Over = over
		var gone, stay answers
		gone.call(t.Context(), w.replicas[0], 1, first)
		time.Sleep(time.Second)
		stay.call(t.Context(), w.replicas[0], 3, sharing(request("x")))
		time.Sleep(time.Second)
		began := time.Now()
		close(over)
		gone.calls.Wait()
		var empty *pool.EmptyError
		if len(gone.errs) != 1 || !errors.As(gone.errs[0], &empty) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), gone.errs)
		}
		stay.calls.Wait()
		if len(stay.errs) > 0 || w.service.sold() != 1 {
			t.Errorf("the others: %v, %d bought", stay.errs, w.service.sold())
		}
	})
}

// Who waits for a holder that is killed while its order is under way is served within 10 s,
// by that order. The end-to-end tests kill it after the landing too.
func TestADeadHolderIsReplaced(t *testing.T) {
	for _, after := range []time.Duration{3 * time.Second, 9900 * time.Millisecond} {
		play(t, 2, func(t *testing.T, w *scenario) {
			var dead, a answers
			dead.call(t.Context(), w.replicas[0], 1, sharing(request("x")))
			time.Sleep(time.Second)
			a.call(t.Context(), w.replicas[1], 10, sharing(request("x")))
			time.Sleep(after - time.Second)
			w.kill(w.replicas[0])
			killed := time.Now()
			dead.calls.Wait()
			a.calls.Wait()
			if len(a.errs) > 0 || len(a.tokens) != 1 || w.service.sold() != 1 {
				t.Errorf("killed after %v: %d tokens, %d bought, %v", after, len(a.tokens), w.service.sold(), a.errs)
			}
			if took := time.Since(killed); took > 10*time.Second {
				t.Errorf("killed after %v: served %v later", after, took)
			}
		})
	}
}

// A holder that stops leaves the claim to another one, without an error for who waits
// there.
func TestAStoppedHolderIsReplaced(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		var here, there answers
		here.call(t.Context(), w.replicas[0], 1, sharing(request("x")))
		time.Sleep(time.Second)
		there.call(t.Context(), w.replicas[1], 5, sharing(request("x")))
		time.Sleep(2 * time.Second)
		w.end(w.replicas[0])
		here.calls.Wait()
		there.calls.Wait()
		if len(there.errs) > 0 || len(there.tokens) != 1 || w.service.sold() != 1 {
			t.Errorf("%d tokens, %d bought, %v", len(there.tokens), w.service.sold(), there.errs)
		}
	})
}

// stuck are claims of a replica that dies before it can end one.
type stuck struct{ Claims }

func (s stuck) End(ctx context.Context, _ captcha.ID, _ int64, _ dedup.ClaimEnd) (bool, error) {
	time.Sleep(time.Minute)
	return false, redisdb.ErrDown
}

// What a dead holder had taken and not told is given to the one that replaces it.
func TestWhatADeadHolderHadTaken(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		r := w.start(doubles{claims: func(c Claims) Claims { return stuck{c} }})
		var dead, a answers
		dead.call(t.Context(), r, 1, sharing(request("x")))
		time.Sleep(time.Second)
		a.call(t.Context(), w.replicas[0], 5, sharing(request("x")))
		time.Sleep(11 * time.Second) // the token has landed, and the holder has taken it
		w.kill(r)
		dead.calls.Wait()
		a.calls.Wait()
		if len(a.errs) > 0 || len(a.tokens) != 1 || a.sources[FromSolve] != 1 || w.service.sold() != 1 {
			t.Errorf("%d tokens, %v, %d bought, %v", len(a.tokens), a.sources, w.service.sold(), a.errs)
		}
	})
}

// told are claims that answer what they are told, one answer for each time that they
// are asked.
type told struct {
	Claims
	answers chan dedup.Claim
}

func (c told) Enter(context.Context, dedup.ClaimEntry) (dedup.Claim, error) { return <-c.answers, nil }

// Who comes after the end of a solve is not told its error, also where the replica has
// not heard of the end.
func TestWhoComesAfterAnErrorTriesAnew(t *testing.T) {
	play(t, 0, func(t *testing.T, w *scenario) {
		claims := told{answers: make(chan dedup.Claim, 3)}
		r := w.start(doubles{claims: func(Claims) Claims { return claims }})
		var early, late answers
		claims.answers <- dedup.Claim{State: dedup.ClaimSolving, Solve: "one"}
		early.call(t.Context(), r, 1, sharing(request("x")))
		time.Sleep(100 * time.Millisecond)
		claims.answers <- dedup.Claim{State: dedup.ClaimError, Solve: "one", Value: encodeError(&SolveError{Reason: "unsolvable"})}
		claims.answers <- dedup.Claim{State: dedup.ClaimShared, Value: encodeToken(pool.Token{Order: "o", Value: "another", Dies: time.Now().Add(time.Minute)}, time.Minute), Left: time.Minute}
		late.call(t.Context(), r, 1, sharing(request("x")))
		early.calls.Wait()
		late.calls.Wait()
		if failed[*SolveError](&early) != 1 || late.tokens["another"] != 1 {
			t.Errorf("early %v, late %v %v", early.errs, late.tokens, late.errs)
		}
	})
}

// An error ends the solve for those who wait, at all replicas; who comes after it tries
// anew.
func TestAnErrorReachesThoseWhoWait(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		w.service.fail = true
		var a answers
		a.call(t.Context(), w.replicas[0], 5, sharing(request("x"))).call(t.Context(), w.replicas[1], 5, sharing(request("x"))).calls.Wait()
		if failed[*SolveError](&a) != 10 || w.service.sold() != 1 {
			t.Errorf("%d bought, %v", w.service.sold(), a.errs)
		}
		w.service.with(func() { w.service.fail = false })
		if token, err := w.replicas[1].Solve(t.Context(), sharing(request("x"))); err != nil || token.Source != FromSolve {
			t.Errorf("the next one: %+v, %v", token, err)
		}
	})
}

// Errors of every kind are told alike at all replicas.
func TestSharedErrorsKeepTheirKind(t *testing.T) {
	for name, err := range map[string]error{
		"failed":  &SolveError{Reason: "a"},
		"refused": &SolveError{Refused: true, Reason: "b"},
		"outage":  &OutageError{Reason: "c"},
		"budget":  &BudgetError{Reason: "d", RetryAfter: time.Minute},
		"rate":    &pool.RateError{RetryAfter: time.Second},
		"full":    &pool.EmptyError{Full: true},
	} {
		got := readVerdict(dedup.Claim{State: dedup.ClaimError, Value: encodeError(err)}, 0).err
		if got == nil || got.Error() != err.Error() {
			t.Errorf("%s: %v for %v", name, got, err)
		}
		var refused *SolveError
		if errors.As(got, &refused) && refused.Refused != (name == "refused") {
			t.Errorf("%s: %+v", name, refused)
		}
	}
	for _, value := range []string{"", "{", "{}", `{"token":null}`} {
		var failed *SolveError
		if got := readVerdict(dedup.Claim{State: dedup.ClaimError, Value: []byte(value)}, 0); !errors.As(got.err, &failed) {
			t.Errorf("%q: %+v", value, got)
		}
	}
}

// A holder that was replaced by one with another proxy leaves it its order.
func TestAHolderTakesWhatAnotherProxyBought(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		behind := func(proxy captcha.Secret) Request {
			id := request("x").Guest.Spec.Identity
			id.Proxy, id.ProxyType = proxy, "http"
			return sharing(requestFor(id))
		}
		var dead, a answers
		dead.call(t.Context(), w.replicas[0], 1, behind("one.example.com:80"))
		time.Sleep(time.Second)
		a.call(t.Context(), w.replicas[1], 3, behind("two.example.com:80"))
		time.Sleep(2 * time.Second)
		w.kill(w.replicas[0])
		dead.calls.Wait()
		a.calls.Wait()
		if len(a.errs) > 0 || len(a.tokens) != 1 || w.service.sold() != 1 {
			t.Errorf("%d tokens, %d bought, %v", len(a.tokens), w.service.sold(), a.errs)
		}
	})
}

// A holder that lets go leaves its order to one with yet another proxy, also where it had
// found nothing of the holder before it.
func TestWhoLetsGoLeavesItsOrder(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		behind := func(proxy captcha.Secret) Request {
			id := request("x").Guest.Spec.Identity
			id.Proxy, id.ProxyType = proxy, "http"
			return sharing(requestFor(id))
		}
		waitShortly := func(r Request) {
			r.Take.Wait = time.Second
			if _, err := w.replicas[0].Solve(t.Context(), r); err == nil {
				t.Error("a token came before its time")
			}
			time.Sleep(6 * time.Second)
		}
		w.service.with(func() { w.service.fail = true })
		waitShortly(behind("one.example.com:80"))
		time.Sleep(10 * time.Second) // its order fails, and nobody is there to be told
		w.service.with(func() { w.service.fail, w.service.lead = false, 30*time.Second })
		waitShortly(behind("two.example.com:80"))
		token, err := w.replicas[0].Solve(t.Context(), behind("three.example.com:80"))
		if err != nil || token.Value != "answer of task-2" || w.service.sold() != 2 {
			t.Errorf("%+v, %v, %d bought", token, err, w.service.sold())
		}
	})
}

// A holder that dies right after it has bought for its own proxy leaves its order to one
// with yet another proxy.
func TestWhoDiesLeavesItsOrder(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		behind := func(proxy captcha.Secret) Request {
			id := request("x").Guest.Spec.Identity
			id.Proxy, id.ProxyType = proxy, "http"
			return sharing(requestFor(id))
		}
		w.service.with(func() { w.service.fail = true })
		short := behind("one.example.com:80")
		short.Take.Wait = time.Second
		if _, err := w.replicas[0].Solve(t.Context(), short); err == nil {
			t.Error("a token came before its time")
		}
		time.Sleep(16 * time.Second) // its order fails, and nobody is there to be told
		w.service.with(func() { w.service.fail, w.service.lead = false, 30*time.Second })
		var dead answers
		dead.call(t.Context(), w.replicas[0], 1, behind("two.example.com:80"))
		time.Sleep(1500 * time.Millisecond)
		w.kill(w.replicas[0])
		dead.calls.Wait()
		token, err := w.replicas[1].Solve(t.Context(), behind("three.example.com:80"))
		if err != nil || token.Value != "answer of task-2" || w.service.sold() != 2 {
			t.Errorf("%+v, %v, %d bought", token, err, w.service.sold())
		}
	})
}

// flaky are claims that sometimes do not answer.
type flaky struct {
	Claims
	away atomic.Bool
}

func (f *flaky) Enter(ctx context.Context, e dedup.ClaimEntry) (dedup.Claim, error) {
	if f.away.Load() {
		return dedup.Claim{}, redisdb.ErrDown
	}
	return f.Claims.Enter(ctx, e)
}

func (f *flaky) Hold(ctx context.Context, key captcha.ID, fence int64, id captcha.ID) (mine, wanted bool, err error) {
	if f.away.Load() {
		return false, false, redisdb.ErrDown
	}
	return f.Claims.Hold(ctx, key, fence, id)
}

// Where claims do not answer, who comes is told at once, and who waits bears it for a
// while.
func TestClaimsAreAway(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		f := &flaky{}
		r := w.start(doubles{claims: func(c Claims) Claims { f.Claims = c; return f }})
		f.away.Store(true)
		began := time.Now()
		if _, err := r.Solve(t.Context(), sharing(request("x"))); !errors.Is(err, redisdb.ErrDown) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		f.away.Store(false)
		var holder, a answers
		holder.call(t.Context(), w.replicas[0], 1, sharing(request("x")))
		time.Sleep(time.Second)
		a.call(t.Context(), r, 5, sharing(request("x")))
		time.Sleep(time.Second)
		f.away.Store(true)
		time.Sleep(3 * time.Second)
		began = time.Now()
		if _, err := r.Solve(t.Context(), sharing(request("x"))); !errors.Is(err, redisdb.ErrDown) || time.Since(began) > time.Second {
			t.Errorf("beside those who wait, after %v: %v", time.Since(began), err)
		}
		f.away.Store(false)
		holder.calls.Wait()
		a.calls.Wait()
		if len(a.errs)+len(holder.errs) > 0 || w.service.sold() != 1 {
			t.Errorf("%v, %v, %d bought", holder.errs, a.errs, w.service.sold())
		}
	})
}

// A stop sends away who waits, and leaves nothing behind.
func TestAStopSendsAwayWhoWaits(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		var a answers
		a.call(t.Context(), w.replicas[0], 3, sharing(request("x"))).call(t.Context(), w.replicas[0], 3, request("y"))
		time.Sleep(3 * time.Second)
		w.end(w.replicas[0])
		a.calls.Wait()
		if len(a.errs) != 6 {
			t.Fatalf("%v", a.errs)
		}
		for _, err := range a.errs {
			if !errors.Is(err, pool.ErrClosed) {
				t.Errorf("told %v", err)
			}
		}
	})
}

// Where too many solves are shared at once, who asks for one more is told to come again.
func TestTooManyShares(t *testing.T) {
	ss := &shares{of: map[captcha.ID]*claimed{}, begunBell: make(chan struct{}, 1)}
	for i := range mostShares {
		ss.of[captcha.ID(strconv.Itoa(i))] = &claimed{}
	}
	var full *pool.EmptyError
	if _, err := ss.join(&waiter{r: sharing(request("x"))}); !errors.As(err, &full) || !full.Full {
		t.Errorf("one more: %v", err)
	}
}
