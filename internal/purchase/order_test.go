//go:build !race

package purchase_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/testkit"
)

type providerError = provider.Error

// TestEnds plays every way in which an order of a guest, for which a caller waits, can end, and compares what
// the end leaves with its part of testdata/ends.txt: the rows, the counters, the brakes, the budget, and what the
// caller learns.
func TestEnds(t *testing.T) {
	file, err := os.ReadFile("testdata/ends.txt")
	testkit.NoError(t, err)
	const legend = "# row is a row of the history: KIND: OUTCOME TARGET by ENDED_BY at PROVIDER, and so on. Times\n" +
		"# count from the placing, prices are in billionths, - is empty, and caller is what the waiting request gets\n\n"
	want, played := map[string]string{}, legend
	for part := range strings.SplitSeq(strings.TrimSpace(string(file)), "\n\n") {
		name, rest, _ := strings.Cut(part, "\n")
		want[name] = rest
	}
	or := func(text string) string { return cmp.Or(text, "-") }
	cases := []struct {
		name   string
		target bool
		submit error
		poll   error
		wait   time.Duration
	}{
		{name: "the order is solved", wait: 20 * second},
		{name: "the service refuses a guest's task", submit: fails(provider.Task, "ERROR_ODD"), wait: second},
		{name: "the service refuses a target's task", target: true, submit: fails(provider.Task, "ERROR_ODD"), wait: second},
		{name: "a submit has bad parameters", submit: fails(provider.Parameters, "ERROR_SITEKEY"), wait: second},
		{name: "no slot is free", wait: second,
			submit: &providerError{Class: provider.Capacity, Code: "FULL", Delay: 30 * second}},
		{name: "the account has a fault", submit: fails(provider.Account, "ERROR_ZERO_BALANCE"), wait: second},
		{name: "the submit has no answer", submit: unheard("timeout"), wait: 170 * second},
		{name: "the submit has an unknown error", submit: errors.New("odd"), wait: 170 * second},
		{name: "the task is unsolvable", poll: fails(provider.Task, "ERROR_CAPTCHA_UNSOLVABLE"), wait: 20 * second},
		{name: "a poll says bad parameters", poll: fails(provider.Parameters, "ERROR_PAGEURL"), wait: 20 * second},
		{name: "the task is not solved in time", poll: provider.ErrNotReady, wait: 130 * second},
		{name: "the last poll has no answer", poll: unheard("http_502"), wait: 130 * second},
	}
	for _, c := range cases {
		bubble(t, c.name, func(t *testing.T, w *world) {
			f := newFake("main")
			f.submitErr, f.pollErr = c.submit, c.poll
			r := w.replica("r1", f.listing())
			s := spec()
			s.Target, s.Guest, s.Depth = "/solve", !c.target, 0
			if c.target {
				s.Target = "login"
			}
			answer := make(chan string, 1)
			go func() {
				token, err := r.pool.Take(t.Context(), &pool.Call{
					Name: "waiting", Nonce: "n", ID: s.ID, Wait: c.wait, Margin: s.Margin, MostTickets: 9,
				})
				answer <- fmt.Sprint(or(token.Value), " ", err)
			}()
			time.Sleep(time.Millisecond)
			r.mustBuy(s)
			time.Sleep(c.wait)
			var text strings.Builder
			for _, m := range w.db.XRange(t.Context(), "{p}:outbox:ends", "-", "+").Val() {
				var p purchase.Purchase
				testkit.NoError(t, json.Unmarshal([]byte(fmt.Sprint(m.Values["row"])), &p))
				after := func(at time.Time) string {
					if at.IsZero() {
						return "-"
					}
					return at.Sub(p.Placed).Round(100 * time.Millisecond).String()
				}
				if p.Identity.Proxy != "" || p.Identity.Sitekey == "" || p.ID != s.ID || p.Order != m.Values["order"] {
					t.Errorf("row %+v", p)
				}
				line := fmt.Sprintf("row %s: %s %s by %s at %s, task %s code %s price %d submitted %s solved %s polls %d"+
					" callback %v chosen %s\n",
					m.Values["kind"], or(string(p.Outcome)), p.Target, or(string(p.EndedBy)), p.Provider, or(p.Task), or(p.Code),
					p.Price, after(p.Submitted), after(p.Solved), min(p.Polls, 20), p.Callback, p.Choice) // pauses are random
				text.WriteString(strings.NewReplacer(" callback false", "", " chosen ordered", "").Replace(line))
			}
			stats := ""
			for _, field := range []string{"bought", "solved", "failed", "lost", "refused", "spent", "leads"} {
				if n := w.number("stats:"+string(s.ID), field); n != "" && n != "0" {
					stats += " " + field + "=" + n
				}
			}
			fmt.Fprintf(&text, "stats%s; %d in flight; %d solves in the budget\n", stats, w.inFlight("main"), w.solves())
			for i, key := range []string{"main.main-key", string(s.ID)} {
				b := w.db.HGetAll(t.Context(), "{p}:brake:"+key).Val()
				if b["kind"] != "" {
					fmt.Fprintf(&text, "brake of the %s: %s count %s every %s: %s\n", []string{"account", "identity"}[i],
						b["kind"], or(b["count"]), or(b["every"]), b["reason"])
				}
			}
			fmt.Fprintf(&text, "observed %s, %d warnings\n", r.outcomes(), r.log.Count("level=WARN", "its price counts"))
			r.stop()
			fmt.Fprintf(&text, "caller %s", <-answer)
			name := "# " + c.name
			if played += name + "\n" + text.String() + "\n\n"; !*testkit.Update {
				testkit.Equal(t, "what the end leaves", text.String(), want[name])
			}
		})
	}
	if *testkit.Update {
		testkit.NoError(t, os.WriteFile("testdata/ends.txt", []byte(played), 0o600))
		return
	}
	testkit.Equal(t, "cases in the file, with its legend", len(want), len(cases)+1)
}

// A replica dies at each step of an order. Another one goes on within 10 s as the table of ends says, and
// buys nothing again.
func TestADeadReplicasOrders(t *testing.T) {
	for _, c := range []struct {
		at                        string
		removed                   bool   // the file of the other replica does not have the provider
		kinds                     string // after 10 s
		later                     string // at the end
		submits, inFlight, solves int64  // after 10 s
		token                     string
	}{
		{at: "placed", submits: 0},
		{at: "submitted", kinds: "active", later: "active lost", submits: 1, inFlight: 1, solves: 1},
		{at: "submitted", removed: true, kinds: "active", later: "active lost", submits: 1, inFlight: 1, solves: 1},
		{at: "bought", kinds: "active", later: "active solved", submits: 1, inFlight: 1, solves: 1, token: "token-of-main1"},
		{at: "polled", kinds: "active solved", later: "active solved", submits: 1, solves: 1, token: "token-of-main1"},
	} {
		bubble(t, fmt.Sprintf("%s, the provider is removed: %v", c.at, c.removed), func(t *testing.T, w *world) {
			f := newFake("main")
			var one *replica
			die := func(at string) {
				if at == c.at {
					one.kill()
				}
			}
			f.submit = func(int, provider.Submission) (string, error) { die("submitted"); return "main1", nil }
			f.poll = func(n int, task string) (provider.Solution, error) {
				if n == 1 {
					die("polled")
				}
				return provider.Solution{Token: "token-of-" + task}, nil
			}
			one = w.replica("r1", f.listing())
			time.Sleep(2 * second)
			var others []purchase.Listing
			if !c.removed {
				others = append(others, f.listing())
			}
			two := w.replica("r2", others...)
			one.buys.Go(func() {
				one.Buy(context.Background(), spec(), func(captcha.ID, error) { die("placed") })
			})
			synctest.Wait()
			die("bought")
			if c.at == "polled" {
				time.Sleep(10 * second) // until the first poll
			}
			time.Sleep(9900 * time.Millisecond)
			testkit.Equal(t, "submits", int64(f.submitted()), c.submits)
			testkit.Equal(t, "rows in the outbox", w.kinds(), c.kinds)
			testkit.Equal(t, "in flight", w.inFlight("main"), c.inFlight)
			testkit.Equal(t, "solves in the budget", w.solves(), c.solves)
			w.db.ZAdd(t.Context(), "{p}:deadlines", redis.Z{Member: "an order without an entry"})
			time.Sleep(160 * second)
			testkit.Equal(t, "deadlines at the end", w.db.ZCard(t.Context(), "{p}:deadlines").Val(), 0)
			testkit.Equal(t, "rows in the outbox at the end", w.kinds(), c.later)
			testkit.Equal(t, "submits at the end", int64(f.submitted()), c.submits)
			if value, born := w.take(two); c.token != "" && (value != c.token || time.Since(born) > 200*second) {
				t.Errorf("token %q, born %v", value, born)
			}
			testkit.Equal(t, "orders that the other replica owns", w.db.SCard(t.Context(), "{p}:owned:r2").Val(), 0)
		})
	}
}

// A solution in the answer to the submit ends the order at once, and the expiry that a service states shortens the life
// of its token. Tokens that have always expired stop the orders, as failures do.
func TestSolutionsAtOnceAndExpiries(t *testing.T) {
	for name, c := range map[string]struct {
		expires time.Duration // after the submit; 0 = not stated
		value   string
		life    time.Duration
	}{
		"not stated":  {0, "03AF", 200 * second},
		"soon":        {50 * second, "03AF", 50 * second},
		"later":       {time.Hour, "03AF", 200 * second},
		"it has been": {-time.Minute, "pool: empty", 0},
	} {
		bubble(t, name, func(t *testing.T, w *world) {
			f := newFake("main")
			r := w.replica("r1", f.listing())
			for i := range 8 {
				f.set(func() {
					f.atOnce = &provider.Solution{Token: "03AF" + strings.Repeat("+", i)}
					if c.expires != 0 {
						f.atOnce.Expires = time.Now().Add(c.expires)
					}
				})
				r.mustBuy(spec())
				time.Sleep(second)
				if c.value == "03AF" {
					break
				}
			}
			token, err := r.pool.Take(t.Context(), &pool.Call{Name: "call", ID: identity.ID(), Margin: second})
			if err != nil {
				token.Value = err.Error()
				testkit.Equal(t, "brake", w.brake(string(identity.ID())), "discarded")
			}
			testkit.Equal(t, "token", token.Value, c.value)
			testkit.Equal(t, "life", token.Dies.Sub(token.Born).Round(second), c.life)
			testkit.Equal(t, "polls", f.polled(), 0)
		})
	}
}

// A picture's bytes go to the provider once, and nowhere else.
func TestAPictureIsSentOnce(t *testing.T) {
	bubble(t, "a picture", func(t *testing.T, w *world) {
		f := newFake("main")
		f.poll = func(int, string) (provider.Solution, error) { return provider.Solution{Token: "same text"}, nil }
		r := w.replica("r1", f.listing())
		s := spec()
		s.Identity = captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{SHA256: "abc"}}
		s.ID, s.Depth, s.Image = s.Identity.ID(), 0, []byte("PICTURE-BYTES")
		for range 2 { // two pictures may have the same text
			r.mustBuy(s)
		}
		for _, key := range w.db.Keys(t.Context(), "*order:*").Val() {
			if all := fmt.Sprint(w.db.HGetAll(t.Context(), key).Val()); strings.Contains(all, "PICTURE") {
				t.Error("the journal has the picture")
			}
		}
		time.Sleep(20 * second)
		testkit.Equal(t, "request", string(f.requests[0].Image), "PICTURE-BYTES")
		testkit.Equal(t, "solved", w.number("stats:"+string(s.ID), "solved"), "2")
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active active solved solved")
	})
}

// Every replica lists the orders in flight of all replicas, as soon as they may have been submitted.
func TestOrdersInFlight(t *testing.T) {
	bubble(t, "orders in flight", func(t *testing.T, w *world) {
		f := newFake("main")
		one, two := w.replica("r1", f.listing()), w.replica("r2")
		one.buys.Go(func() {
			one.Buy(context.Background(), spec(), func(captcha.ID, error) { time.Sleep(second) })
		})
		time.Sleep(3 * second)
		f.fail(errors.New("no answer"), nil)
		one.mustBuy(spec())
		order := pool.Order{Name: "placed", ID: identity.ID(), Life: time.Minute, Depth: 100, Account: "x", Concurrency: 1}
		_, _, err := one.pool.Place(t.Context(), &order)
		testkit.NoError(t, err)
		time.Sleep(3 * second)
		list, err := two.OrdersInFlight(t.Context())
		testkit.NoError(t, err)
		var got []string
		for _, o := range list {
			if o.Order == "" || o.ID != identity.ID() || o.Submitted.Before(o.Placed) || o.Identity.Sitekey != "0x4AAA" {
				t.Errorf("an order in flight without its name, times or captcha: %+v", o)
			}
			got = append(got, fmt.Sprintf("%s %s %q %v", o.Target, o.State, o.Task, o.Age.Round(second)))
		}
		slices.Sort(got)
		testkit.Equal(t, "in flight", strings.Join(got, ", "), `login bought "main1" 5s, login unknown "" 3s`)
	})
}

// If an order for a guest cannot be placed, its waiting caller gets the reason at once; package solve tests all cases.
func TestARefusalReachesTheCallerOfAGuest(t *testing.T) {
	bubble(t, "a budget", func(t *testing.T, w *world) {
		r := w.replica("r1", newFake("main").listing())
		s := spec()
		s.Target, s.Guest, s.Depth = "/solve", true, 0
		s.Budgets = []pool.Budget{{Scope: pool.ScopeSolve, PerDay: 1}}
		testkit.NoError(t, w.db.ZAdd(t.Context(), "{p}:solves:"+pool.ScopeSolve,
			redis.Z{Score: float64(time.Now().UnixMilli()), Member: "x"}).Err())
		answer := make(chan error, 1)
		go func() {
			_, err := r.pool.Take(t.Context(), &pool.Call{
				Name: "waiting", Nonce: "n", ID: s.ID, Wait: time.Minute, Margin: s.Margin, MostTickets: 9,
			})
			answer <- err
		}()
		time.Sleep(time.Millisecond)
		r.mustRefuse(s, pool.ReasonBudget)
		testkit.Equal(t, "scope that was reported as used up", r.usedUp, pool.ScopeSolve)
		var failed *pool.FailedError
		if err := <-answer; !errors.As(err, &failed) || failed.NotPlaced != pool.ReasonBudget {
			t.Errorf("the caller: %v", err)
		}
	})
}

// A stop ends an order that is not submitted, finishes a submit in flight and stores its task, and leaves a
// bought order to the other replicas at once.
func TestAStopLeavesOrdersToOtherReplicas(t *testing.T) {
	bubble(t, "an order that is not submitted", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", f.listing())
		ctx, cancel := context.WithCancel(t.Context())
		r.Buy(ctx, spec(), func(captcha.ID, error) { cancel() })
		testkit.Equal(t, "submits", f.submitted(), 0)
		testkit.Equal(t, "in flight", w.inFlight("main"), 0)
		testkit.Equal(t, "solves in the budget", w.solves(), 0)
		testkit.Equal(t, "rows in the outbox", w.kinds(), "")
		r.stop()
		if err := r.buy(spec()); err == nil {
			t.Error("an order was placed after the stop")
		}
	})
	bubble(t, "a submit in flight and a bought order", func(t *testing.T, w *world) {
		f := newFake("main")
		f.submit = func(n int, _ provider.Submission) (string, error) {
			if n == 2 {
				time.Sleep(9 * second)
			}
			return fmt.Sprint("T", n), nil
		}
		one := w.replica("r1", f.listing())
		two := w.replica("r2", f.listing())
		one.mustBuy(spec())
		time.Sleep(4 * second)
		one.mustBuy(spec())
		began := time.Now()
		one.stop()
		testkit.Equal(t, "the stop takes", time.Since(began).Round(second), 9*second)
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active active")
		time.Sleep(3 * second)
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active active solved solved")
		testkit.Equal(t, "ends that the observer saw", two.outcomes(), "solved by poll, solved by poll")
	})
}

// A panic in one order ends nothing else: the order is resumed, and the others go on.
func TestAPanicEndsOnlyItsCall(t *testing.T) {
	bubble(t, "a panic", func(t *testing.T, w *world) {
		f := newFake("main")
		f.submit = func(n int, _ provider.Submission) (string, error) {
			if n == 1 {
				panic("of a submit")
			}
			return "T2", nil
		}
		f.poll = func(n int, task string) (provider.Solution, error) {
			if n == 1 {
				panic("of a poll")
			}
			return provider.Solution{Token: "token-of-" + task}, nil
		}
		r := w.replica("r1", f.listing())
		r.mustBuy(spec()) // unknown: the submit may have left
		r.mustBuy(spec())
		time.Sleep(20 * second)
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active active solved")
		testkit.Equal(t, "in flight", w.inFlight("main"), 1)
		testkit.Equal(t, "logged", r.log.Count("panic while buying"), 2)
		e := f.listing()
		e.Price = func(captcha.Type) float64 { panic("of a price") }
		r.SetProviders([]purchase.Listing{e})
		if err := r.buy(spec()); err == nil {
			t.Error("an order was placed at a price that panics")
		}
	})
}

// While Redis does not answer, nothing is submitted; a task that was bought meanwhile is stored when it
// answers again.
func TestNothingIsSubmittedWithoutRedis(t *testing.T) {
	bubble(t, "placing", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", f.listing())
		w.setDown(true)
		began := time.Now()
		if err := r.buy(spec()); !isDown(err) || time.Since(began) > 3100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		w.setDown(false)
		time.Sleep(5 * second)
		r.mustBuy(spec())
	})
	bubble(t, "a lost answer of the placing", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", f.listing())
		p := pool.New(pool.Config{Slow: w.db, Fast: w.db, Prefix: "p", Replica: "r1", Log: r.log.Logger()})
		s := spec()
		_, _, err := p.Place(t.Context(), &pool.Order{
			Name: "lost", ID: s.ID, Account: "main", Life: time.Hour, Concurrency: 9, Depth: 9, Budgets: s.Budgets,
			Facts: `{"provider":"main","budgets":[{"Scope":"overall"}]}`,
		})
		testkit.NoError(t, err)
		time.Sleep(4 * second)
		testkit.Equal(t, "in flight", w.inFlight("main"), 0)
		testkit.Equal(t, "solves in the budget", w.solves(), 0)
	})
	bubble(t, "between the steps", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", f.listing())
		away := func() {
			w.setDown(true)
			time.AfterFunc(30*second, func() { w.setDown(false) })
		}
		f.submit = func(int, provider.Submission) (string, error) {
			away()
			return "T1", nil
		}
		f.poll = func(n int, task string) (provider.Solution, error) {
			if n == 1 {
				away()
			}
			return provider.Solution{Token: "token-of-" + task}, nil
		}
		r.buys.Go(func() { r.Buy(t.Context(), spec(), func(captcha.ID, error) {}) })
		time.Sleep(75 * second)
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active solved")
		testkit.Equal(t, "submits", f.submitted(), 1)
	})
	bubble(t, "before the submit", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", f.listing())
		r.buys.Go(func() { r.Buy(t.Context(), spec(), func(captcha.ID, error) { w.setDown(true) }) })
		time.Sleep(20 * second)
		w.setDown(false)
		time.Sleep(5 * second)
		testkit.Equal(t, "submits", f.submitted(), 0)
		testkit.Equal(t, "in flight", w.inFlight("main"), 0)
	})
}

// A replica that has a token lands it, although another one has taken the order over meanwhile.
func TestATokenOfAnOrderThatWasTakenOver(t *testing.T) {
	bubble(t, "taken over", func(t *testing.T, w *world) {
		r := w.replica("r1", newFake("main").listing())
		r.mustBuy(spec())
		w.db.HSet(t.Context(), w.db.Keys(t.Context(), "*order:*").Val()[0], "owner", "r2")
		time.Sleep(11 * second)
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active solved")
	})
}

// If the process was frozen while it began a submit, it asks again whether the order is still its own.
func TestASlowBegin(t *testing.T) {
	for name, want := range map[string]int{"r2": 1, "r1": 2} {
		bubble(t, "the owner is "+name, func(t *testing.T, w *world) {
			f := newFake("main")
			r := w.replica("r1", f.listing())
			r.mustBuy(spec()) // Redis knows the scripts now
			freeze := func(command string, args []string) string {
				if command != "EVALSHA" || args[1] != "1" || !strings.Contains(args[2], "order:") {
					return ""
				}
				w.server.SetAnswer(nil)
				begun := w.db.EvalSha(context.Background(), args[0], args[2:3], args[3], args[4]).Val()
				w.db.HSet(context.Background(), args[2], "owner", name)
				time.Sleep(2100 * time.Millisecond)
				return "*1\r\n:" + strings.Trim(fmt.Sprint(begun), "[]") + "\r\n"
			}
			r.buys.Go(func() { r.Buy(t.Context(), spec(), func(captcha.ID, error) { w.server.SetAnswer(freeze) }) })
			at := time.Now()
			time.Sleep(5 * second)
			testkit.Equal(t, "submits", f.submitted(), want)
			if want == 2 && f.submits[1].Sub(at) != 2100*time.Millisecond {
				t.Error("the process was not frozen")
			}
		})
	}
}
