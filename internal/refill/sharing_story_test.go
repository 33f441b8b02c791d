package refill

import (
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/targets"
)

// Where a provider is full, who waits for a token comes before a stock that is
// only being filled.
func TestCallersComeFirst(t *testing.T) {
	play(t, 4, func(t *testing.T, w *world) {
		w.market.lead = func() time.Duration { return 20 * time.Second }
		hoard, login := target("hoard", 200), target("login", 0)
		hoard.Lifetime = time.Hour
		w.apply(hoard, login)
		w.after(10 * time.Second)
		w.shelf.with(func() { w.shelf.waiting[login.ID] = 3 })
		w.manager.Kick(login.ID)
		w.after(25 * time.Second) // the four orders under way end within it
		sold := w.market.sales()
		if len(sold) < 8 {
			t.Fatalf("only %d sold", len(sold))
		}
		n := 0
		for _, id := range sold[4:8] {
			if id == login.ID {
				n++
			}
		}
		if n != 3 {
			t.Errorf("of the next four slots %d went to the three callers", n)
		}
	})
}

// A caller who comes while the target already stands in the line moves it forward.
func TestBidsAreOfTheDay(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		w.market.lead = func() time.Duration { return 20 * time.Second }
		hoard, login := target("hoard", 200), target("login", 1)
		hoard.Lifetime = time.Hour
		w.apply(hoard)
		w.after(5 * time.Second)
		w.demand(hoard, time.Second, 10*time.Second) // so that its orders are worth more
		w.apply(hoard, login)
		w.after(time.Second)
		w.shelf.with(func() { w.shelf.waiting[login.ID] = 2 })
		w.manager.Kick(login.ID)
		w.after(20 * time.Second)
		sold := w.market.sales()
		if last := sold[len(sold)-1]; last != login.ID {
			t.Errorf("the slot after the callers came went to another target: %v", sold)
		}
	})
}

// A target that is worth little gets its share all the same, and one whose orders
// are worth more gets more than the others.
func TestSlotsGoWhereTheyAreWorthMost(t *testing.T) {
	play(t, 6, func(t *testing.T, w *world) {
		busy, rare, never := learning("busy", 200), learning("rare", 200), target("never", 3)
		list := []targets.Target{busy, rare, never}
		w.apply(list...)
		got, asked := map[captcha.ID]int{}, map[captcha.ID]int{}
		for i := range 3600 {
			w.after(time.Second)
			for _, x := range []struct {
				targets.Target
				every int
			}{{busy, 2}, {rare, 30}} {
				if i%x.every == 0 {
					asked[x.ID]++
					if w.shelf.take(x.Target) {
						got[x.ID]++
					}
				}
			}
		}
		// Six slots make about one token in three seconds; busy alone wants one in two.
		t.Logf("busy %d of %d, rare %d of %d, never has %d", got[busy.ID], asked[busy.ID], got[rare.ID], asked[rare.ID], w.shelf.fresh(never))
		if share := float64(got[busy.ID]) / float64(asked[busy.ID]); share < 0.35 || share > 0.8 {
			t.Errorf("busy found a token for %.2f of its requests", share)
		}
		if share := float64(got[rare.ID]) / float64(asked[rare.ID]); share < 0.5 {
			t.Errorf("rare found a token for %.2f of its requests", share)
		}
		if w.shelf.held(never) == 0 {
			t.Error("who is never asked has nothing")
		}
	})
}
