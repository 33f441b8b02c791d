package refill

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/targets"
)

// episode is a part of a budget story.
type episode struct {
	paused  bool
	failing float64       // share of solves that fail
	every   time.Duration // between requests
	asked   int
	quiet   time.Duration // after the last one
}

// Whatever the demand, the failures and the pauses, no hour sees more orders than
// its budget, nothing is ordered while paused or beyond depth (play sees to that),
// and when there is budget and somebody asks, buying goes on: for both ways of
// refilling.
func TestBudgetsAndPausesHold(t *testing.T) {
	long(t)
	type trial struct {
		target targets.Target
		story  []episode
	}
	trials := rapid.Custom(func(r *rapid.T) trial {
		login := learning("login", rapid.IntRange(1, 30).Draw(r, "depth"))
		login.Refill = rapid.SampledFrom([]targets.Refill{targets.RefillFixed, targets.RefillAdaptive}).Draw(r, "refill")
		login.Budget.PerHour = rapid.IntRange(1, 60).Draw(r, "per hour")
		story := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) episode {
			return episode{
				paused:  rapid.IntRange(0, 5).Draw(r, "paused") == 5,
				failing: rapid.Float64Range(0, 1).Draw(r, "failing"),
				every:   time.Duration(rapid.IntRange(1, 20).Draw(r, "every")) * time.Second,
				asked:   rapid.IntRange(0, 20).Draw(r, "asked"),
				quiet:   time.Duration(rapid.IntRange(0, 300).Draw(r, "quiet")) * time.Second,
			}
		}), 5, 10).Draw(r, "story")
		return trial{login, story}
	})
	for seed := range 4 {
		x := trials.Example(seed)
		if problem := budgetStory(t, x.target, x.story); problem != "" {
			t.Errorf("%s: %+v", problem, x)
		}
	}
}

// budgetStory plays it and says what went wrong.
func budgetStory(t *testing.T, login targets.Target, story []episode) (problem string) {
	play(t, 20, func(t *testing.T, w *scenario) {
		failing := 0.0 // under the fake's lock
		w.provider.with(func() { w.provider.fail = func(captcha.Identity) bool { return w.provider.draw.Float64() < failing } })
		w.apply(login)
		begin := func(e episode) {
			w.provider.with(func() { failing = e.failing })
			pause := w.elsewhere.Resume
			if e.paused {
				pause = func(ctx context.Context, id captcha.ID) error { return w.elsewhere.Pause(ctx, id, pool.Pause{}) }
			}
			if err := pause(t.Context(), login.ID); err != nil {
				t.Error(err)
			}
			w.after(25 * time.Millisecond) // what was decided before is placed or not
		}
		for _, e := range story {
			begin(e)
			before := len(w.book.placed())
			w.demand(login, e.every, time.Duration(e.asked)*e.every)
			w.after(e.quiet)
			if more := len(w.book.placed()) - before; e.paused && more > 0 {
				problem = fmt.Sprintf("%d orders were placed while paused", more)
			}
		}
		placed := w.book.placed()
		for i, p := range placed {
			if n := i - login.Budget.PerHour; n >= 0 && p.at.Sub(placed[n].at) < time.Hour {
				problem = fmt.Sprintf("more than %d orders within an hour", login.Budget.PerHour)
			}
		}
		// Nobody is stalled by what was.
		begin(episode{})
		w.after(time.Hour + time.Minute)
		w.demand(login, 7*time.Second, 10*time.Minute)
		if len(w.book.placed()) == len(placed) {
			problem = "nothing is bought any more"
		}
	})
	return problem
}
