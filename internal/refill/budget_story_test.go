package refill

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/targets"
)

// Whatever the demand, the failures and the pauses, no hour sees more orders than
// its budget, nothing is ordered while paused or beyond depth (play sees to that),
// and when there is budget and somebody asks, buying goes on: for both ways of
// refilling.
func TestBudgetsAndPausesHold(t *testing.T) {
	for _, kind := range []targets.Refill{targets.RefillFixed, targets.RefillAdaptive} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(kind, seed), func(t *testing.T) { budgetStory(t, kind, seed) })
		}
	}
}

func budgetStory(t *testing.T, kind targets.Refill, seed uint64) {
	play(t, 20, func(t *testing.T, w *world) {
		dice := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // G404: a test's dice
		login := learning("login", 1+dice.IntN(30))
		login.Refill, login.Budget.PerHour = kind, 1+dice.IntN(80)
		failing := 0.0 // under the market's lock
		w.market.with(func() { w.market.fail = func(captcha.Identity) bool { return w.market.draw.Float64() < failing } })
		w.apply(login)
		for range 60 {
			paused := dice.IntN(6) == 0
			w.shelf.with(func() { w.shelf.paused[login.ID] = paused })
			w.manager.Kick(login.ID)
			w.after(25 * time.Millisecond) // what was decided before is placed or not
			share := dice.Float64()
			w.market.with(func() { failing = share })
			placed := len(w.shelf.placed())
			every := time.Duration(1+dice.IntN(20)) * time.Second
			for range dice.IntN(20) {
				w.after(every)
				w.shelf.take(login)
			}
			w.after(time.Duration(dice.IntN(300)) * time.Second)
			if more := len(w.shelf.placed()) - placed; paused && more > 0 {
				t.Errorf("%d orders were placed while paused", more)
			}
		}
		placed := w.shelf.placed()
		for i, p := range placed {
			if n := i - login.Budget.PerHour; n >= 0 && p.at.Sub(placed[n].at) < time.Hour {
				t.Fatalf("more than %d orders within an hour", login.Budget.PerHour)
			}
		}
		// Nobody is stalled by what was.
		w.shelf.with(func() { w.shelf.paused[login.ID] = false })
		w.market.with(func() { failing = 0 })
		w.manager.Kick(login.ID)
		w.after(time.Hour + time.Minute)
		w.demand(login, 7*time.Second, 10*time.Minute)
		if len(w.shelf.placed()) == len(placed) {
			t.Error("nothing is bought any more")
		}
	})
}
