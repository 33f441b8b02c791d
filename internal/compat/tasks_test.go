//go:build !race

package compat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb/redistest"
	"poold/internal/solve"
	"poold/internal/solve/solvetest"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const page = "https://e.example/login"

// side is a replica with its tasks, and the client of a test.
type side struct {
	*solvetest.Peer

	t     *testing.T
	tasks *Tasks
	terms Terms // of the next calls
	heard []string
}

func begin(t *testing.T, w *solvetest.World, terms Terms) *side {
	s := &side{Peer: w.Start(), t: t, terms: terms}
	s.tasks = New(s.Pool, s.Solver, slog.New(slog.DiscardHandler))
	return s
}

// submit submits a task, and notes the cause if it is refused.
func (s *side) submit() string {
	terms := s.terms
	number, err := s.tasks.Submit(s.t.Context(), "qa", captcha.Turnstile, terms)
	if err != nil {
		s.heard = append(s.heard, "submit: "+CauseOf(err).Code)
	}
	return number
}

// poll polls a task, and notes what the client hears.
func (s *side) poll(number string) {
	s.heard = append(s.heard, s.pollAs(s.t.Context(), number, "qa"))
}

func (s *side) pollAs(ctx context.Context, number, caller string) string {
	got, err := s.tasks.Poll(ctx, number, caller, func(task Task) (Terms, error) {
		terms := s.terms
		if task.Guest {
			spec := *terms.Guest
			spec.Identity, spec.ID, spec.Image = task.Parameters, pool.Guest(task.Parameters.ID()), nil
			terms.Guest = &spec
		}
		return terms, nil
	})
	if err != nil {
		return CauseOf(err).Code
	}
	return fmt.Sprintf("%s (%s)", got.Token.Value, got.Token.Source)
}

// all returns what the client heard.
func (s *side) all() string { return cmp.Or(strings.Join(s.heard, ", "), "nothing") }

func after(d time.Duration) { time.Sleep(d) }

func guestTerms(*solvetest.World) Terms { return termsOf(solvetest.GuestSpec(page)) }

func pictureTerms(*solvetest.World) Terms { return termsOf(solvetest.PictureSpec("cat")) }

func termsOf(spec *purchase.Spec) Terms {
	call := pool.Call{ID: spec.ID, Margin: spec.Margin, MostTickets: solve.MostWaiting}
	return Terms{Request: solve.Request{Call: &call, Guest: spec}}
}

func targetTerms(w *solvetest.World) Terms {
	spec := *solvetest.GuestSpec(page)
	spec.ID, spec.Guest, spec.Depth, spec.Budgets = spec.Identity.ID(), false, 0, nil
	w.Target(spec)
	return Terms{Request: solve.Request{Call: &pool.Call{ID: spec.ID, Margin: spec.Margin, MostTickets: 8}}}
}

// stories are the scenes of TestStories. testdata/stories.txt has what their clients heard.
var stories = []struct {
	name  string
	terms func(w *solvetest.World) Terms
	play  func(w *solvetest.World, a, b *side)
}{
	{"a pooled task takes its token at the first poll, and every replica repeats it while it lives",
		targetTerms, func(w *solvetest.World, a, b *side) {
			ctx, call := context.Background(), *a.terms.Call
			call.Name, call.Wait = "someone", time.Second
			_, _ = a.Pool.Take(ctx, &call)
			after(10 * time.Second) // a token is ready
			number := a.submit()
			stock, _ := a.Pool.Counts(ctx, pool.Query{ID: call.ID})
			a.heard = append(a.heard, fmt.Sprint(stock.Fresh, " ready"))
			a.poll(number)
			a.poll(number)
			b.poll(number)
			after(solvetest.Life)
			b.poll(number)
		}},
	{"a waiting task is one request, however often it is polled", targetTerms, func(_ *solvetest.World, a, b *side) {
		number := a.submit()
		a.poll(number)
		after(4 * time.Second)
		b.poll(number)
		after(7 * time.Second)
		b.poll(number)
		a.poll(number)
	}},
	{"exactly one of several polls at the same time is the first", targetTerms, func(_ *solvetest.World, a, b *side) {
		number := a.submit()
		after(11 * time.Second)
		heard, counted := make(chan string), map[string]int{}
		for i := range 20 {
			go func() { heard <- []*side{a, b}[i%2].pollAs(context.Background(), number, "qa") }()
		}
		for range 20 {
			counted[<-heard]++
		}
		a.heard = append(a.heard, fmt.Sprint(counted))
	}},
	{"a guest's task is bought at its submit, and survives its replica", guestTerms, func(_ *solvetest.World, a, b *side) {
		number := a.submit()
		a.Kill()
		after(10 * time.Second)
		b.poll(number)
		b.poll(number)
	}},
	{"if its replica dies before the order, a poll heals it", guestTerms, func(w *solvetest.World, a, b *side) {
		w.Set(func(w *solvetest.World) { w.Concurrency = 0 })
		number := a.submit()
		a.Kill()
		w.Set(func(w *solvetest.World) { w.Concurrency = 1 })
		after(20 * time.Second)
		b.poll(number)
		after(15 * time.Second)
		b.poll(number)
	}},
	{"nothing new is ordered for a guest's task that nobody polls", guestTerms, func(w *solvetest.World, a, _ *side) {
		w.Set(func(w *solvetest.World) { w.Concurrency = 0 })
		number := a.submit()
		after(40 * time.Second)
		w.Set(func(w *solvetest.World) { w.Concurrency = 1 })
		after(40 * time.Second)
		a.heard = append(a.heard, fmt.Sprint(w.Sold(), " sold"))
		a.poll(number)
		after(15 * time.Second)
		a.poll(number)
	}},
	{"a submit learns at once that the parameters are refused", guestTerms, func(w *solvetest.World, a, b *side) {
		w.Set(func(w *solvetest.World) { w.End = solvetest.Fail(pool.BadParameters, "wrong sitekey") })
		a.tasks.most, b.tasks.most = 1, 1 // refused tasks are not unfinished
		a.submit()
		b.submit()
	}},
	{"and that nothing can be bought", guestTerms, func(w *solvetest.World, a, b *side) {
		w.Set(func(w *solvetest.World) { w.NoProvider = errors.New("no provider") })
		a.submit()
		w.Set(func(w *solvetest.World) { w.NoProvider = nil })
		b.terms.Guest.Budgets[0].PerDay = 1
		b.submit()
		b.submit()
		b.terms.Rate = pool.Rate{Count: 2, Per: time.Minute}
		b.submit()
	}},
	{"a failed order fails its task, at every poll", guestTerms, func(w *solvetest.World, a, b *side) {
		w.Set(func(w *solvetest.World) { w.End = solvetest.Fail(pool.Failed, "unsolvable") })
		number := a.submit()
		after(11 * time.Second)
		b.poll(number)
		after(time.Minute)
		a.poll(number)
	}},
	{"a token that expires unread ends its task, and nothing is bought again",
		targetTerms, func(_ *solvetest.World, a, b *side) {
			number := a.submit()
			after(5 * time.Minute)
			b.poll(number)
		}},
	{"a record lives for 15 min", guestTerms, func(_ *solvetest.World, a, _ *side) {
		number := a.submit()
		after(15*time.Minute + time.Second)
		a.poll(number)
	}},
	{"the unfinished tasks of a caller are bounded", targetTerms, func(_ *solvetest.World, a, b *side) {
		a.tasks.most, b.tasks.most = 2, 2
		first := a.submit()
		after(time.Second)
		b.submit()
		a.submit()
		after(11 * time.Second)
		a.poll(first)
		b.submit()
		b.submit()
		after(15*time.Minute + time.Second)
		b.submit()
		after(time.Second)
	}},
	{"tasks have at most half of the tickets", targetTerms, func(_ *solvetest.World, a, b *side) {
		for range 5 {
			a.submit()
		}
		call := *b.terms.Call
		call.Name, call.Wait = "someone", time.Second
		_, err := b.Pool.Take(context.Background(), &call)
		b.heard = append(b.heard, err.Error())
	}},
	{"a target that cannot buy refuses tasks, and a waiting task until it can",
		targetTerms, func(w *solvetest.World, a, b *side) {
			w.Set(func(w *solvetest.World) { w.Concurrency = 0 })
			number := a.submit()
			after(time.Second) // its order is refused now, and not after the last poll
			a.terms.Out = func(context.Context) bool { return true }
			a.submit()
			a.poll(number)
			w.Set(func(w *solvetest.World) { w.Concurrency = 1 })
			b.poll(number)
			after(15 * time.Second)
			a.poll(number)
		}},
	{"a poll that hangs up delivers nothing and loses nothing", targetTerms, func(_ *solvetest.World, a, b *side) {
		number := a.submit()
		gone, hangUp := context.WithCancel(context.Background())
		hangUp()
		a.pollAs(gone, number, "qa")
		after(11 * time.Second)
		a.pollAs(gone, number, "qa")
		b.poll(number)
	}},
	{"other callers have no such task, and no task has a report before its token",
		guestTerms, func(_ *solvetest.World, a, b *side) {
			number := a.submit()
			a.heard = append(a.heard, a.pollAs(context.Background(), number, "other"))
			report := func(s *side, caller string) {
				task, order, err := s.tasks.Report(context.Background(), number, caller)
				if err != nil {
					s.heard = append(s.heard, CauseOf(err).Code)
					return
				}
				outcome, sale, err := s.Pool.Report(context.Background(), order, task.Identity, true, caller, "n", "")
				s.heard = append(s.heard, fmt.Sprint(outcome, " ", sale.Provider, " ", sale.Task, " ", err))
			}
			report(a, "qa")
			after(11 * time.Second)
			b.poll(number)
			report(b, "other")
			after(solvetest.Life + time.Minute) // long after the token's death
			report(b, "qa")
		}},
	{"a picture is bought by the replica of its submit", pictureTerms, func(w *solvetest.World, a, b *side) {
		var held atomic.Int32
		a.terms.Reserve = func() (func(), error) { held.Add(1); return func() { held.Add(-1) }, nil }
		w.Set(func(w *solvetest.World) { w.Concurrency = 0 })
		number := a.submit()
		b.poll(number)
		w.Set(func(w *solvetest.World) { w.Concurrency = 1 })
		after(5 * time.Second)
		a.heard = append(a.heard, fmt.Sprint("held ", held.Load()))
		after(10 * time.Second)
		b.poll(number)
		a.heard = append(a.heard, fmt.Sprint("held ", held.Load()))
		w.Set(func(w *solvetest.World) { w.NoProvider = errors.New("no provider") })
		a.submit()
		after(time.Second)
		a.heard = append(a.heard, fmt.Sprint("held ", held.Load()))
	}},
	{"a picture is ordered again if the service was busy", pictureTerms, func(w *solvetest.World, a, _ *side) {
		busy := solvetest.Fail(pool.Busy, "no slot")
		end := func(n int, e *pool.End) string {
			if n == 1 {
				return busy(n, e)
			}
			return ""
		}
		w.Set(func(w *solvetest.World) { w.End = end })
		number := a.submit()
		after(25 * time.Second)
		a.poll(number)
	}},
	{"a picture whose replica died before the order fails in the end", pictureTerms, func(w *solvetest.World, a, b *side) {
		w.Set(func(w *solvetest.World) { w.Concurrency = 0 })
		number := a.submit()
		a.Kill()
		w.Set(func(w *solvetest.World) { w.Concurrency = 1 })
		after(4 * time.Minute)
		b.poll(number)
		after(61 * time.Second)
		b.poll(number)
		after(time.Minute)
		b.poll(number)
	}},
	{"a guest with a proxy is bought by the replica of its submit alone",
		guestTerms, func(w *solvetest.World, a, b *side) {
			spec := a.terms.Guest
			spec.Identity.Proxy, spec.Identity.ProxyType = "user:secret@proxy:80", "http"
			spec.ID = pool.Guest(spec.Identity.ID())
			a.terms.Call.ID, b.terms = spec.ID, a.terms
			w.Set(func(w *solvetest.World) { w.Concurrency = 0 })
			number := a.submit()
			b.poll(number)
			after(20 * time.Second)
			a.poll(number)
			after(15 * time.Second)
			w.Set(func(w *solvetest.World) { w.Concurrency = 1 })
			after(25 * time.Second)
			b.poll(number)
			if stored, _ := a.DB.HGetAll(context.Background(), "{p}:client_task:"+number).Result(); strings.Contains(
				fmt.Sprint(stored), "secret") {
				a.heard = append(a.heard, "the record has the password")
			}
		}},
	{"a task survives an outage of Redis", guestTerms, func(w *solvetest.World, a, _ *side) {
		number := a.submit()
		w.Server.SetDown(true)
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		a.heard = append(a.heard, a.pollAs(ctx, number, "qa"))
		_, err := a.tasks.Submit(ctx, "qa", captcha.Turnstile, a.terms)
		a.heard = append(a.heard, CauseOf(err).Error())
		w.Server.SetDown(false)
		after(15 * time.Second)
		a.poll(number)
	}},
}

// Each story begins with an empty Redis and two replicas. Afterwards no registration is left.
func TestStories(t *testing.T) {
	text, err := os.ReadFile("testdata/stories.txt")
	testkit.NoError(t, err)
	want, played := map[string]string{}, ""
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		name, heard, _ := strings.Cut(part, "\n")
		want[name] = heard
	}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := solvetest.New(t)
				a, b := begin(t, w, s.terms(w)), begin(t, w, s.terms(w))
				s.play(w, a, b)
				c, err := b.Pool.Counts(t.Context(), pool.Query{ID: b.terms.Call.ID})
				testkit.NoError(t, err)
				n := c.Counters
				heard := fmt.Sprintf("\ta: %s\n\tb: %s\n\torders %d, hits %d, waited %d, missed %d, left %d, replays %d",
					a.all(), b.all(), w.Sold(), n.Hits, n.Waited, n.Missed, n.Left, n.Replays)
				played += s.name + "\n" + heard + "\n\n"
				if !*testkit.Update {
					testkit.Equal(t, "the clients heard", heard, want[s.name])
				}
				after(taskIdle + time.Second)
				testkit.Equal(t, "guests without pollers that are still known to a refiller", a.Guests()+b.Guests(), 0)
			})
		})
	}
	if *testkit.Update {
		testkit.NoError(t, os.WriteFile("testdata/stories.txt", []byte(played), 0o600))
		return
	}
	testkit.Equal(t, "stories in the file", len(want), len(stories))
}

// Each error of a take has a cause.
func TestCauses(t *testing.T) {
	for _, row := range []struct {
		err  error
		want *Cause
	}{
		{&pool.EmptyError{Full: true}, NoSlot},
		{&pool.RateError{}, NoSlot},
		{&pool.FailedError{}, Unsolvable},
		{&pool.FailedError{BadParameters: true}, Refused},
		{&pool.FailedError{NotPlaced: pool.ReasonBudget}, NoSlot},
		{&pool.FailedError{NotPlaced: pool.ReasonBrake}, NoSlot},
		{fmt.Errorf("a take: %w", pool.ErrDown), StoreDown},
		{pool.ErrClosed, Stopping},
		{NotAllowed, NotAllowed},
		{errors.New("a bug"), Broken},
	} {
		testkit.Equal(t, "the cause of "+fmt.Sprint(row.err), CauseOf(row.err), row.want)
	}
}
