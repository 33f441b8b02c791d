package refill

import (
	"testing"
	"time"

	"poold/internal/targets"
	"poold/internal/testkit"
)

func learning(name string, depth int) targets.Target {
	t := target(name, depth)
	t.Refill, t.HitRate, t.MaxWaste = targets.RefillAdaptive, 0.97, 3
	return t
}

// demand requests one token at intervals of the argument every, for the duration long.
// It returns the numbers of requests and hits.
func (w *scenario) demand(t targets.Target, every, long time.Duration) (asked, got int) {
	for began := time.Now(); time.Since(began) < long; asked++ {
		w.after(every)
		if w.take(t) {
			got++
		}
	}
	return asked, got
}

// An adaptive target buys nothing before the first request, follows the demand with little waste,
// stops when the demand ends, and remembers the demand across a restart.
func TestAdaptiveTargetFollowsTheDemand(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 20, func(t *testing.T, w *scenario) {
		login := learning("login", 20)
		w.apply(login)
		w.after(5 * time.Minute)
		if n := w.provider.asked(); n != 0 {
			t.Errorf("%d tokens were bought before anybody asked", n)
		}
		w.demand(login, 5*time.Second, 10*time.Minute)
		before := w.provider.asked()
		asked, got := w.demand(login, 5*time.Second, 15*time.Minute)
		bought := w.provider.asked() - before
		if got < asked*97/100 || bought > asked*115/100 {
			t.Errorf("%d of %d requests found a token, %d were bought", got, asked, bought)
		}
		if n := w.status("login"); n.Want < 2 || n.Forecast <= 0 {
			t.Errorf("status while there is demand: %+v", n)
		}
		w.store.with(func() {
			if n := w.store.saves; n < 5 || n > 26 {
				t.Errorf("what was learned was saved %d times in 25 minutes", n)
			}
		})
		w.after(10 * time.Minute)
		quiet := w.provider.asked()
		w.after(20 * time.Minute)
		if n := w.provider.asked() - quiet; n > 3 {
			t.Errorf("%d tokens were bought while nobody asked", n)
		}
		w.store.with(func() {
			if n := w.store.saves; n > 28 {
				t.Errorf("what was learned was saved %d times, although nobody asked any more", n)
			}
		})

		// A new daemon on the same Redis loads the learned state that this daemon saved.
		w.end(w.replica)
		w.replica = w.start(login)
		asked, got = w.demand(login, 5*time.Second, 6*time.Minute)
		if got < asked*95/100 {
			t.Errorf("after a restart %d of %d requests found a token", got, asked)
		}
	})
}

// Two replicas that decide for one target do not buy more than a single replica, because an order
// is placed only if the stock is unchanged since the look. The function play checks each order
// against its depth.
func TestTwoReplicasOfAnAdaptiveTarget(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 40, func(t *testing.T, w *scenario) {
		login := learning("login", 30)
		w.apply(login)
		w.start(login)
		w.demand(login, 3*time.Second, 8*time.Minute)
		before := w.provider.asked()
		asked, got := w.demand(login, 3*time.Second, 10*time.Minute)
		if bought := w.provider.asked() - before; got < asked*97/100 || bought > asked*115/100 {
			t.Errorf("%d of %d requests found a token, %d were bought", got, asked, bought)
		}
	})
}
