//go:build !race

package solve_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/claims"
	"poold/internal/pool"
	"poold/internal/redisdb/redistest"
	"poold/internal/solve"
	. "poold/internal/solve/solvetest"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const page = "https://e.example/login"

// A story plays with two replicas and returns what the callers got. At its end each order is in the counters.
type story func(t *testing.T, w *World, a, b *Replica) []string

func after(d time.Duration) { time.Sleep(d) }

// collect waits for answers, and lists them sorted.
func collect(answers ...<-chan Answer) (list []string) {
	for _, a := range answers {
		list = append(list, (<-a).String())
	}
	slices.Sort(list)
	return list
}

// timeless lists answers without their times.
func timeless(list []string) []string {
	for i := range list {
		list[i], _, _ = strings.Cut(list[i], " after")
	}
	return list
}

func ask(r *Replica, wait time.Duration) <-chan Answer {
	return r.Ask(context.Background(), Request(GuestSpec(page), wait, ""))
}

func sharing(r *Replica) <-chan Answer {
	return r.Ask(context.Background(), Sharing(GuestSpec(page), time.Minute))
}

// endWhileAway is a story in which the claim store does not answer while a shared solve ends. One caller has bought
// the token, wherever it waits, and all others share it.
func endWhileAway(carried bool) story {
	return func(t *testing.T, _ *World, a, b *Replica) []string {
		for _, r := range []*Replica{a, b} {
			frozen(r).Delay = 900 * time.Millisecond
			frozen(r).Carried.Store(carried)
		}
		first := []<-chan Answer{sharing(a), sharing(a), sharing(a)}
		after(time.Second)
		second := []<-chan Answer{sharing(b), sharing(b)}
		after(8 * time.Second)
		frozen(a).On.Store(true)
		frozen(b).On.Store(true)
		after(6 * time.Second)
		list := collect(first...)
		frozen(a).On.Store(false)
		frozen(b).On.Store(false)
		list = append(list, timeless(collect(second...))...)
		list = append(list, collect(sharing(a), sharing(b))...)
		after(2 * time.Second)
		sum := saved(t, a)
		if sum[pool.SavedSolve] != 1 || sum[pool.SavedWaiting]+sum[pool.SavedAfter] != 6 || len(sum) > 3 {
			t.Errorf("counted %v of 7 requests", sum)
		}
		return list
	}
}

var endedWhileAway = []string{
	"token 1 (shared) after 10s", "token 1 (shared) after 10s", "token 1 (solve) after 10s", "token 1 (shared)", "token 1 (shared)",
	"token 1 (shared) after 0s", "token 1 (shared) after 0s",
}

func keyed(r *Replica, key string) <-chan Answer {
	return r.Ask(context.Background(), Request(GuestSpec(page), time.Minute, key))
}

func picture(r *Replica, bytes string) <-chan Answer {
	return r.Ask(context.Background(), Request(PictureSpec(bytes), time.Minute, ""))
}

var stories = []struct {
	name   string
	play   story
	want   []string // what the callers got
	sold   int
	counts string // hits, waited, missed, left, replays, refused of all guests; "" = not checked
}{
	{
		name: "each request buys one token", sold: 3, counts: "0 3 0 0 0 0",
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			return collect(ask(a, time.Minute), ask(a, time.Minute), ask(b, time.Minute))
		},
		want: []string{"token 1 (solve) after 10s", "token 2 (solve) after 10s", "token 3 (solve) after 10s"},
	},
	{
		name: "a time-out leaves the order for the next caller", sold: 1, counts: "1 0 1 0 0 0",
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			list := collect(ask(a, 4*time.Second))
			after(10 * time.Second)
			return append(list, collect(ask(b, time.Minute))...)
		},
		want: []string{"pool: empty after 4s", "token 1 (pool) after 0s"},
	},
	{
		name: "so does a hang-up", sold: 1, counts: "1 0 0 1 0 0",
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			ctx, hangUp := context.WithTimeout(context.Background(), 4*time.Second)
			defer hangUp()
			list := collect(a.Ask(ctx, Request(GuestSpec(page), time.Minute, "")))
			after(10 * time.Second)
			return append(list, collect(ask(b, time.Minute))...)
		},
		want: []string{"context deadline exceeded after 4s", "token 1 (pool) after 0s"},
	},
	{
		name: "those who leave while Redis is away leave no ticket", sold: 1, counts: "0 1 0 1 0 0",
		play: func(_ *testing.T, w *World, a, b *Replica) []string {
			w.Set(func(w *World) { w.Concurrency = 0 })
			first := ask(a, 4*time.Second)
			after(2 * time.Second)
			w.Server.SetDown(true)
			list := timeless(collect(first))
			after(20 * time.Second)
			w.Server.SetDown(false)
			w.Set(func(w *World) { w.Concurrency = 1 })
			after(10 * time.Second)
			return append(list, collect(ask(b, time.Minute))...)
		},
		want: []string{"redis does not answer: take: context deadline exceeded", "token 1 (solve) after 10s"},
	},
	{
		name: "a key is one request at every replica, also while it is in flight", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			first := keyed(a, "k")
			after(3 * time.Second)
			list := timeless(collect(first, keyed(a, "k"), keyed(b, "k")))
			return append(list, collect(keyed(b, "k"))...)
		},
		want: []string{"token 1 (replay)", "token 1 (replay)", "token 1 (solve)", "token 1 (replay) after 0s"},
	},
	{
		name: "keys of other callers and other keys are other requests", sold: 2,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			other := Request(GuestSpec(page), time.Minute, "")
			solve.Identify(other.Call, "other", "k")
			return collect(keyed(a, "k"), b.Ask(context.Background(), other))
		},
		want: []string{"token 1 (solve) after 10s", "token 2 (solve) after 10s"},
	},
	{
		name: "a key for another captcha, or another min_ttl, is a conflict", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			first := keyed(a, "k")
			after(time.Second)
			longer := Request(GuestSpec(page), time.Minute, "")
			longer.Call.MinTTL = time.Minute
			solve.Identify(longer.Call, "qa", "k")
			list := collect(b.Ask(context.Background(), Request(GuestSpec(page+"2"), time.Minute, "k")), b.Ask(context.Background(), longer))
			return append(list, collect(first)...)
		},
		want: []string{
			"pool: idempotency key used for another request after 0s", "pool: idempotency key used for another request after 0s",
			"token 1 (solve) after 10s",
		},
	},
	{
		name: "after a kill a repetition gets the token of the first order", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			ctx, cut := context.WithCancel(context.Background())
			lost := a.Ask(ctx, Request(GuestSpec(page), time.Minute, "k"))
			after(2800 * time.Millisecond)
			a.Kill()
			list := collect(keyed(b, "k"))
			cut()
			<-lost
			return list
		},
		want: []string{"token 1 (solve) after 7s"},
	},
	{
		name: "a failed order answers one caller, wherever it waits", sold: 3, counts: "0 2 1 0 0 0",
		play: func(_ *testing.T, w *World, a, b *Replica) []string {
			end := func(n int, e *pool.End) string {
				if n == 2 {
					Fail(pool.Failed, "unsolvable")(n, e)
				}
				return ""
			}
			w.Set(func(w *World) { w.End = end })
			return collect(ask(a, time.Minute), ask(b, time.Minute), ask(a, time.Minute))
		},
		want: []string{"failed: unsolvable after 10s", "token 1 (solve) after 10s", "token 3 (solve) after 10s"},
	},
	{
		name: "callers with one key fail together, and a later one tries again", sold: 2,
		play: func(_ *testing.T, w *World, a, b *Replica) []string {
			w.Set(func(w *World) { w.End = Fail(pool.Failed, "unsolvable") })
			list := timeless(collect(keyed(a, "k"), keyed(a, "k"), keyed(b, "k")))
			w.Set(func(w *World) { w.End = nil })
			return append(list, collect(keyed(b, "k"))...)
		},
		want: []string{"failed: unsolvable", "failed: unsolvable", "failed: unsolvable", "token 2 (solve) after 10s"},
	},
	{
		name: "refused parameters answer all callers, and those of the next minute", sold: 2, counts: "0 1 3 0 0 2",
		play: func(_ *testing.T, w *World, a, b *Replica) []string {
			w.Set(func(w *World) { w.End = Fail(pool.Hopeless, "wrong sitekey") })
			w.Set(func(w *World) { w.Concurrency = 0 }) // they wait for a permit
			waiting := []<-chan Answer{ask(a, time.Minute), ask(a, time.Minute), ask(b, time.Minute)}
			after(time.Second)
			w.Set(func(w *World) { w.Concurrency = 1 })
			list := timeless(collect(waiting...))
			list = append(list, collect(ask(a, time.Minute), ask(b, time.Minute))...)
			w.Set(func(w *World) { w.End = nil })
			after(61 * time.Second)
			return append(list, collect(ask(a, time.Minute))...)
		},
		want: []string{
			"refused: wrong sitekey", "refused: wrong sitekey", "refused: wrong sitekey",
			"refused: wrong sitekey after 0s", "refused: wrong sitekey after 0s", "token 2 (solve) after 10s",
		},
	},
	{
		name: "an exhausted budget answers those for whom there is no order", sold: 2, counts: "0 2 2 0 0 0",
		play: func(_ *testing.T, w *World, a, b *Replica) []string {
			var all []<-chan Answer
			for _, r := range []*Replica{a, b, a, b} {
				spec := GuestSpec(page)
				spec.Budgets = []pool.Budget{{Scope: pool.ScopeSolve, PerHour: 2}}
				all = append(all, r.Ask(context.Background(), Request(spec, time.Minute, "")))
				after(time.Second)
			}
			return append(collect(all...), "used up: "+w.UsedUp)
		},
		want: []string{
			"budget: the budget of solves without a target is used up: 2 of 2 solves in the last 60 minutes; there is room again at 2026-01-02 04:05 UTC after 0s",
			"budget: the budget of solves without a target is used up: 2 of 2 solves in the last 60 minutes; there is room again at 2026-01-02 04:05 UTC after 0s",
			"token 1 (solve) after 10s", "token 2 (solve) after 10s", "used up: /solve",
		},
	},
	{
		name: "an identity that fails again and again answers at once, those who wait too", sold: 3, counts: "0 0 4 0 0 1",
		play: func(_ *testing.T, w *World, a, b *Replica) []string {
			w.Set(func(w *World) { w.Concurrency, w.End = 0, Fail(pool.Refused, "no") })
			all := []<-chan Answer{ask(a, time.Minute), ask(a, time.Minute), ask(b, time.Minute), ask(b, time.Minute)}
			after(time.Second) // they wait for a permit
			w.Set(func(w *World) { w.Concurrency = 1 })
			list := timeless(collect(all...))
			return append(list, collect(ask(b, time.Minute))...)
		},
		want: []string{"failed: no", "failed: no", "failed: no", "failed: no", "failed: no after 0s"},
	},
	{
		name: "callers learn at once that no provider accepts orders", sold: 0, counts: "0 0 2 0 0 0",
		play: func(t *testing.T, w *World, a, b *Replica) []string {
			w.Set(func(w *World) { w.NoProvider = errors.New("no provider") })
			list := collect(ask(a, time.Minute))
			w.Set(func(w *World) { w.NoProvider = nil })
			_, err := b.Pool.Brake(t.Context(), "main.k", pool.BrakeAccount, "no money", 20*time.Second, 0)
			testkit.NoError(t, err)
			return append(list, collect(ask(b, time.Minute))...)
		},
		want: []string{"outage: no provider after 0s", "outage: no money after 0s"},
	},
	{
		name: "callers wait for the end of a short outage, and for permits", sold: 2,
		play: func(t *testing.T, w *World, a, b *Replica) []string {
			w.Set(func(w *World) { w.Concurrency = 1 })
			_, err := b.Pool.Brake(t.Context(), "main.k", pool.BrakeOutage, "no answer", 2*time.Second, 0)
			testkit.NoError(t, err)
			return timeless(collect(ask(a, time.Minute), ask(a, time.Minute)))
		},
		want: []string{"token 1 (solve)", "token 2 (solve)"},
	},
	{
		name: "callers wait for a service that has no capacity", sold: 1,
		play: func(t *testing.T, _ *World, a, b *Replica) []string {
			_, err := b.Pool.Brake(t.Context(), "main.k", string(pool.Busy), "no slot", 6*time.Second, 0)
			testkit.NoError(t, err)
			return timeless(collect(ask(a, time.Minute)))
		},
		want: []string{"token 1 (solve)"},
	},
	{
		name: "the rate of all guests", sold: 2, counts: "0 2 0 0 0 1",
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			var all []<-chan Answer
			for i, r := range []*Replica{a, b, a} {
				request := Request(GuestSpec(page+fmt.Sprint(i)), time.Minute, "")
				request.Rate = pool.Rate{Count: 2, Per: time.Minute}
				all = append(all, r.Ask(context.Background(), request))
				after(time.Second)
			}
			return collect(all...)
		},
		want: []string{"pool: rate limited after 0s", "token 1 (solve) after 10s", "token 2 (solve) after 10s"},
	},
	{
		name: "pictures are bought where their bytes are", sold: 3, counts: "0 2 1 0 0 0",
		play: func(_ *testing.T, w *World, a, b *Replica) []string {
			w.Set(func(w *World) { w.Concurrency = 0 }) // the first one waits for a permit
			first := picture(a, "cat")
			after(2 * time.Second)
			w.Set(func(w *World) { w.Concurrency = 9 })
			end := func(n int, e *pool.End) string {
				if n == 3 {
					Fail(pool.Failed, "unreadable")(n, e)
				}
				return ""
			}
			w.Set(func(w *World) { w.End = end })
			after(2 * time.Second)
			list := append(collect(first, picture(b, "dog")), collect(picture(a, "bird"))...)
			return list
		},
		want: []string{"token 1 (solve) after 12s", "token 2 (solve) after 10s", "failed: unreadable after 10s"},
	},
	{
		name: "a picture whose caller has gone is not bought", sold: 0, counts: "0 0 1 0 0 0",
		play: func(_ *testing.T, w *World, a, _ *Replica) []string {
			w.Set(func(w *World) { w.Concurrency = 0 })
			list := collect(a.Ask(context.Background(), Request(PictureSpec("cat"), time.Second, "")))
			w.Set(func(w *World) { w.Concurrency = 9 })
			after(10 * time.Second)
			return list
		},
		want: []string{"pool: empty after 1s"},
	},
	{
		name: "two callers with one picture buy twice, and a caller that leaves leaves its order", sold: 2, counts: "0 2 1 0 0 0",
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			first := picture(a, "cat")
			after(time.Second)
			list := collect(b.Ask(context.Background(), Request(PictureSpec("cat"), 5*time.Second, "")))
			after(time.Second)
			return append(list, collect(first, picture(b, "cat"))...)
		},
		want: []string{"pool: empty after 5s", "token 1 (solve) after 10s", "token 2 (solve) after 4s"},
	},
	{
		name: "callers at all replicas share one solve, and one of them has bought it", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			list := collect(sharing(a), sharing(a), sharing(b), sharing(b))
			return append(list, collect(sharing(b))...)
		},
		want: []string{
			"token 1 (shared) after 10s", "token 1 (shared) after 10s", "token 1 (shared) after 10s", "token 1 (solve) after 10s",
			"token 1 (shared) after 0s",
		},
	},
	{
		name: "a token is shared for 60 s", sold: 2,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			list := collect(sharing(a))
			after(55 * time.Second)
			list = append(list, collect(sharing(b))...)
			after(6 * time.Second)
			return append(list, collect(sharing(b))...)
		},
		want: []string{"token 1 (solve) after 10s", "token 1 (shared) after 0s", "token 2 (solve) after 10s"},
	},
	{
		name: "a shared solve outlives its first caller", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			first := a.Ask(context.Background(), Sharing(GuestSpec(page), 3*time.Second))
			after(time.Second)
			return collect(first, sharing(b), sharing(b))
		},
		want: []string{"pool: empty after 3s", "token 1 (shared) after 9s", "token 1 (solve) after 9s"},
	},
	{
		name: "a shared solve needs the rate once, whoever goes on with it", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			limited := func(r *Replica, wait time.Duration) <-chan Answer {
				request := Sharing(GuestSpec(page), wait)
				request.Rate = pool.Rate{Count: 1, Per: time.Minute}
				return r.Ask(context.Background(), request)
			}
			first := limited(a, 3*time.Second)
			after(time.Second)
			second := limited(a, 5*time.Second)
			after(time.Second)
			return collect(first, second, limited(b, time.Minute))
		},
		want: []string{"pool: empty after 3s", "pool: empty after 5s", "token 1 (solve) after 8s"},
	},
	{
		name: "the next holder goes on with the order of a dead one", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			first := sharing(a)
			after(2 * time.Second)
			second := sharing(b)
			after(2 * time.Second)
			a.Kill()
			<-first
			return collect(second)
		},
		want: []string{"token 1 (solve) after 8s"},
	},
	{
		name: "the next holder of a stopped one is there at once", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			first := sharing(a)
			after(2 * time.Second)
			second := sharing(b)
			after(7300 * time.Millisecond) // the other replica asks each half second, and must not ask when the token lands
			a.Stop()
			return append(collect(first), collect(second)...)
		},
		want: []string{"pool: closing after 9s", "token 1 (solve) after 8s"},
	},
	{
		name: "a holder dies just before its token comes", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			first := sharing(a)
			after(time.Second)
			second, third := sharing(b), sharing(b)
			after(8900 * time.Millisecond)
			a.Kill()
			<-first
			return collect(second, third)
		},
		want: []string{"token 1 (pool) after 14s", "token 1 (shared) after 14s"},
	},
	{
		name: "a holder dies after it has taken the token", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			frozen(a).Delay = time.Minute
			first := sharing(a)
			after(1300 * time.Millisecond) // so that the lease does not expire when the other replica asks
			second, third := sharing(b), sharing(b)
			after(8200 * time.Millisecond)
			frozen(a).On.Store(true)
			after(1500 * time.Millisecond)
			a.Kill()
			list := collect(second, third)
			frozen(a).On.Store(false)
			<-first
			return list
		},
		want: []string{"token 1 (shared) after 13s", "token 1 (shared) after 13s"},
	},
	{
		name: "those who wait tolerate a claim store that is away for a while, new ones do not", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			frozen(b).On.Store(true)
			list := collect(sharing(b))
			frozen(b).On.Store(false)
			holder := sharing(a)
			after(time.Second)
			first := sharing(b)
			after(time.Second)
			frozen(b).On.Store(true)
			after(3300 * time.Millisecond)
			list = append(list, collect(sharing(b))...)
			frozen(b).On.Store(false)
			return append(list, collect(holder, first)...)
		},
		want: []string{
			"loading a claim: redis does not answer after 0s", "loading a claim: redis does not answer after 0s",
			"token 1 (shared) after 9s", "token 1 (solve) after 10s",
		},
	},
	{
		name: "those who wait do not tolerate it for long", sold: 0,
		play: func(_ *testing.T, w *World, a, _ *Replica) []string {
			w.Set(func(w *World) { w.Concurrency = 0 })
			first := sharing(a)
			after(2 * time.Second)
			frozen(a).On.Store(true)
			return collect(first)
		},
		want: []string{"loading a claim: redis does not answer after 17s"},
	},
	{
		name: "a solve ends while the claim store hangs", sold: 1,
		play: endWhileAway(false),
		want: endedWhileAway,
	},
	{
		name: "the claim store ends a solve, and its answer is lost", sold: 1,
		play: endWhileAway(true),
		want: endedWhileAway,
	},
	{
		name: "a shared solve has a limit, and its failure names it", sold: 0,
		play: func(_ *testing.T, w *World, a, b *Replica) []string {
			w.Set(func(w *World) { w.Concurrency = 0 })
			patient := func(r *Replica) <-chan Answer {
				return r.Ask(context.Background(), Sharing(GuestSpec(page), 2*claims.Longest))
			}
			first := patient(a)
			after(2 * time.Second)
			return collect(first, patient(a), patient(b))
		},
		want: []string{
			"failed: no token came within 3m0s after 2m57s", "failed: no token came within 3m0s after 2m57s",
			"failed: no token came within 3m0s after 2m59s",
		},
	},
	{
		name: "a token is not shared within its margin", sold: 2,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			spec := GuestSpec(page)
			spec.Lifetime = Margin + 20*time.Second
			ask := func(r *Replica) <-chan Answer { return r.Ask(context.Background(), Sharing(spec, time.Minute)) }
			list := collect(ask(a))
			after(19 * time.Second)
			list = append(list, collect(ask(b))...)
			after(2 * time.Second)
			return append(list, collect(ask(b))...)
		},
		want: []string{"token 1 (solve) after 10s", "token 1 (shared) after 0s", "token 2 (solve) after 10s"},
	},
	{
		name: "all callers of a shared solve learn its failure, and the next ones try again", sold: 2,
		play: func(_ *testing.T, w *World, a, b *Replica) []string {
			w.Set(func(w *World) { w.End = Fail(pool.Failed, "unsolvable") })
			list := collect(sharing(a), sharing(b), sharing(b))
			w.Set(func(w *World) { w.End = nil })
			return append(list, collect(sharing(b))...)
		},
		want: []string{
			"failed: unsolvable after 10s", "failed: unsolvable after 10s", "failed: unsolvable after 10s", "token 2 (solve) after 10s",
		},
	},
	{
		name: "a shared solve whose callers have gone leaves its token to the next one", sold: 1,
		play: func(_ *testing.T, _ *World, a, b *Replica) []string {
			list := collect(a.Ask(context.Background(), Sharing(GuestSpec(page), 2*time.Second)))
			after(10 * time.Second)
			return append(list, collect(sharing(b))...)
		},
		want: []string{"pool: empty after 2s", "token 1 (pool) after 0s"},
	},
	{
		name: "a target's caller learns from two checks that nothing can come, and from nothing else", sold: 1,
		play: func(_ *testing.T, w *World, a, b *Replica) []string {
			spec := *GuestSpec(page)
			spec.ID, spec.Guest = spec.Identity.ID(), false
			var out atomic.Bool
			var checks atomic.Int32
			request := Request(&spec, time.Minute, "")
			request.Guest, request.Out = nil, func(context.Context) bool { return checks.Add(1) == 1 || out.Load() }
			w.Target(spec)
			list := collect(a.Ask(context.Background(), request))
			w.Set(func(w *World) { w.NoProvider = errors.New("no provider") })
			solve.Identify(request.Call, "qa", "")
			next := b.Ask(context.Background(), request)
			after(3 * time.Second)
			out.Store(true)
			before := checks.Load()
			list = append(list, collect(next)...)
			c, _ := b.Pool.Look(context.Background(), pool.Query{ID: spec.ID})
			return append(list, fmt.Sprint("missed ", c.Counters.Missed, ", left ", c.Counters.Left, ", checks ", checks.Load()-before))
		},
		want: []string{"token 1 (solve) after 10s", "pool: empty after 4s", "missed 1, left 0, checks 2"},
	},
}

// Each story begins with an empty Redis and two replicas.
func TestStories(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log testkit.Log
				w := New(t)
				w.Wrap, w.Log = newIcebox, log.Logger()
				a, b := w.Start(), w.Start()
				got := s.play(t, w, a, b)
				testkit.Equal(t, "the answers", strings.Join(got, "\n\t"), strings.Join(s.want, "\n\t"))
				testkit.Equal(t, "orders", w.Sold(), s.sold)
				c, err := b.Pool.Look(t.Context(), pool.Query{ID: pool.Guests})
				testkit.NoError(t, err)
				n := c.Counters
				counts := fmt.Sprint(n.Hits, n.Waited, n.Missed, n.Left, n.Replays, n.RefusedRequests)
				if s.counts != "" && counts != s.counts {
					t.Errorf("hits, waited, missed, left, replays, refused: %s, want %s", counts, s.counts)
				}
				testkit.Equal(t, "failures to answer callers", log.Count("callers not told"), 0)
				testkit.Equal(t, "guests without callers that are still known to a refiller", a.Guests()+b.Guests(), 0)
			})
		})
	}
}

// saved returns the savings of the day.
func saved(t *testing.T, r *Replica) map[pool.SavingsSource]int64 {
	totals, err := r.Pool.Totals(t.Context())
	testkit.NoError(t, err)
	return totals.Savings[0].BySource
}

// Each request is counted once.
func TestSavings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		a := w.Start()
		collect(keyed(a, "k"))
		collect(keyed(a, "k"))
		collect(ask(a, time.Second))
		after(15 * time.Second)
		collect(ask(a, time.Minute))
		collect(sharing(a), sharing(a))
		collect(sharing(a))
		w.Set(func(w *World) { w.End = Fail(pool.Hopeless, "wrong sitekey") })
		collect(ask(a, time.Minute))
		after(2 * time.Second)
		want := map[pool.SavingsSource]int64{pool.SavedSolve: 2, pool.SavedReplay: 1, pool.SavedMissed: 1, pool.SavedPool: 1,
			pool.SavedWaiting: 1, pool.SavedAfter: 1, pool.SavedRefused: 1}
		testkit.DeepEqual(t, "counted", saved(t, a), want)
	})
}
