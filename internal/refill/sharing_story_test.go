package refill

import (
	"runtime"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/purchase"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// If all slots of a provider are in use, orders for pending callers come before orders that fill a
// stock.
func TestCallersComeFirst(t *testing.T) {
	play(t, 4, func(t *testing.T, w *scenario) {
		w.provider.lead = func() time.Duration { return 20 * time.Second }
		hoard, login := target("hoard", 200), target("login", 0)
		hoard.Lifetime = time.Hour
		w.apply(hoard, login)
		w.after(10 * time.Second)
		served := w.callers(login, 3)
		w.after(45 * time.Second) // the four slots become free twice in this time
		sold := w.provider.sales()
		if len(sold) < 12 {
			t.Fatalf("only %d sold", len(sold))
		}
		// Each target requests one slot at a time. Therefore, if four slots become free at the same time,
		// more than one target gets some of them.
		count := func(sold []captcha.ID) (n int) {
			for _, id := range sold {
				if id == login.ID {
					n++
				}
			}
			return n
		}
		if first, second := count(sold[4:8]), count(sold[4:12]); first < 2 || second != 3 {
			t.Errorf("of the next four slots %d went to the three callers, of eight %d", first, second)
		}
		if n := <-served; n != 3 {
			t.Errorf("%d of three callers got a token", n)
		}
	})
}

// A target whose orders are worth little still gets slots, but fewer than a target with more valuable
// orders.
func TestSlotsGoWhereTheyAreWorthMost(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 6, func(t *testing.T, w *scenario) {
		busy, rare, never := learning("busy", 200), learning("rare", 200), target("never", 3)
		list := []targets.Target{busy, rare, never}
		w.apply(list...)
		got, asked := map[captcha.ID]int{}, map[captcha.ID]int{}
		for i := range 1200 {
			w.after(time.Second)
			for _, x := range []struct {
				targets.Target
				every int
			}{{busy, 2}, {rare, 30}} {
				if i%x.every == 0 {
					asked[x.ID]++
					if w.take(x.Target) {
						got[x.ID]++
					}
				}
			}
		}
		// Six slots yield about one token in three seconds. The target named busy gets one request in two
		// seconds, which is more than the slots can serve.
		t.Logf("busy %d of %d, rare %d of %d, never has %d", got[busy.ID], asked[busy.ID], got[rare.ID], asked[rare.ID], w.fresh(never))
		if share := float64(got[busy.ID]) / float64(asked[busy.ID]); share < 0.35 || share > 0.8 {
			t.Errorf("busy found a token for %.2f of its requests", share)
		}
		if share := float64(got[rare.ID]) / float64(asked[rare.ID]); share < 0.5 {
			t.Errorf("rare found a token for %.2f of its requests", share)
		}
		if w.held(never) == 0 {
			t.Error("who is never asked has nothing")
		}
	})
}

// A target that waits for a slot needs no goroutine. It places its order as soon as there is a free
// slot.
func TestWaitingForASlotTakesNoGoroutine(t *testing.T) {
	testkit.WithoutRace(t) // not parallel: it counts goroutines
	play(t, 4, func(t *testing.T, w *scenario) {
		const many = 300
		w.provider.lead = func() time.Duration { return 10 * time.Second }
		before := runtime.NumGoroutine()
		list := lasting(many, 1, 20*time.Hour)
		w.apply(list...)
		w.after(5 * time.Second)
		if n := runtime.NumGoroutine() - before; n > many/4 {
			t.Errorf("%d goroutines for %d targets that wait", n, many)
		}
		if s := w.status("t299"); s.State != Starved {
			t.Errorf("the state of a target that waits for a slot is %+v", s)
		}
		w.buyer.SetProviders([]purchase.Entry{{Provider: w.provider, Concurrency: many}})
		w.after(time.Minute)
		for _, x := range list {
			if w.held(x) != 1 {
				t.Errorf("%s has %d tokens", x.Name, w.held(x))
			}
		}
	})
}
