//go:build !race

package solve_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/claims"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb/redistest"
	"poold/internal/solve"
	. "poold/internal/solve/solvetest"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const page = "https://e.example/login"

// A story plays with two replicas and returns what the callers got. At its end each order is in the counters.
type story struct {
	name string
	play func(w *World, a, b *Peer) []string
}

// shared returns a request that shares its solve, whatever its proxy.
func shared(s *purchase.Spec, wait time.Duration) solve.Request {
	r, identity := Request(s, wait, ""), s.Identity
	identity.Proxy, identity.ProxyType = "", ""
	r.Share = &solve.Share{Key: identity.ID(), Sitekey: identity.Sitekey, Pageurl: identity.Pageurl}
	return r
}

// answer is the answer to a request.
type answer struct {
	Token pool.Token
	Err   error
	Took  time.Duration
}

// String names the token or the kind of error, and the time.
func (a answer) String() string {
	failed := (*pool.FailedError)(nil)
	what := fmt.Sprintf("%s (%s)", a.Token.Value, a.Token.Source)
	switch {
	case errors.As(a.Err, &failed) && failed.NotPlaced == pool.ReasonBudget:
		what = "budget: " + failed.Reason
	case errors.As(a.Err, &failed) && failed.NotPlaced != "":
		what = "outage: " + failed.Reason
	case errors.As(a.Err, &failed) && failed.BadParameters:
		what = "refused: " + failed.Reason
	case errors.As(a.Err, &failed):
		what = "failed: " + failed.Reason
	case a.Err != nil:
		what = a.Err.Error()
	}
	return fmt.Sprintf("%s after %v", what, a.Took.Truncate(time.Second))
}

// send sends a request to a replica in the background.
func send(ctx context.Context, r *Peer, request solve.Request) <-chan answer {
	answers, began := make(chan answer, 1), time.Now()
	go func() {
		token, err := r.Solver.Solve(ctx, request)
		answers <- answer{token, err, time.Since(began)}
	}()
	return answers
}

// collect waits for answers, and lists them sorted.
func collect(answers ...<-chan answer) (list []string) {
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

func ask(r *Peer, wait time.Duration) <-chan answer {
	return send(context.Background(), r, Request(GuestSpec(page), wait, ""))
}

func sharing(r *Peer) <-chan answer {
	return send(context.Background(), r, shared(GuestSpec(page), time.Minute))
}

// endWhileAway is a story in which the claim store does not answer while a shared solve ends, or
// executes the calls without an answer. One caller has bought the token, wherever it waits, and all others share it.
func endWhileAway(executed bool) func(w *World, a, b *Peer) []string {
	return func(_ *World, a, b *Peer) []string {
		for _, r := range []*Peer{a, b} {
			outageOf(r).delay = 900 * time.Millisecond
			outageOf(r).executed.Store(executed)
		}
		first := []<-chan answer{sharing(a), sharing(a), sharing(a)}
		time.Sleep(time.Second)
		second := []<-chan answer{sharing(b), sharing(b)}
		time.Sleep(8 * time.Second)
		outageOf(a).on.Store(true)
		outageOf(b).on.Store(true)
		time.Sleep(6 * time.Second)
		list := collect(first...)
		outageOf(a).on.Store(false)
		outageOf(b).on.Store(false)
		list = append(list, timeless(collect(second...))...)
		list = append(list, collect(sharing(a), sharing(b))...)
		time.Sleep(2 * time.Second)
		sum := saved(a)
		shared := sum[pool.SavedSharedWait] + sum[pool.SavedSharedCache]
		delete(sum, pool.SavedSharedWait)
		delete(sum, pool.SavedSharedCache)
		return append(list, fmt.Sprint("counted ", shared, " shared, and ", sum))
	}
}

func keyed(r *Peer, key string) <-chan answer {
	return send(context.Background(), r, Request(GuestSpec(page), time.Minute, key))
}

func brake(r *Peer, kind, reason string, length time.Duration) {
	_, _ = r.Pool.SetBrake(context.Background(), "main.k", kind, reason, length, 0)
}

func picture(r *Peer, bytes string) <-chan answer {
	return send(context.Background(), r, Request(PictureSpec(bytes), time.Minute, ""))
}

// stories are about requests that share no solve.
var stories = []story{
	{"each request buys one token", func(_ *World, a, b *Peer) []string {
		return collect(ask(a, time.Minute), ask(a, time.Minute), ask(b, time.Minute))
	}},
	{"a time-out leaves the order for the next caller", func(_ *World, a, b *Peer) []string {
		list := collect(ask(a, 4*time.Second))
		time.Sleep(10 * time.Second)
		return append(list, collect(ask(b, time.Minute))...)
	}},
	{"a hang-up leaves the order for the next caller", func(_ *World, a, b *Peer) []string {
		ctx, hangUp := context.WithTimeout(context.Background(), 4*time.Second)
		defer hangUp()
		list := collect(send(ctx, a, Request(GuestSpec(page), time.Minute, "")))
		time.Sleep(10 * time.Second)
		return append(list, collect(ask(b, time.Minute))...)
	}},
	{"callers that leave while Redis is away leave no ticket", func(w *World, a, b *Peer) []string {
		w.Set(func(w *World) { w.Concurrency = 0 })
		first := ask(a, 4*time.Second)
		time.Sleep(2 * time.Second)
		w.Server.SetDown(true)
		list := timeless(collect(first))
		time.Sleep(20 * time.Second)
		w.Server.SetDown(false)
		w.Set(func(w *World) { w.Concurrency = 1 })
		time.Sleep(10 * time.Second)
		return append(list, collect(ask(b, time.Minute))...)
	}},
	{"an Idempotency-Key is one request at every replica, also in flight", func(_ *World, a, b *Peer) []string {
		first := keyed(a, "k")
		time.Sleep(3 * time.Second)
		list := timeless(collect(first, keyed(a, "k"), keyed(b, "k")))
		return append(list, collect(keyed(b, "k"))...)
	}},
	{"other Idempotency-Keys, and those of other callers, are other requests", func(_ *World, a, b *Peer) []string {
		other := Request(GuestSpec(page), time.Minute, "")
		solve.Identify(other.Call, "other", "k")
		return collect(keyed(a, "k"), send(context.Background(), b, other))
	}},
	{"an Idempotency-Key for another captcha, or another min_ttl, is a conflict", func(_ *World, a, b *Peer) []string {
		first := keyed(a, "k")
		time.Sleep(time.Second)
		longer := Request(GuestSpec(page), time.Minute, "")
		longer.Call.MinTTL = time.Minute
		solve.Identify(longer.Call, "qa", "k")
		list := collect(send(context.Background(), b, Request(GuestSpec(page+"2"), time.Minute, "k")),
			send(context.Background(), b, longer))
		return append(list, collect(first)...)
	}},
	{"a request that is repeated after a kill gets the token of its first order", func(_ *World, a, b *Peer) []string {
		ctx, cut := context.WithCancel(context.Background())
		lost := send(ctx, a, Request(GuestSpec(page), time.Minute, "k"))
		time.Sleep(2800 * time.Millisecond)
		a.Kill()
		list := collect(keyed(b, "k"))
		cut()
		<-lost
		return list
	}},
	{"a failed order answers one caller, wherever it waits", func(w *World, a, b *Peer) []string {
		end := func(n int, e *pool.End) string {
			if n == 2 {
				Fail(pool.Failed, "unsolvable")(n, e)
			}
			return ""
		}
		w.Set(func(w *World) { w.End = end })
		return collect(ask(a, time.Minute), ask(b, time.Minute), ask(a, time.Minute))
	}},
	{"callers with one Idempotency-Key fail together, a later one tries again", func(w *World, a, b *Peer) []string {
		w.Set(func(w *World) { w.End = Fail(pool.Failed, "unsolvable") })
		list := timeless(collect(keyed(a, "k"), keyed(a, "k"), keyed(b, "k")))
		w.Set(func(w *World) { w.End = nil })
		return append(list, collect(keyed(b, "k"))...)
	}},
	{"refused parameters answer all callers, and those of the next minute", func(w *World, a, b *Peer) []string {
		w.Set(func(w *World) { w.End = Fail(pool.BadParameters, "wrong sitekey") })
		w.Set(func(w *World) { w.Concurrency = 0 }) // they wait for a permit
		waiting := []<-chan answer{ask(a, time.Minute), ask(a, time.Minute), ask(b, time.Minute)}
		time.Sleep(time.Second)
		w.Set(func(w *World) { w.Concurrency = 1 })
		list := timeless(collect(waiting...))
		list = append(list, collect(ask(a, time.Minute), ask(b, time.Minute))...)
		w.Set(func(w *World) { w.End = nil })
		time.Sleep(61 * time.Second)
		return append(list, collect(ask(a, time.Minute))...)
	}},
	{"an exhausted budget answers those for whom there is no order", func(w *World, a, b *Peer) []string {
		var all []<-chan answer
		for _, r := range []*Peer{a, b, a, b} {
			spec := GuestSpec(page)
			spec.Budgets = []pool.Budget{{Scope: pool.ScopeSolve, PerHour: 2}}
			all = append(all, send(context.Background(), r, Request(spec, time.Minute, "")))
			time.Sleep(time.Second)
		}
		return append(collect(all...), "used up: "+w.UsedUp)
	}},
	{"an identity that fails again and again answers all callers at once", func(w *World, a, b *Peer) []string {
		w.Set(func(w *World) { w.Concurrency, w.End = 0, Fail(pool.Refused, "no") })
		all := []<-chan answer{ask(a, time.Minute), ask(a, time.Minute), ask(b, time.Minute), ask(b, time.Minute)}
		time.Sleep(time.Second) // they wait for a permit
		w.Set(func(w *World) { w.Concurrency = 1 })
		list := timeless(collect(all...))
		return append(list, collect(ask(b, time.Minute))...)
	}},
	{"callers learn at once that no provider accepts orders", func(w *World, a, b *Peer) []string {
		w.Set(func(w *World) { w.NoProvider = errors.New("no provider") })
		list := collect(ask(a, time.Minute))
		w.Set(func(w *World) { w.NoProvider = nil })
		brake(b, pool.BrakeAccount, "no money", 20*time.Second)
		return append(list, collect(ask(b, time.Minute))...)
	}},
	{"callers wait for the end of a short outage, and for permits", func(w *World, a, b *Peer) []string {
		w.Set(func(w *World) { w.Concurrency = 1 })
		brake(b, pool.BrakeOutage, "no answer", 2*time.Second)
		return timeless(collect(ask(a, time.Minute), ask(a, time.Minute)))
	}},
	{"callers wait for a service that has no capacity", func(_ *World, a, b *Peer) []string {
		brake(b, string(pool.Busy), "no slot", 6*time.Second)
		return timeless(collect(ask(a, time.Minute)))
	}},
	{"a request beyond the rate of all guests is refused", func(_ *World, a, b *Peer) []string {
		var all []<-chan answer
		for i, r := range []*Peer{a, b, a} {
			request := Request(GuestSpec(page+fmt.Sprint(i)), time.Minute, "")
			request.Rate = pool.Rate{Count: 2, Per: time.Minute}
			all = append(all, send(context.Background(), r, request))
			time.Sleep(time.Second)
		}
		return collect(all...)
	}},
	{"pictures are bought where their bytes are", func(w *World, a, b *Peer) []string {
		w.Set(func(w *World) { w.Concurrency = 0 }) // the first one waits for a permit
		first := picture(a, "cat")
		time.Sleep(2 * time.Second)
		w.Set(func(w *World) { w.Concurrency = 9 })
		end := func(n int, e *pool.End) string {
			if n == 3 {
				Fail(pool.Failed, "unreadable")(n, e)
			}
			return ""
		}
		w.Set(func(w *World) { w.End = end })
		time.Sleep(2 * time.Second)
		list := append(collect(first, picture(b, "dog")), collect(picture(a, "bird"))...)
		return list
	}},
	{"a picture whose caller has gone is not bought", func(w *World, a, _ *Peer) []string {
		w.Set(func(w *World) { w.Concurrency = 0 })
		list := collect(send(context.Background(), a, Request(PictureSpec("cat"), time.Second, "")))
		w.Set(func(w *World) { w.Concurrency = 9 })
		time.Sleep(10 * time.Second)
		return list
	}},
	{"two callers with one picture buy twice, and a caller that leaves leaves its order",
		func(_ *World, a, b *Peer) []string {
			first := picture(a, "cat")
			time.Sleep(time.Second)
			list := collect(send(context.Background(), b, Request(PictureSpec("cat"), 5*time.Second, "")))
			time.Sleep(time.Second)
			return append(list, collect(first, picture(b, "cat"))...)
		}},
	{"a target's caller learns from two checks that nothing can come, and from nothing else",
		func(w *World, a, b *Peer) []string {
			spec := *GuestSpec(page)
			spec.ID, spec.Guest = spec.Identity.ID(), false
			var out atomic.Bool
			var checks atomic.Int32
			request := Request(&spec, time.Minute, "")
			request.Guest, request.Out = nil, func(context.Context) bool { return checks.Add(1) == 1 || out.Load() }
			w.Target(spec)
			list := collect(send(context.Background(), a, request))
			w.Set(func(w *World) { w.NoProvider = errors.New("no provider") })
			solve.Identify(request.Call, "qa", "")
			next := send(context.Background(), b, request)
			time.Sleep(3 * time.Second)
			out.Store(true)
			before := checks.Load()
			list = append(list, collect(next)...)
			c, _ := b.Pool.Counts(context.Background(), pool.Query{ID: spec.ID})
			return append(list, fmt.Sprint("missed ", c.Counters.Missed, ", left ", c.Counters.Left, ", checks ",
				checks.Load()-before))
		}},
}

// sharedStories are about requests that share a solve. Who of them has the ticket depends on chance.
var sharedStories = []story{
	{"callers at all replicas share one solve, and one of them has bought it", func(_ *World, a, b *Peer) []string {
		list := collect(sharing(a), sharing(a), sharing(b), sharing(b))
		return append(list, collect(sharing(b))...)
	}},
	{"a token is shared for 60 s", func(_ *World, a, b *Peer) []string {
		list := collect(sharing(a))
		time.Sleep(55 * time.Second)
		list = append(list, collect(sharing(b))...)
		time.Sleep(6 * time.Second)
		return append(list, collect(sharing(b))...)
	}},
	{"a shared solve outlives its first caller", func(_ *World, a, b *Peer) []string {
		first := send(context.Background(), a, shared(GuestSpec(page), 3*time.Second))
		time.Sleep(time.Second)
		return collect(first, sharing(b), sharing(b))
	}},
	{"a shared solve needs the rate once, whoever goes on with it", func(_ *World, a, b *Peer) []string {
		limited := func(r *Peer, wait time.Duration) <-chan answer {
			request := shared(GuestSpec(page), wait)
			request.Rate = pool.Rate{Count: 1, Per: time.Minute}
			return send(context.Background(), r, request)
		}
		first := limited(a, 3*time.Second)
		time.Sleep(time.Second)
		second := limited(a, 5*time.Second)
		time.Sleep(time.Second)
		return collect(first, second, limited(b, time.Minute))
	}},
	{"the next holder of a shared solve goes on with the order of a dead one", func(_ *World, a, b *Peer) []string {
		first := sharing(a)
		time.Sleep(2 * time.Second)
		second := sharing(b)
		time.Sleep(2 * time.Second)
		a.Kill()
		<-first
		return collect(second)
	}},
	{"the next holder of a shared solve follows a stopped one within a second", func(_ *World, a, b *Peer) []string {
		first := sharing(a)
		time.Sleep(2 * time.Second)
		second := sharing(b)
		time.Sleep(7300 * time.Millisecond)
		a.Stop()
		return append(collect(first), collect(second)...)
	}},
	{"callers share the token although its holder dies just before it comes", func(_ *World, a, b *Peer) []string {
		first := sharing(a)
		time.Sleep(time.Second)
		second, third := sharing(b), sharing(b)
		time.Sleep(8900 * time.Millisecond)
		a.Kill()
		<-first
		return collect(second, third)
	}},
	{"callers share the token although its holder dies after it has taken it", func(_ *World, a, b *Peer) []string {
		outageOf(a).delay = time.Minute
		first := sharing(a)
		time.Sleep(1300 * time.Millisecond) // so that the lease does not expire when the other replica asks
		second, third := sharing(b), sharing(b)
		time.Sleep(8200 * time.Millisecond)
		outageOf(a).on.Store(true)
		time.Sleep(1500 * time.Millisecond)
		a.Kill()
		list := collect(second, third)
		outageOf(a).on.Store(false)
		<-first
		return list
	}},
	{"callers that wait tolerate a claim store that is away for a while, and new ones do not",
		func(_ *World, a, b *Peer) []string {
			outageOf(b).on.Store(true)
			list := collect(sharing(b))
			outageOf(b).on.Store(false)
			holder := sharing(a)
			time.Sleep(time.Second)
			first := sharing(b)
			time.Sleep(time.Second)
			outageOf(b).on.Store(true)
			time.Sleep(3300 * time.Millisecond)
			list = append(list, collect(sharing(b))...)
			outageOf(b).on.Store(false)
			return append(list, collect(holder, first)...)
		}},
	{"callers that wait do not tolerate a claim store that is away for long", func(w *World, a, _ *Peer) []string {
		w.Set(func(w *World) { w.Concurrency = 0 })
		first := sharing(a)
		time.Sleep(2 * time.Second)
		outageOf(a).on.Store(true)
		return collect(first)
	}},
	{"callers share a token that comes while the claim store hangs", endWhileAway(false)},
	{"callers share a token although the claim store's answer to its end is lost", endWhileAway(true)},
	{"a shared solve has a limit, and its failure names it", func(w *World, a, b *Peer) []string {
		w.Set(func(w *World) { w.Concurrency = 0 })
		patient := func(r *Peer) <-chan answer {
			return send(context.Background(), r, shared(GuestSpec(page), 2*claims.Longest))
		}
		first := patient(a)
		time.Sleep(2 * time.Second)
		return timeless(collect(first, patient(a), patient(b)))
	}},
	{"a token is not shared within its margin", func(_ *World, a, b *Peer) []string {
		spec := GuestSpec(page)
		spec.Lifetime = Margin + 20*time.Second
		ask := func(r *Peer) <-chan answer { return send(context.Background(), r, shared(spec, time.Minute)) }
		list := collect(ask(a))
		time.Sleep(19 * time.Second)
		list = append(list, collect(ask(b))...)
		time.Sleep(2 * time.Second)
		return append(list, collect(ask(b))...)
	}},
	{"all callers of a shared solve learn its failure, and the next ones try again",
		func(w *World, a, b *Peer) []string {
			w.Set(func(w *World) { w.End = Fail(pool.Failed, "unsolvable") })
			first := sharing(a)
			time.Sleep(time.Second)
			list := collect(first, sharing(b), sharing(b))
			w.Set(func(w *World) { w.End = nil })
			return append(list, collect(sharing(b))...)
		}},
	{"a shared solve whose callers have gone leaves its token to the next one", func(_ *World, a, b *Peer) []string {
		list := collect(send(context.Background(), a, shared(GuestSpec(page), 2*time.Second)))
		time.Sleep(10 * time.Second)
		return append(list, collect(sharing(b))...)
	}},
}

// Each request of its own buys, waits, fails and is repeated as testdata/stories.txt says.
func TestStories(t *testing.T) { playStories(t, stories, "testdata/stories.txt", true) }

// Requests that share a solve get what testdata/shared.txt says, and the solve is bought once.
func TestSharedStories(t *testing.T) { playStories(t, sharedStories, "testdata/shared.txt", false) }

// playStories compares what the callers got, and if `counted`, what the counters of all guests are, with a file. Each
// story begins with an empty Redis and two replicas.
func playStories(t *testing.T, stories []story, file string, counted bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.NoError(t, err)
	want, played := map[string]string{}, ""
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		name, answers, _ := strings.Cut(part, "\n")
		want[name] = answers
	}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log testkit.Log
				w := New(t)
				w.Wrap, w.Log = newBreakable, log.Logger()
				if !counted {
					w.Lead += 300 * time.Millisecond // other replicas ask each second, and not when the token lands
				}
				a, b := w.Start(), w.Start()
				got := append(s.play(w, a, b), fmt.Sprint("orders ", w.Sold()))
				c, err := b.Pool.Counts(t.Context(), pool.Query{ID: pool.Guests})
				testkit.NoError(t, err)
				if n := c.Counters; counted {
					got = append(got, fmt.Sprintf("hits %d, waited %d, missed %d, left %d, replays %d, denied %d",
						n.Hits, n.Waited, n.Missed, n.Left, n.Replays, n.Denied))
				}
				answers := "\t" + strings.Join(got, "\n\t")
				played += s.name + "\n" + answers + "\n\n"
				if !*testkit.Update {
					testkit.Equal(t, "the answers", answers, want[s.name])
				}
				testkit.Equal(t, "failures to answer callers", log.Count("callers not told"), 0)
				testkit.Equal(t, "guests without callers that are still known to a refiller", a.Guests()+b.Guests(), 0)
			})
		})
	}
	if *testkit.Update {
		testkit.NoError(t, os.WriteFile(file, []byte(played), 0o600))
		return
	}
	testkit.Equal(t, "stories in the file", len(want), len(stories))
}

// saved returns the savings of the day.
func saved(r *Peer) map[pool.SavingsSource]int64 {
	totals, _ := r.Pool.Totals(context.Background())
	return totals.Savings[0].BySource
}

// Each request is counted once.
func TestEachRequestIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		a := w.Start()
		collect(keyed(a, "k"))
		collect(keyed(a, "k"))
		collect(ask(a, time.Second))
		time.Sleep(15 * time.Second)
		collect(ask(a, time.Minute))
		collect(sharing(a), sharing(a))
		collect(sharing(a))
		w.Set(func(w *World) { w.End = Fail(pool.BadParameters, "wrong sitekey") })
		collect(ask(a, time.Minute))
		time.Sleep(2 * time.Second)
		want := map[pool.SavingsSource]int64{pool.SavedSolve: 2, pool.SavedReplay: 1, pool.SavedMissed: 1, pool.SavedPool: 1,
			pool.SavedSharedWait: 1, pool.SavedSharedCache: 1, pool.SavedDenied: 1}
		testkit.DeepEqual(t, "counted", saved(a), want)
	})
}
