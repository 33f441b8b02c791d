package purchase

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/provider"
	"poold/internal/redisdb"
)

// notReady makes the task ready at the n-th poll.
func notReady(n int) func(context.Context, int) (provider.Solution, error) {
	return func(_ context.Context, poll int) (provider.Solution, error) {
		if poll < n {
			return provider.Solution{}, provider.ErrNotReady
		}
		return provider.Solution{Token: "03AFexample", UserAgent: "UA"}, nil
	}
}

// near allows for the jitter of the polls.
func near(got, want, by time.Duration) bool { return (got - want).Abs() <= by }

// The whole life of an order: every step in its order, the waits of the
// provider's type, the age from the last poll that found nothing.
func TestCollectSolves(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.submit = func(context.Context) (string, error) {
			time.Sleep(time.Second)
			return "t1", nil
		}
		solves := notReady(3)
		var asked []time.Time
		s.provider.poll = func(ctx context.Context, n int) (provider.Solution, error) {
			asked = append(asked, time.Now())
			time.Sleep(200 * time.Millisecond)
			return solves(ctx, n)
		}
		o := s.order(t)
		if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
			t.Fatal(r.Err)
		}
		s.want(t, "mark", "submit", "claim t1", "store t1", "poll t1", "poll t1", "poll t1", "settle", "release", "login at one: solved")
		l := s.stock.landed()[0]
		// 1 s of submit, 15 s of first wait, two intervals, three polls.
		if !near(l.Lead, 26600*time.Millisecond, time.Second) {
			t.Errorf("lead %v, want about 26.6s", l.Lead)
		}
		// It may have been solved as soon as the second poll was on its way.
		if want := asked[1].Sub(o.placed); l.SincePlaced != want {
			t.Errorf("born %v after the placing, want %v, when the second poll began", l.SincePlaced, want)
		}
		if !near(asked[2].Sub(asked[1]), 5200*time.Millisecond, 500*time.Millisecond) {
			t.Errorf("%v between polls, want 5s with 10%% jitter after the answer", asked[2].Sub(asked[1]))
		}
		if l.Value != "03AFexample" || l.UserAgent != "UA" || l.Provider != "one" || l.Ref != o.Ref || l.Task != "t1" || l.Identity != spec().ID || l.Lifetime != 120*time.Second {
			t.Errorf("landing %+v", l)
		}
		if orders, places := s.stock.counts(); orders != 0 || places != 0 || s.buyer.slots()[0] != 0 {
			t.Errorf("left: %d orders, %d places, %d slots", orders, places, s.buyer.slots()[0])
		}
	})
}

// A task that is solved at the first poll may have been solved right after the
// submit, so its age counts from before that.
func TestAgeCountsFromTheSubmit(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.submit = func(context.Context) (string, error) {
			time.Sleep(2 * time.Second)
			return "t1", nil
		}
		if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Err != nil {
			t.Fatal(r.Err)
		}
		if l := s.stock.landed()[0]; l.SincePlaced != 0 || l.Lead != 17*time.Second {
			t.Errorf("born %v after the placing, lead %v, want 0s and 17s", l.SincePlaced, l.Lead)
		}
	})
}

// Every failure of section "what an answer does to the order" of doc.go.
func TestFailureClasses(t *testing.T) {
	fault := func(c provider.Class) *provider.Error { return &provider.Error{Class: c, Code: "CODE"} }
	unknown := &provider.Error{Class: provider.Capacity, Code: "no answer", Unknown: true}
	cases := map[string]struct {
		submit, poll error
		outcome      Outcome
		hopeless     bool
		removed      string // how the order was removed; "" = it stays, with its place
	}{
		"capacity at submit":       {submit: fault(provider.Capacity), outcome: Busy, removed: "fail bought=false"},
		"account at submit":        {submit: fault(provider.Account), outcome: Busy, removed: "fail bought=false"},
		"parameters at submit":     {submit: fault(provider.Parameters), outcome: Refused, hopeless: true, removed: "fail bought=false"},
		"unknown code at submit":   {submit: fault(provider.Task), outcome: Failed, removed: "fail bought=false"},
		"submit without an answer": {submit: unknown, outcome: Lost},
		"submit with a stray error": {
			submit: context.DeadlineExceeded, outcome: Lost,
		},
		"task fault":         {poll: fault(provider.Task), outcome: Failed, removed: "fail bought=true"},
		"parameters at poll": {poll: fault(provider.Parameters), outcome: Failed, hopeless: true, removed: "fail bought=true"},
		"never ready":        {poll: provider.ErrNotReady, outcome: Failed, removed: "fail bought=true"},
		"account at poll, for ever": {
			poll: fault(provider.Account), outcome: Lost, removed: "fail bought=true",
		},
	}
	for name, c := range cases {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			if c.submit != nil {
				s.provider.submit = func(context.Context) (string, error) { return "", c.submit }
			}
			s.provider.poll = func(context.Context, int) (provider.Solution, error) { return provider.Solution{}, c.poll }
			r := s.buyer.orders.collect(t.Context(), s.order(t))
			if r.Outcome != c.outcome || r.Hopeless != c.hopeless || !errors.Is(r.Err, cmp.Or(c.submit, c.poll)) {
				t.Errorf("collect = %+v, want %v, hopeless %v", r, c.outcome, c.hopeless)
			}
			var got *provider.Error
			if errors.As(c.submit, &got) && !strings.Contains(r.Err.Error(), got.Code) {
				t.Errorf("the error does not name the provider's code: %v", r.Err)
			}
			happened := s.all()
			if !slices.Contains(happened, "login at one: "+string(c.outcome)) {
				t.Errorf("outcome not told: %q", happened)
			}
			orders, places := s.stock.counts()
			if stays := orders == 1 && places == 1; stays != (c.removed == "") {
				t.Errorf("left: %d orders, %d places", orders, places)
			}
			if c.removed != "" && !slices.Contains(happened, c.removed) {
				t.Errorf("want %q in %q", c.removed, happened)
			}
			if s.buyer.slots()[0] != 0 {
				t.Error("the slot was not freed")
			}
		})
	}
}

// A task is given up at the provider's time-out, with a last poll then, and
// not before. The end has a code that says so.
func TestTimeout(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		var events []Event
		s.buyer.observe = listener{witness{s.ledger}, &events}
		var last time.Duration
		began := time.Now()
		s.provider.poll = func(context.Context, int) (provider.Solution, error) {
			last = time.Since(began)
			return provider.Solution{}, provider.ErrNotReady
		}
		if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Outcome != Failed {
			t.Errorf("collect = %v, want Failed", r.Err)
		}
		if last != s.provider.limit || time.Since(began) != s.provider.limit {
			t.Errorf("last poll after %v, end after %v, want %v", last, time.Since(began), s.provider.limit)
		}
		if len(events) != 1 || events[0].Code != "TIMEOUT" {
			t.Errorf("events: %+v, want one with the code TIMEOUT", events)
		}
	})
}

// A provider that asks for time at a poll gets it, and the task is not lost.
func TestPollHonoursDelay(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		var at []time.Duration
		began := time.Now()
		s.provider.poll = func(_ context.Context, n int) (provider.Solution, error) {
			at = append(at, time.Since(began))
			if n == 1 {
				return provider.Solution{}, &provider.Error{Class: provider.Capacity, Code: "slow down", Delay: 30 * time.Second}
			}
			return provider.Solution{Token: "03AFexample"}, nil
		}
		if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Err != nil {
			t.Fatal(r.Err)
		}
		if len(at) != 2 || at[1]-at[0] != 30*time.Second {
			t.Errorf("polls at %v, want 30s between them", at)
		}
		// The first poll said nothing about the task, so it does not make it younger.
		if l := s.stock.landed()[0]; l.SincePlaced != 0 {
			t.Errorf("born %v after the placing, want 0s", l.SincePlaced)
		}
	})
}

// Redis that is away for a while, at any step, costs no paid task; the age of
// the token goes on counting.
func TestRedisBlinks(t *testing.T) {
	const gap = 40 * time.Second
	for _, step := range []string{"store t1", "settle", "release"} {
		runBubble(t, step, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			s.provider.poll = notReady(2)
			var since time.Time
			tries := 0
			s.stock.fault = func(now string) error {
				if now != step {
					return nil
				}
				if tries++; tries == 1 {
					since = time.Now()
				}
				if time.Since(since) < gap {
					return redisdb.ErrDown
				}
				return nil
			}
			if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Err != nil {
				t.Fatal(r.Err)
			}
			if got := s.all(); step == "store t1" && !slices.Equal(got[:5], []string{"mark", "submit", "claim t1", "store t1", "poll t1"}) {
				t.Errorf("polling began before the task id was stored: %q", got)
			}
			if tries < 5 || tries > 60 {
				t.Errorf("%d tries in %v", tries, gap)
			}
			l := s.stock.landed()
			if len(l) != 1 {
				t.Fatalf("%d landings", len(l))
			}
			if step == "settle" && l[0].SincePlaced >= gap {
				t.Errorf("born %v after the placing: the landing came late, the token did not", l[0].SincePlaced)
			}
			if step == "settle" && l[0].Lead > gap {
				t.Errorf("lead %v counts the time that Redis was away for", l[0].Lead)
			}
			if orders, places := s.stock.counts(); orders != 0 || places != 0 {
				t.Errorf("left: %d orders, %d places", orders, places)
			}
		})
	}
}

// A step whose answer was lost is done once and reported as done.
func TestLostRepliesOfRedis(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		lost := map[string]bool{}
		s.stock.lostReply = func(step string) error {
			if !lost[step] {
				lost[step] = true
				return redisdb.ErrDown
			}
			return nil
		}
		slot, _, _ := mustAdmit(t, s.buyer)
		lost["reserve"], lost["place"], lost["mark"] = true, true, true // those are taken back
		o, err := s.buyer.placer.place(t.Context(), slot, spec())
		if err != nil {
			t.Fatal(err)
		}
		if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
			t.Fatal(r.Err)
		}
		if n := s.stock.tokens(); n != 1 {
			t.Errorf("%d landings, want 1", n)
		}
		if got := s.all(); got[len(got)-1] != "login at one: solved" {
			t.Errorf("what was told: %q", got)
		}
		if orders, places := s.stock.counts(); orders != 0 || places != 0 {
			t.Errorf("left: %d orders, %d places", orders, places)
		}
	})
}

// Redis that stays away ends the trying at the order's deadline, loudly.
func TestRedisStaysAway(t *testing.T) {
	for _, step := range []string{"store t1", "settle"} {
		runBubble(t, step, func(t *testing.T) {
			var logged bytes.Buffer
			s := newTestBuyer(t, 1)
			s.buyer.log = slog.New(slog.NewTextHandler(&logged, nil))
			s.stock.fault = func(now string) error {
				if now == step {
					return redisdb.ErrDown
				}
				return nil
			}
			o := s.order(t)
			if r := s.buyer.orders.collect(t.Context(), o); r.Outcome != Lost || !errors.Is(r.Err, redisdb.ErrDown) {
				t.Errorf("collect = %v, want Lost and redisdb.ErrDown", r.Err)
			}
			if left := time.Until(o.deadline); left < 0 || left > 3*time.Second {
				t.Errorf("ended %v before the deadline", left)
			}
			if n := strings.Count(logged.String(), "a paid task is lost"); n != 1 {
				t.Errorf("logged %d times:\n%s", n, logged.String())
			}
			if strings.Contains(logged.String(), "03AFexample") {
				t.Errorf("a token in the log:\n%s", logged.String())
			}
		})
	}
}

// A submit whose answer was lost is told once while it goes on, not per order,
// and again after the provider had answered in between.
func TestUnansweredSubmitsAreLoggedOncePerState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		s := newTestBuyer(t, 9)
		s.buyer.log = slog.New(slog.NewTextHandler(&logged, nil))
		unanswered := &provider.Error{Class: provider.Capacity, Code: "EOF", Unknown: true}
		for _, err := range []error{unanswered, unanswered, nil, unanswered} {
			s.provider.submit = func(context.Context) (string, error) { return "t1", err }
			_ = s.buyer.orders.collect(t.Context(), s.order(t))
		}
		if n := strings.Count(logged.String(), "a submit had no answer"); n != 2 {
			t.Errorf("logged %d times, want 2:\n%s", n, logged.String())
		}
	})
}

// A panic in one order becomes its error, is told and logged with its stack,
// and the slot is free again. The order counts as bought.
func TestPanicInCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		s := newTestBuyer(t, 1)
		s.buyer.log = slog.New(slog.NewTextHandler(&logged, nil))
		s.provider.poll = func(context.Context, int) (provider.Solution, error) { panic("a fault of ours") }
		r := s.buyer.orders.collect(t.Context(), s.order(t))
		if r.Outcome != Lost || !strings.Contains(r.Err.Error(), "a fault of ours") {
			t.Errorf("collect = %v, want Lost with the panic", r.Err)
		}
		s.want(t, "mark", "submit", "claim t1", "store t1", "poll t1", "login at one: lost")
		if !strings.Contains(logged.String(), "collect_test.go") {
			t.Errorf("no stack in the log:\n%s", logged.String())
		}
		if orders, places := s.stock.counts(); orders != 1 || places != 1 || s.buyer.slots()[0] != 0 {
			t.Errorf("left: %d orders, %d places, %d slots", orders, places, s.buyer.slots()[0])
		}
	})
}

// A failure that the first try told Redis of, without an answer, is this replica's;
// so is that of an order which nobody else can have ended.
func TestAFailureThatIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		callbacks bool
		spoil     func(s *testBuyer, o *Order)
	}{
		"the answer was lost": {true, func(s *testBuyer, _ *Order) {
			lost := false
			s.stock.lostReply = func(step string) error {
				if step == "fail bought=true" && !lost {
					lost = true
					return redisdb.ErrDown
				}
				return nil
			}
		}},
		"redis has forgotten it": {false, func(s *testBuyer, o *Order) { s.stock.forgetOrder(o.Ref) }},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			if c.callbacks {
				s.reload(calling("first"))
			}
			o := s.order(t)
			s.provider.poll = func(context.Context, int) (provider.Solution, error) {
				c.spoil(s, o)
				return provider.Solution{}, &provider.Error{Class: provider.Task, Code: "CODE"}
			}
			r := s.buyer.orders.collect(t.Context(), o)
			if r.Outcome != Failed || !slices.Contains(s.all(), "login at one: failed") {
				t.Errorf("collect = %v, %q", r.Err, s.all())
			}
			s.wantLeft(t, 0, 0, 0)
		})
	}
}

// A poll says that the task has failed, but another replica has ended the order or
// taken it over: it is not counted a second time.
func TestAFailureSeenTooLateIsNotTold(t *testing.T) {
	for _, gone := range []bool{false, true} {
		runBubble(t, fmt.Sprint(gone), func(t *testing.T) {
			s := newCallbackBuyer(t, "no letters")
			o := s.order(t)
			s.provider.poll = func(ctx context.Context, _ int) (provider.Solution, error) {
				if gone {
					s.stock.landElsewhere(ctx, o.Ref)
				} else {
					s.stock.steal(ctx, o.Ref)
				}
				return provider.Solution{}, &provider.Error{Class: provider.Task, Code: "ERROR_WRONG_CAPTCHA_ID"}
			}
			r := s.buyer.orders.collect(t.Context(), o)
			if r.Outcome != Elsewhere || slices.Contains(s.all(), "login at one: failed") {
				t.Errorf("collect = %v, %q", r.Err, s.all())
			}
		})
	}
}

// A stop that comes while the submit is being noted takes the order back.
func TestAStopBeforeTheSubmitBuysNothing(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		ctx, stop := context.WithCancel(t.Context())
		s.stock.lostReply = func(step string) error {
			if step == "mark" {
				stop()
			}
			return nil
		}
		r := s.buyer.orders.collect(ctx, o)
		if slices.Contains(s.all(), "submit") {
			t.Errorf("bought after the stop: %v, %q", r.Err, s.all())
		}
	})
}

type panicky struct{ witness }

func (panicky) Ended(Event) { panic("a fault of ours") }

// A fault of the observer ends one order, not the daemon.
func TestAPanicOfTheObserverStaysInside(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.observe = panicky{witness{s.ledger}}
		defer func() {
			if c := recover(); c != nil {
				t.Errorf("escaped: %v", c)
			}
		}()
		_ = s.buyer.orders.collect(t.Context(), s.order(t))
	})
}

// A stop lets a submit in flight finish and stores its task id, then leaves
// the order in the journal without polling.
func TestStopWhileSubmitting(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		ctx, stop := context.WithCancel(t.Context())
		s.provider.submit = func(own context.Context) (string, error) {
			time.AfterFunc(time.Second, stop)
			select {
			case <-own.Done():
				return "", own.Err()
			case <-time.After(10 * time.Second):
				return "t1", nil
			}
		}
		if r := s.buyer.orders.collect(ctx, s.order(t)); !errors.Is(r.Err, context.Canceled) {
			t.Errorf("collect = %v, want canceled", r.Err)
		}
		s.want(t, "mark", "submit", "claim t1", "store t1", "let go")
		if orders, places := s.stock.counts(); orders != 1 || places != 1 || s.buyer.slots()[0] != 0 {
			t.Errorf("left: %d orders, %d places, %d slots", orders, places, s.buyer.slots()[0])
		}
	})
}

// A stop while polling returns at once and leaves the order in the journal.
func TestStopWhilePolling(t *testing.T) {
	for name, after := range map[string]time.Duration{"in the wait": 3 * time.Second, "in a poll": 16 * time.Second} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			s.provider.poll = func(ctx context.Context, _ int) (provider.Solution, error) {
				<-ctx.Done()
				return provider.Solution{}, ctx.Err()
			}
			ctx, stop := context.WithTimeout(t.Context(), after)
			defer stop()
			began := time.Now()
			if r := s.buyer.orders.collect(ctx, s.order(t)); !errors.Is(r.Err, context.DeadlineExceeded) {
				t.Errorf("collect = %v, want ctx's error", r.Err)
			}
			if took := time.Since(began); took != after {
				t.Errorf("returned after %v, want %v", took, after)
			}
			if orders, places := s.stock.counts(); orders != 1 || places != 1 {
				t.Errorf("left: %d orders, %d places", orders, places)
			}
			if got := s.all(); slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "login at") }) {
				t.Errorf("an outcome was told of an order that goes on: %q", got)
			}
		})
	}
}

// Nothing is bought after the end: an order that was placed but not submitted
// is taken back.
func TestStopBeforeSubmitting(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if r := s.buyer.orders.collect(ctx, o); !errors.Is(r.Err, context.Canceled) {
			t.Errorf("collect = %v, want canceled", r.Err)
		}
		s.want(t, "fail bought=false", "release")
		if s.buyer.slots()[0] != 0 {
			t.Error("the slot was not freed")
		}
	})
}

// A token that has come is landed in spite of a stop, also if Redis is away
// for a moment; but the stop does not wait for Redis for ever.
func TestStopWithATokenInHand(t *testing.T) {
	for _, away := range []time.Duration{2 * time.Second, time.Hour} {
		runBubble(t, fmt.Sprint(away), func(t *testing.T) {
			s := newTestBuyer(t, 1)
			ctx, stop := context.WithCancel(t.Context())
			began := time.Now()
			s.provider.poll = func(context.Context, int) (provider.Solution, error) {
				stop()
				began = time.Now()
				return provider.Solution{Token: "03AFexample"}, nil
			}
			s.stock.fault = func(step string) error {
				if step == "settle" && time.Since(began) < away {
					return redisdb.ErrDown
				}
				return nil
			}
			r := s.buyer.orders.collect(ctx, s.order(t))
			landed := len(s.stock.landed()) == 1
			if want := away < stopGrace; landed != want || (r.Outcome == Solved) != want {
				t.Errorf("landed %v, collect = %v", landed, r.Err)
			}
			if took := time.Since(began); took > stopGrace {
				t.Errorf("the stop waited for %v", took)
			}
		})
	}
}

// A token that the service kept ready is as old as it says, older than its order.
func TestAgedTokens(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.poll = func(context.Context, int) (provider.Solution, error) {
			return provider.Solution{Token: "03AFexample", Dated: true, SinceSubmit: -50 * time.Second}, nil
		}
		o := s.order(t)
		if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
			t.Fatal(r.Err)
		}
		if l := s.stock.landed()[0]; l.SincePlaced != o.submitted.Sub(o.placed)-50*time.Second || l.Lead <= 0 {
			t.Errorf("%+v", l)
		}
	})
}
