package ondemand

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

// Equal requests at three replicas share one solve.
func TestEqualRequestsShareOneSolve(t *testing.T) {
	play(t, 3, func(t *testing.T, w *scenario) {
		var a answers
		for _, r := range w.replicas {
			a.call(t.Context(), r, 30, sharing(request("x")))
		}
		a.calls.Wait()
		if len(a.errs) > 0 || len(a.tokens) != 1 || a.sources[FromSolve] != 1 || a.sources[FromShared] != 89 || w.service.sold() != 1 {
			t.Errorf("%v, %d tokens, %d bought, %v", a.sources, len(a.tokens), w.service.sold(), a.errs)
		}
		// The token is shared for 60 s after its landing.
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

// Requests are counted by the source of their token.
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
		sum := w.sumSavings(t)
		if sum[dedup.SavedSolve] != 2 || sum[dedup.SavedWaiting] != 19 || sum[dedup.SavedAfter] != 5 || sum[dedup.SavedReplay] != 2 || sum[dedup.SavedPool] != 0 {
			t.Errorf("counted %v, errors %v", sum, a.errs)
		}
	})
}

// The solve goes on while any caller waits, even if the first caller has gone. After all callers have
// gone, the token of the order serves the next caller.
func TestASolveOutlivesItsFirstCaller(t *testing.T) {
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

// If one caller's wait ends early, the solve continues for the other callers.
func TestASharersTimeoutLeavesTheSolve(t *testing.T) {
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

// A holder is killed or stops while its order is in flight, and another replica replaces it. The
// callers of the new holder get the token of this order, one of them as bought. They get the token
// within 10 s after a kill, and immediately after a stop. The end-to-end tests also kill a holder
// after the landing.
func TestAHolderIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(*scenario, *replica)
		after time.Duration
		most  time.Duration // time from the holder's end to the answers
		waits bool          // the token may land before another replica takes over
	}{
		"killed early":               {(*scenario).kill, 3 * time.Second, 10 * time.Second, false},
		"killed before the landing":  {(*scenario).kill, 9900 * time.Millisecond, 10 * time.Second, true},
		"stopped early":              {(*scenario).end, 3 * time.Second, 10 * time.Second, false},
		"stopped before the landing": {(*scenario).end, 9200 * time.Millisecond, time.Second, false},
	} {
		play(t, 2, func(t *testing.T, w *scenario) {
			var gone, a answers
			gone.call(t.Context(), w.replicas[0], 1, sharing(request("x")))
			time.Sleep(time.Second)
			a.call(t.Context(), w.replicas[1], 10, sharing(request("x")))
			time.Sleep(c.after - time.Second)
			c.end(w, w.replicas[0])
			ended := time.Now()
			gone.calls.Wait()
			a.calls.Wait()
			if len(a.errs) > 0 || len(a.tokens) != 1 || w.service.sold() != 1 {
				t.Errorf("%s: %d tokens, %d bought, %v", name, len(a.tokens), w.service.sold(), a.errs)
			}
			// If the token lands before the next replica takes over the claim, the token waits in the stock.
			if a.sources[FromSolve]+a.sources[pool.FromPool] != 1 || a.sources[pool.FromPool] == 1 && !c.waits || a.sources[FromShared] != 9 {
				t.Errorf("%s: handed out as %v", name, a.sources)
			}
			if took := time.Since(ended); took > c.most {
				t.Errorf("%s: served %v later", name, took)
			}
		})
	}
}

// stuck is the claim store of a replica that dies before End succeeds.
type stuck struct{ Claims }

func (s stuck) End(ctx context.Context, _ captcha.ID, _ int64, _ dedup.ClaimEnd) (bool, error) {
	time.Sleep(time.Minute)
	return false, redisdb.ErrDown
}

// A new holder gets the token that the dead holder had taken but not handed out.
func TestANewHolderGetsTheTokenOfADeadOne(t *testing.T) {
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

// The error of a solve answers the pending callers of all replicas. Later callers begin a new solve.
func TestAFailureAnswersAllSharers(t *testing.T) {
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

// If a holder dies right after it bought a token for its proxy, the next holder gets this order,
// even if the next holder uses another proxy.
func TestADeadHoldersClaimKeepsItsOrder(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		w.service.with(func() { w.service.fail = true })
		short := behind("one.example.com:80")
		short.Take.Wait = time.Second
		if _, err := w.replicas[0].Solve(t.Context(), short); err == nil {
			t.Error("a token came before its time")
		}
		time.Sleep(16 * time.Second) // an order without a caller fails
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

// During an outage of the claim store, new callers get the error immediately, and pending callers
// get the error only after a while.
func TestCallersTolerateAnUnavailableClaimStore(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		f := &freezer{}
		r := w.start(doubles{claims: f.before})
		f.on.Store(true)
		began := time.Now()
		if _, err := r.Solve(t.Context(), sharing(request("x"))); !errors.Is(err, redisdb.ErrDown) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		f.on.Store(false)
		var holder, a answers
		holder.call(t.Context(), w.replicas[0], 1, sharing(request("x")))
		time.Sleep(time.Second)
		a.call(t.Context(), r, 5, sharing(request("x")))
		time.Sleep(time.Second)
		f.on.Store(true)
		time.Sleep(3300 * time.Millisecond) // between two checks
		began = time.Now()
		if _, err := r.Solve(t.Context(), sharing(request("x"))); !errors.Is(err, redisdb.ErrDown) || time.Since(began) > atOnce {
			t.Errorf("beside those who wait, after %v: %v", time.Since(began), err)
		}
		f.on.Store(false)
		holder.calls.Wait()
		a.calls.Wait()
		if len(a.errs)+len(holder.errs) > 0 || w.service.sold() != 1 {
			t.Errorf("%v, %v, %d bought", holder.errs, a.errs, w.service.sold())
		}
	})
}

// When a replica stops, all pending callers get pool.ErrClosed.
func TestAStopAnswersPendingCallers(t *testing.T) {
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

// If the limit of shares or the limit of a share's callers is reached, the next caller gets a
// *pool.EmptyError whose field Full is true.
func TestSharesAreLimited(t *testing.T) {
	ss := &shares{of: map[captcha.ID]*share{}}
	for i := range mostShares {
		ss.of[captcha.ID(strconv.Itoa(i))] = &share{}
	}
	var full *pool.EmptyError
	if _, err := ss.solveFor(t.Context(), sharing(request("x"))); !errors.As(err, &full) || !full.Full || len(ss.of) != mostShares {
		t.Errorf("one more: %v, %d shares", err, len(ss.of))
	}
	key := sharing(request("x")).Share.Key
	ss.of = map[captcha.ID]*share{key: {key: key, bell: make(chan struct{}, 1), waiters: make([]*waiter, MostWaiting-1)}}
	if _, err := ss.join(&waiter{r: sharing(request("x"))}); err != nil {
		t.Errorf("the last caller: %v", err)
	}
	if _, err := ss.solveFor(t.Context(), sharing(request("x"))); !errors.As(err, &full) || !full.Full || len(ss.of[key].waiters) != MostWaiting {
		t.Errorf("one more caller: %v, %d wait", err, len(ss.of[key].waiters))
	}
}
