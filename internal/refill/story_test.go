package refill

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// A new target is filled immediately. Later, the replacement of each token is ordered one lead time
// before the token's margin begins.
func TestFillsAndRenews(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 20, func(t *testing.T, w *scenario) {
		login := target("login", 5)
		w.provider.lead = func() time.Duration { return 11 * time.Second }
		w.apply(login)
		w.after(13 * time.Second)
		if n := w.fresh(login); n != 5 {
			t.Errorf("%d fresh after a lead time, want 5", n)
		}
		short := 0
		for range 600 {
			w.after(2 * time.Second)
			if w.fresh(login) < 5 {
				short++
			}
		}
		// Because polls have jitter, lead times differ from the median, but by less than half a
		// second.
		if short > 30 {
			t.Errorf("short of tokens at %d of 600 looks", short)
		}
		// A token is 2 s old when it lands and stays fresh for 78 s. The token's successor lands at
		// the end of that time. So 5 x 1200/78 tokens are bought.
		if n := len(w.provider.sales()); n < 75 || n > 90 {
			t.Errorf("%d bought in twenty minutes, want about 80", n)
		}
		if n := w.status("login"); n.State != OK || n.Reason != "" || n.Want != 5 || (n.Lead-12*time.Second).Abs() > 500*time.Millisecond {
			t.Errorf("status %+v", n)
		}
	})
}

// A take causes an order immediately. A pending caller also causes an order immediately. For a
// pending caller, the order may exceed the depth.
func TestTakesAndWaitersAreOrderedFor(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		login := target("login", 3)
		w.apply(login)
		w.after(40 * time.Second)
		before := len(w.book.placed())
		for range 2 {
			w.take(login)
		}
		w.after(50 * time.Millisecond)
		if n := len(w.book.placed()) - before; n != 2 {
			t.Errorf("%d ordered for two takes, want 2", n)
		}
		for w.take(login) {
		}
		w.after(50 * time.Millisecond)
		before = len(w.book.placed())
		served := w.callers(login, 4)
		w.after(50 * time.Millisecond)
		if n := len(w.book.placed()) - before; n != 4 {
			t.Errorf("%d ordered for four who wait, want 4", n)
		}
		if n := <-served; n != 4 {
			t.Errorf("%d of four got a token", n)
		}
	})
}

// Two replicas that share a stock also share the depth and the concurrency.
func TestTwoReplicasShareDepthAndConcurrency(t *testing.T) {
	play(t, 3, func(t *testing.T, w *scenario) {
		a, b := target("a", 6), target("b", 6)
		w.apply(a, b)
		w.start(a, b)
		for range 60 {
			w.after(2 * time.Second)
			if places, err := w.elsewhere.Holders(t.Context(), "one"); err != nil || len(places) > 3 {
				t.Errorf("%d orders at the provider, want at most 3; %v", len(places), err)
			}
		}
		if w.fresh(a)+w.fresh(b) < 6 {
			t.Errorf("hardly anything bought: %d and %d", w.fresh(a), w.fresh(b))
		}
	})
}

// Parameters that the provider rejects stop only their target. The target is probed after a minute
// and then at growing intervals. The target is also probed immediately when its definition or the
// providers change.
func TestRefusedTargetIsProbed(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 4, func(t *testing.T, w *scenario) {
		bad, good := target("bad", 20), target("good", 3)
		w.provider.submit = func(id captcha.Identity) error {
			if id.Sitekey == "bad" {
				return &provider.Error{Class: provider.Parameters, Code: "WRONG_SITEKEY"}
			}
			return nil
		}
		w.apply(bad, good)
		w.after(10 * time.Minute)
		refused := func() (n int) {
			return w.provider.asked() - len(w.provider.sales())
		}
		// The probes are expected after 1, 3 and 7 minutes.
		if n := refused(); n < 4 || n > 7 {
			t.Errorf("asked %d times for the bad target in 10 minutes, want 3 probes after the 1 to 4 orders that were on their way", n)
		}
		if n := w.status("bad"); n.State != Refused || !strings.Contains(n.Reason, "WRONG_SITEKEY") {
			t.Errorf("status %+v", n)
		}
		if w.fresh(good) != 3 || w.status("good").State != OK {
			t.Errorf("the good target suffers: %d fresh, %+v", w.fresh(good), w.status("good"))
		}

		before := refused()
		moved := bad
		moved.Line, moved.Owner = 99, "other@example.com" // this change does not matter for the purchases
		w.apply(moved, good)
		w.after(time.Minute)
		if refused() != before {
			t.Error("asked again although nothing changed")
		}
		moved.Depth = 1
		w.apply(moved, good)
		w.after(time.Minute)
		if refused() == before {
			t.Error("not asked again although the definition changed")
		}
		before = refused()
		w.set = &targets.Set{Targets: w.set.Targets, Providers: []targets.Provider{{Name: "new"}}}
		w.manager.Apply(t.Context(), w.set)
		w.after(time.Minute)
		if refused() == before {
			t.Error("not asked again although the providers changed")
		}
	})
}

// After eight failures in a row, a target is probed once per 5 s until a success.
func TestFailingTargetIsProbed(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 50, func(t *testing.T, w *scenario) {
		broken := true
		w.provider.fail = func(captcha.Identity) bool { return broken }
		login := target("login", 10)
		w.apply(login)
		w.after(30 * time.Second)
		if n := w.status("login"); n.State != Starved || !strings.Contains(n.Reason, "UNSOLVABLE") {
			t.Errorf("status %+v", n)
		}
		before := w.provider.asked()
		w.after(5 * time.Minute)
		if n := w.provider.asked() - before; n < 50 || n > 61 {
			t.Errorf("%d orders in 5 min, want one per 5 s", n)
		}
		last := w.status("login").Failures
		if len(last) != failuresKept || time.Since(last[0].At) > 20*time.Second || !last[4].At.Before(last[0].At) || !strings.Contains(last[0].Reason, "UNSOLVABLE") {
			t.Errorf("the last failures: %+v", last)
		}
		w.provider.with(func() { broken = false })
		w.after(time.Minute)
		if n := w.fresh(login); n != 10 || w.status("login").State != OK {
			t.Errorf("%d fresh after it works again, %+v", n, w.status("login"))
		}
	})
}

// If orders were decided but not placed before the failures, they are not placed after the
// failures.
func TestFailuresStopEarlierDecisions(t *testing.T) {
	play(t, 10, func(t *testing.T, w *scenario) {
		w.provider.fail = func(captcha.Identity) bool { return true }
		w.provider.lead = func() time.Duration { return 10 * time.Second }
		w.apply(target("login", 60))
		w.after(time.Minute)
		// The expected number is the sum of ten orders at the start, a few orders while the first eight
		// orders failed, and ten probes.
		if n := w.provider.asked(); n < 15 || n > 32 {
			t.Errorf("%d orders in a minute of failures, want about 28", n)
		}
		// Orders that were not placed hold no slot.
		w.provider.with(func() { w.provider.fail = nil })
		w.after(25 * time.Second)
		if n := w.stock(w.set.Targets[0]).Orders; n != 10 {
			t.Errorf("%d orders under way after it, want one for each slot", n)
		}
	})
}

// There is a delay between calls to a busy provider, even if the provider does not request one.
func TestBusyProviderIsNotHammered(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		w.provider.submit = func(captcha.Identity) error { return &provider.Error{Class: provider.Capacity, Code: "NO_SLOT"} }
		w.apply(target("login", 5))
		w.after(20 * time.Second)
		if n := w.provider.asked(); n < 38 || n > 80 {
			t.Errorf("%d submits in 20 s, want one each 250 to 500 ms", n)
		}
		if n := w.stock(w.set.Targets[0]).Figures.Failed; n != 0 {
			t.Errorf("%d orders counted as failed; nothing was bought", n)
		}
	})
}

// While Redis is down, nothing is bought, and the pauses between the looks grow. After the outage,
// everything continues.
func TestRedisAway(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		login := target("login", 5)
		w.redis.SetDown(true)
		w.apply(login)
		w.after(time.Minute)
		if n := w.provider.asked(); n != 0 {
			t.Errorf("%d submits while Redis is away", n)
		}
		if looks, _ := w.store.lookCount(login.ID); looks < 25 || looks > 60 {
			t.Errorf("%d looks in a minute without Redis, want about 35", looks)
		}
		if n := w.status("login"); n.State != Starved || !strings.HasPrefix(n.Reason, redisdb.Reason(redisdb.ErrDown)) {
			t.Errorf("status %+v", n)
		}
		w.redis.SetDown(false)
		// The store notices the end of the outage at its next probe, and the worker looks again within
		// awayMost. The provider then solves the orders in at most 24 s, and is polled every 2 s.
		w.after(probeEvery + awayMost + 27*time.Second)
		if n := w.fresh(login); n != 5 || w.status("login").State != OK {
			t.Errorf("%d fresh after Redis came back, %+v", n, w.status("login"))
		}
		// In the next outage the backoff begins again with the shortest wait.
		w.redis.SetDown(true)
		before, _ := w.store.lookCount(login.ID)
		w.manager.Wake(login.ID)
		// The first three looks come within 250 ms, 500 ms and the retries of their calls. With the longest
		// backoff there would be one.
		w.after(1500 * time.Millisecond)
		if looks, _ := w.store.lookCount(login.ID); looks < before+3 {
			t.Errorf("%d looks at the start of the second outage, want at least 3", looks-before)
		}
		w.redis.SetDown(false)
		w.after(10 * time.Second)
	})
}

// A pause, in the file or by the API, stops buying and keeps the stock.
func TestPaused(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		byFile, byPost := target("by-file", 3), target("by-post", 3)
		byFile.Paused = true
		w.apply(byFile, byPost)
		w.after(30 * time.Second)
		if err := w.elsewhere.Pause(t.Context(), byPost.ID, pool.Pause{}); err != nil {
			t.Fatal(err)
		}
		before := w.provider.asked()
		w.after(10 * time.Minute)
		if n := w.provider.asked(); n != before || n != 3 {
			t.Errorf("%d submits, %d before the pause, want 3", n, before)
		}
		for _, name := range []string{"by-file", "by-post"} {
			if n := w.status(name); n.State != Paused || n.Want != 0 || n.Reason == "" {
				t.Errorf("status of %s: %+v", name, n)
			}
		}
		if err := w.elsewhere.Resume(t.Context(), byPost.ID); err != nil {
			t.Fatal(err)
		}
		byFile.Paused = false
		w.apply(byFile, byPost)
		w.after(30 * time.Second)
		if w.fresh(byFile) != 3 || w.fresh(byPost) != 3 {
			t.Errorf("%d and %d fresh after the pauses", w.fresh(byFile), w.fresh(byPost))
		}
	})
}

// starves starts a target that cannot buy, and checks that its status becomes starved.
func (w *scenario) starves(target targets.Target) {
	w.t.Helper()
	w.apply(target)
	w.after(time.Second)
	if n := w.status(target.Name); n.State != OK {
		w.t.Errorf("called starved after a second: %+v", n)
	}
	w.after(5 * time.Second)
	if n := w.status(target.Name); n.State != Starved || n.Reason == "" {
		w.t.Errorf("after six seconds: %+v", n)
	}
}

// A target is starved if orders of other replicas use all slots of the provider.
func TestStarvedByOtherReplicas(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		login := target("login", 3)
		for n := range 20 {
			ref := pool.Ref{Identity: target("other", 1).ID, Order: fmt.Sprint(n)}
			if p, err := w.elsewhere.Acquire(t.Context(), "one", ref, 20, time.Hour, -1); !p.OK || err != nil {
				t.Fatal(p.OK, err)
			}
		}
		w.starves(login)
	})
}

// If a target gets no slot, the target's status shows the reason. If a reload adds a provider, the
// target buys immediately.
func TestStarved(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		login := target("login", 3)
		w.provider.with(func() { w.provider.down = true })
		w.starves(login)
		w.buyer.SetProviders(nil)
		w.after(time.Minute)
		if n := w.status("login"); n.State != Starved || n.Reason != purchase.ErrNoProvider.Error() {
			t.Errorf("status without a provider: %+v", n)
		}
		w.provider.with(func() { w.provider.down = false })
		w.buyer.SetProviders([]purchase.Entry{{Provider: w.provider, Concurrency: 5}})
		w.manager.Apply(t.Context(), &targets.Set{Targets: w.set.Targets, Providers: []targets.Provider{{Name: "one"}}})
		w.after(100 * time.Millisecond)
		if n := w.provider.asked(); n != 3 {
			t.Errorf("%d submits right after the reload, want 3", n)
		}
		w.after(30 * time.Second)
		if n := w.status("login"); n.State != OK || n.Reason != "" {
			t.Errorf("status when all is well: %+v", n)
		}
	})
}

// If the submit of an order got no clear answer, the order counts as bought and counts toward the
// depth. The status shows the number of these orders.
func TestOrdersOfUnknownFateAreShown(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		w.provider.submit = func(captcha.Identity) error {
			return &provider.Error{Class: provider.Capacity, Code: "timeout", Unknown: true}
		}
		login := target("login", 3)
		w.apply(login)
		w.after(30 * time.Second)
		if n := w.provider.asked(); n != 3 {
			t.Errorf("%d submits for a depth of 3: what may have been bought was bought again", n)
		}
		if n := w.status("login"); n.State != Starved || !strings.Contains(n.Reason, "the outcome of 3 of 3 orders in flight is unknown") {
			t.Errorf("note: %+v", n)
		}
	})
}
