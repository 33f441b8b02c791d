package refill

import (
	"fmt"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// A target may have only an hourly budget or only a daily budget. Each of them is enforced alone.
// Redis counts the orders, so a restart does not reset a budget. A budget has room again when its
// first order is an hour or a day old.
func TestEachBudgetHoldsAlone(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	cases := map[string]struct {
		budget targets.Budget
		window time.Duration
	}{
		"per hour": {targets.Budget{PerHour: 4}, time.Hour},
		"per day":  {targets.Budget{PerDay: 4}, 24 * time.Hour},
	}
	for name, x := range cases {
		t.Run(name, func(t *testing.T) {
			play(t, 20, func(t *testing.T, w *scenario) {
				login := target("login", 2)
				login.Budget = x.budget
				w.apply(login)
				w.after(10 * time.Minute)
				first := w.book.placed()[0].at
				n := w.status("login")
				if bought := w.provider.asked(); bought != 4 || n.State != Budget {
					t.Errorf("%d bought, status %+v", bought, n)
				}
				if (n.Until.Sub(first.Add(x.window))).Abs() > time.Second {
					t.Errorf("room again at %v, want a window after %v", n.Until, first)
				}
				before, _ := w.store.lookCount(login.ID)
				w.demand(login, 100*time.Millisecond, 10*time.Second)
				if now, _ := w.store.lookCount(login.ID); now > before+4 {
					t.Errorf("%d looks within ten seconds, although nothing can be bought", now-before)
				}
				if said := w.log.Count("nothing more is bought for now"); said != 1 {
					t.Errorf("said %d times", said)
				}
				w.end(w.replica)
				w.after(time.Until(first.Add(x.window - time.Minute)))
				w.replica = w.start(login)
				w.after(59 * time.Second)
				if bought := w.provider.asked(); bought != 4 {
					t.Errorf("%d bought within the window", bought)
				}
				w.after(2 * time.Second)
				if said := w.log.Count("the budget has room again"); said != 1 {
					t.Errorf("its end was said %d times", said)
				}
				n = w.status("login")
				if bought := w.provider.asked(); bought != 6 || n.State != OK || n.Reason != "" || !n.Until.IsZero() {
					t.Errorf("%d bought after it, status %+v", bought, n)
				}
			})
		})
	}
}

// Another replica orders between this replica's look and its order. The orders of both replicas
// together exceed neither the wanted tokens nor the limit of the plan.
func TestAnotherReplicaOrdersInBetween(t *testing.T) {
	for _, depth := range []int{3, 10} {
		for others := 1; others <= 3; others++ {
			t.Run(fmt.Sprintf("depth %d, %d others", depth, others), func(t *testing.T) {
				play(t, 20, func(t *testing.T, w *scenario) {
					login := learning("login", depth)
					login.Min = 3
					w.provider.lead = func() time.Duration { return 12 * time.Second }
					w.store.with(func() {
						w.store.meantime = func() {
							for range others {
								w.foreign(login)
							}
						}
					})
					w.apply(login)
					w.after(10 * time.Millisecond)
					if n := w.status("login"); n.State != OK {
						t.Errorf("status %+v", n)
					}
					w.after(5 * time.Second)
					if s := w.stock(login); s.Orders != 3 {
						t.Errorf("%d orders, want the three of min", s.Orders)
					}
					for _, p := range w.book.placed() {
						if p.Depth > depth {
							t.Errorf("ordered with a cap of %d", p.Depth)
						}
					}
				})
			})
		}
	}
}

// An adaptive target that has had no demand so far orders immediately for pending callers.
func TestAdaptiveTargetOrdersForCallers(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		login := learning("login", 10)
		w.apply(login)
		w.after(time.Minute)
		served := w.callers(login, 3)
		w.after(100 * time.Millisecond)
		if s := w.stock(login); s.Waiting != 3 || s.Orders < 3 {
			t.Errorf("%d orders for %d who wait", s.Orders, s.Waiting)
		}
		if n := <-served; n != 3 {
			t.Errorf("%d of three callers got a token", n)
		}
	})
}

// After a wake-up, a worker looks at the stock much earlier than its backstop requires. Wake-ups
// come after a landing, a failed order, the end of a pause and the start of a window, at this
// replica or another one.
func TestWakeUpsReachWorkers(t *testing.T) {
	const soon = 50 * time.Millisecond
	play(t, 20, func(t *testing.T, w *scenario) {
		login := target("login", 2)
		login.Lifetime = 23 * time.Hour
		w.provider.lead = func() time.Duration { return 12 * time.Second }
		broken := true
		w.provider.fail = func(captcha.Identity) bool { return broken }
		w.apply(login)
		w.after(5 * time.Second)
		for w.stock(login).Figures.Failed < 2 {
			w.after(10 * time.Millisecond)
		}
		w.after(soon)
		if n := w.provider.asked(); n != 4 {
			t.Errorf("%d submits right after two of two failed, want 4", n)
		}
		w.provider.with(func() { broken = false })
		w.after(time.Minute)
		steps := []struct {
			name   string
			action func() error
			more   int
		}{
			{"two takes", func() error { w.take(login); w.take(login); return nil }, 2},
			{"a pause elsewhere", func() error { return w.elsewhere.Pause(t.Context(), login.ID, pool.Pause{}) }, 0},
			{"a take while paused", func() error { w.take(login); return nil }, 0},
			{"its end elsewhere", func() error { return w.elsewhere.Resume(t.Context(), login.ID) }, 1},
			{"a pause that ends by itself", func() error {
				if err := w.elsewhere.Pause(t.Context(), login.ID, pool.Pause{Until: time.Now().Add(40 * time.Second)}); err != nil {
					return err
				}
				w.after(20 * time.Second)
				w.take(login)
				w.after(20*time.Second + gatherTime/20)
				return nil
			}, 1},
			{"a flush elsewhere", func() error { _, err := w.elsewhere.Flush(t.Context(), login.ID, login.Margin); return err }, 2},
		}
		for _, step := range steps {
			before := w.provider.asked()
			if err := step.action(); err != nil {
				t.Fatal(err)
			}
			w.after(soon)
			if n := w.provider.asked() - before; n != step.more {
				t.Errorf("%s: %d submits right after it, want %d", step.name, n, step.more)
			}
			w.after(31 * time.Second)
		}
	})
}

// Requests that arrived while no daemon ran do not count as present demand. Requests after the
// start of the daemon count.
func TestArrivalsAfterARestart(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 20, func(t *testing.T, w *scenario) {
		login := learning("login", 20)
		for range 40 {
			w.take(login)
		}
		w.apply(login)
		w.after(time.Minute)
		if n := w.provider.asked(); n != 0 {
			t.Errorf("%d bought for requests of before the start", n)
		}
		w.demand(login, 2*time.Second, 4*time.Minute+30*time.Second)
		busy := w.status("login")
		w.end(w.replica)
		if since := float64(time.Now().UnixMilli())/1000 - w.saved(login).Last; since > 3 {
			t.Errorf("the last request that is remembered was %g s before the stop", since)
		}
		w.after(time.Second)
		for range 200 {
			w.takeAt(w.elsewhere, login)
		}
		w.replica = w.start(login)
		w.take(login)
		w.after(time.Second)
		if n := w.status("login"); n.Forecast < busy.Forecast/2 || n.Forecast > 1.5*busy.Forecast {
			t.Errorf("%.1f requests are expected after the restart, %.1f before it", n.Forecast, busy.Forecast)
		}
	})
}

// Redis is down at times, the provider refuses orders, and a second replica is killed. No budget is
// overdrawn, no order counts twice, and buying continues.
func TestBudgetsHoldUnderFaults(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	for _, kind := range []targets.Refill{targets.RefillFixed, targets.RefillAdaptive} {
		t.Run(string(kind), func(t *testing.T) {
			play(t, 20, func(t *testing.T, w *scenario) {
				const perHour, overall = 24, 40
				login := learning("login", 8)
				login.Refill, login.Min, login.Budget.PerHour = kind, 4, perHour
				w.buyer.SetBudget(overall)
				w.apply(login)
				second := w.newReplica()
				second.buyer.SetBudget(overall)
				w.run(second)
				second.manager.Apply(t.Context(), w.set)
				w.demand(login, 3*time.Second, 2*time.Minute)

				w.redis.SetDown(true)
				w.after(20 * time.Second)
				down := w.provider.asked()
				w.after(10 * time.Second)
				if w.provider.asked() != down {
					t.Error("bought while Redis was away")
				}
				w.redis.SetDown(false)
				w.demand(login, 3*time.Second, time.Minute)

				w.provider.with(func() {
					w.provider.submit = func(captcha.Identity) error { return &provider.Error{Class: provider.Capacity, Code: "NO_SLOT"} }
				})
				w.demand(login, 3*time.Second, 30*time.Second)
				w.provider.with(func() { w.provider.submit = nil })
				w.kill(second)
				w.demand(login, 3*time.Second, 5*time.Minute)
				if n := len(w.provider.sales()); n != perHour {
					t.Errorf("%d bought with a budget of %d", n, perHour)
				}
				if n := w.status("login"); n.State != Budget || n.Until.IsZero() {
					t.Errorf("status with the budget used up: %+v", n)
				}
				w.after(55 * time.Minute)
				w.demand(login, 3*time.Second, 5*time.Minute)
				if n := len(w.provider.sales()); n != overall {
					t.Errorf("%d bought after an hour, want all %d of the day", n, overall)
				}
				w.after(4 * time.Minute)
				s := w.stock(login)
				f := s.Figures
				if ends := f.Hits + f.Waited - f.Returned + f.Expired + f.Failed + f.Lost + f.Discarded + int64(s.Fresh+s.Bought); f.Bought != ends || f.Bought != overall || f.Lost != 0 {
					t.Errorf("%d bought, %d accounted for: %+v", f.Bought, ends, f)
				}
				if _, booked, err := w.elsewhere.Booked(t.Context(), pool.Overall); booked != overall || err != nil {
					t.Errorf("%d booked, %v", booked, err)
				}
			})
		})
	}
}
