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
	play(t, 4, func(t *testing.T, w *scenario) {
		w.provider.lead = func() time.Duration { return 20 * time.Second }
		hoard, login := target("hoard", 200), target("login", 0)
		hoard.Lifetime = time.Hour
		w.apply(hoard, login)
		w.after(10 * time.Second)
		served := w.callers(login, 3)
		w.after(45 * time.Second) // the four orders under way end twice within it
		sold := w.provider.sales()
		if len(sold) < 12 {
			t.Fatalf("only %d sold", len(sold))
		}
		// Each asks for one slot at a time, so of four that come free at once some go
		// to others.
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

// A caller who comes while the target already stands in the line moves it forward.
func TestBidsAreOfTheDay(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		w.provider.lead = func() time.Duration { return 20 * time.Second }
		hoard, login := target("hoard", 200), target("login", 1)
		hoard.Lifetime = time.Hour
		w.apply(hoard)
		// Not a multiple of how long a bid stands: the slot would come free in the
		// very instant in which login makes its bid anew.
		w.after(5*time.Second + 170*time.Millisecond)
		w.demand(hoard, time.Second, 10*time.Second) // so that its orders are worth more
		w.apply(hoard, login)
		w.after(time.Second)
		served := w.callers(login, 2)
		w.after(20 * time.Second)
		sold := w.provider.sales()
		if last := sold[len(sold)-1]; last != login.ID {
			t.Errorf("the slot after the callers came went to another target: %v", sold)
		}
		<-served
	})
}

// Of two targets that wait for as long, the one whose orders are worth more gets
// more slots.
func TestSlotsGoByWorth(t *testing.T) {
	long(t)
	play(t, 3, func(t *testing.T, w *scenario) {
		w.provider.lead = func() time.Duration { return 20 * time.Second }
		often, rarely := target("often", 200), target("rarely", 200)
		for _, x := range []*targets.Target{&often, &rarely} {
			x.MaxWaste, x.HitRate, x.Lifetime = 3, 0.97, time.Hour
		}
		w.apply(often, rarely)
		for i := range 400 {
			w.after(time.Second)
			w.take(often)
			if i%60 == 0 {
				w.take(rarely)
			}
		}
		got := map[captcha.ID]int{}
		for _, id := range w.provider.sales() {
			got[id]++
		}
		if got[often.ID] < 2*got[rarely.ID] || got[rarely.ID] < 10 {
			t.Errorf("often got %d, rarely %d", got[often.ID], got[rarely.ID])
		}
	})
}

// Tokens that a window keeps are worth as much as any: a busy target does not keep
// them from coming.
func TestWindowGetsSlots(t *testing.T) {
	long(t)
	play(t, 6, func(t *testing.T, w *scenario) {
		w.provider.lead = func() time.Duration { return 18 * time.Second }
		busy, kept := learning("busy", 200), learning("kept", 30)
		w.apply(busy, kept)
		w.demand(busy, time.Second, 4*time.Minute)
		kept.Warm = windows(t, `[{cron: "* * * * *", tokens: 10, for: 24h}]`)
		w.apply(busy, kept)
		w.demand(busy, time.Second, 2*time.Minute)
		sum := 0
		const looks = 20
		for range looks {
			w.demand(busy, time.Second, 4*time.Second)
			sum += w.fresh(kept)
		}
		if mean := float64(sum) / looks; mean < 8 {
			t.Errorf("%.1f fresh in the window", mean)
		}
	})
}

// A target that is worth little gets its share all the same, and one whose orders
// are worth more gets more than the others.
func TestSlotsGoWhereTheyAreWorthMost(t *testing.T) {
	long(t)
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
		// Six slots make about one token in three seconds; busy alone wants one in two.
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
