//go:build !race

package refill_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// The tests of this file play minutes and hours of many decisions, which the race detector would make too slow.

// An adaptive target buys nothing before its first request, follows the demand, stops with it, and remembers it
// across a restart. The requests alternate among three replicas.
func TestAnAdaptiveTargetFollowsTheDemand(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		const n = 3
		login := adaptive("login", 20)
		replicas := w.start(n, file(login))
		time.Sleep(time.Minute)
		testkit.Equal(t, "orders before the first request", w.sold(login), 0)
		w.demand(login, 5*second, 10*time.Minute, replicas...)
		before, stop := w.sold(login), w.commands()
		asked, hits := w.demand(login, 5*second, 10*time.Minute, replicas...)
		scripts, reads := stop()
		t.Logf("%d of %d requests found a token, %d were bought, %d scripts, %d reads of the learned state", hits, asked,
			w.sold(login)-before, scripts, reads)
		if bought := w.sold(login) - before; hits < asked*97/100 || bought > asked*115/100 {
			t.Errorf("%d of %d requests found a token, %d were bought", hits, asked, bought)
		}
		if reads > 60 || scripts > (3*n+4)*600 {
			t.Errorf("%d scripts, and %d reads of the learned state", scripts, reads)
		}
		if s := w.status(login); s.Want < 2 || s.Forecast <= 0 || s.State != refill.OK {
			t.Errorf("status while there is demand: %+v", s)
		}
		time.Sleep(5 * time.Minute)
		quiet, version := w.sold(login), w.counts(login).LearnedVersion
		time.Sleep(5 * time.Minute)
		testkit.AtMost(t, "tokens bought while nobody asked", w.sold(login)-quiet, 3)
		testkit.Equal(t, "saves while nobody asks", w.counts(login).LearnedVersion, version)
		for _, r := range replicas {
			r.stop()
		}
		next := w.start(1, file(login))
		if asked, hits = w.demand(login, 5*second, 6*time.Minute, next...); hits < asked*92/100 { // the first come too early
			t.Errorf("after a restart %d of %d requests found a token", hits, asked)
		}
	})
}

// Failing orders are tried slowly, and the status names the cause. A reload with other providers tries at once.
func TestBrakes(t *testing.T) {
	t.Parallel()
	others := func(login targets.Target) *targets.Set {
		set := file(login)
		set.Providers = []targets.Provider{{Name: "other"}}
		return set
	}
	bubble(t, "the provider rejects the parameters", func(t *testing.T, w *world) {
		login := target("login", 20)
		w.how = func(*purchase.Spec) pool.Outcome { return pool.BadParameters }
		r := w.start(1, file(login))[0]
		time.Sleep(10 * second)
		first := w.sold(login)
		testkit.AtMost(t, "orders until the first refusal", first, 10) // it comes while others are being placed
		testkit.Equal(t, "state", w.state(login), "refused ERROR bad_parameters")
		if in := time.Until(w.status(login).Until); in < 45*second || in > time.Minute {
			t.Errorf("the next order comes in %v", in)
		}
		time.Sleep(time.Hour)
		if n := w.sold(login) - first; n < 4 || n > 6 { // after 1, 2, 4, ... minutes
			t.Errorf("%d further orders in an hour", n)
		}
		testkit.Equal(t, "logged", r.log.Count("level=ERROR", "state=refused", `reason="ERROR bad_parameters"`), 1)
		w.set(func() { w.how = nil })
		r.Apply(others(login))
		time.Sleep(44 * second)
		testkit.Equal(t, "state after a solve", w.state(login), "ok")
		testkit.Equal(t, "told", strings.Join(r.told, ", "),
			`login refused true "ERROR bad_parameters", login refused false ""`)
		testkit.Equal(t, "tokens and orders", w.counts(login).Fresh+w.counts(login).Orders, 20)

		w.set(func() { w.how = func(*purchase.Spec) pool.Outcome { return pool.BadParameters } })
		more := login
		more.Depth = 30
		r.Apply(others(more))
		time.Sleep(time.Minute)
		testkit.Equal(t, "logged", r.log.Count("level=ERROR", "state=refused"), 2)
		r.Apply(others(login))
		testkit.Equal(t, "logged at a change of the file that keeps the identity", r.log.Count("state=ok"), 1) // as before
		r.Apply(others(target("another", 1)))
		testkit.Equal(t, "logged at its removal", r.log.Count("target=login", "state=ok", `reason="the file changed"`), 1)
	})
	bubble(t, "the orders fail", func(t *testing.T, w *world) {
		login := target("login", 20)
		login.ProvidersPolicy = targets.ProvidersOrdered
		w.lead, w.how = second, func(*purchase.Spec) pool.Outcome { return pool.Failed }
		replicas := w.start(2, file(login))
		logged := func() int { return replicas[0].log.Count("state=ok") + replicas[1].log.Count("state=ok") }
		time.Sleep(10 * second)
		before := w.sold(login)
		time.Sleep(10 * time.Minute)
		if n := w.sold(login) - before; n < 80 || n > 125 {
			t.Errorf("%d orders in 10 minutes, want one in 5 s", n)
		}
		testkit.Equal(t, "state", w.state(login),
			"starved ERROR failed: the last orders failed, so one is tried each 5s; check the sitekey, and the provider"+
				"; a spare provider gets orders only with `providers_policy: cheapest` or `best`")
		login.Depth++
		for _, r := range replicas {
			r.Apply(file(login)) // nothing is solved yet
		}
		time.Sleep(10 * second)
		testkit.Equal(t, "logged before a solve", logged(), 0)
		w.set(func() { w.how = nil })
		time.Sleep(10 * second)
		testkit.Equal(t, "state after a solve", w.state(login), "ok")
		testkit.AtLeast(t, "logged after it", logged(), 1)
	})
	bubble(t, "orders avoid a provider: it is logged, unless the order of the file decides", func(t *testing.T, w *world) {
		login, fixed := target("login", 1), target("fixed", 1)
		fixed.ProvidersPolicy = targets.ProvidersOrdered
		r := w.start(1, file(login, fixed))[0]
		for _, id := range []captcha.ID{login.ID, fixed.ID} {
			w.db.HSet(context.Background(), "{p}:brake:"+string(id), "avoid:main", time.Now().Add(time.Minute).UnixMilli())
			r.Changed(id)
		}
		time.Sleep(second)
		testkit.Equal(t, "logged", r.log.Count("level=WARN", "avoid a provider"), 1)
		testkit.Equal(t, "logged about login", r.log.Count("level=WARN", "avoid a provider", "target=login"), 1)
	})
	bubble(t, "there is no provider", func(t *testing.T, w *world) {
		login := target("login", 3)
		w.noProvider = true
		r := w.start(1, file(login))[0]
		time.Sleep(5 * second)
		stop := w.commands()
		time.Sleep(5 * time.Minute)
		scripts, _ := stop()
		testkit.AtMost(t, "scripts in 5 minutes", scripts, 5*60*3+40)
		testkit.Equal(t, "state", w.state(login), "starved "+purchase.ErrNoProvider.Error())
		w.set(func() { w.noProvider = false })
		r.Apply(others(login))
		time.Sleep(100 * time.Millisecond)
		testkit.Equal(t, "orders at once", w.sold(login), 3)
		testkit.Equal(t, "state after the reload", w.state(login), "ok")
	})
}

// A used-up budget stops purchases until it has room. The room of the overall budget goes to the target that has
// waited longest.
func TestBudgets(t *testing.T) {
	t.Parallel()
	bubble(t, "of a target", func(t *testing.T, w *world) {
		login := target("login", 3)
		login.Budget.PerHour = 2
		r := w.start(1, file(login))[0]
		began := time.Now()
		time.Sleep(5 * second)
		s := w.status(login)
		in := s.Until.Sub(began)
		if s.State != refill.Budget || in < 59*time.Minute || in > 61*time.Minute ||
			!strings.HasPrefix(s.Reason, "the budget of this target is used up: 2 of 2 solves in the last 60 minutes; "+
				"there is room again at 2026-") {
			t.Errorf("status %+v", s)
		}
		testkit.Equal(t, "logged", r.log.Count("level=WARN", "state=budget"), 1)
		due := w.db.ZScore(context.Background(), "{p}:due", string(login.ID)).Val()
		testkit.AtLeast(t, "time to the next decision", time.Until(time.UnixMilli(int64(due))), 10*time.Second)
		time.Sleep(20 * second) // until the orders have ended
		r.stop()                // an hour of a replica takes seconds
		time.Sleep(time.Until(began.Add(time.Hour - 10*second)))
		w.start(1, file(login))
		time.Sleep(9 * second)
		testkit.Equal(t, "orders within the hour", w.sold(login), 2)
		time.Sleep(4 * second)
		testkit.Equal(t, "orders after the hour", w.sold(login), 4)
	})
	bubble(t, "of all", func(t *testing.T, w *world) {
		first, later := target("first", 1), target("later", 1)
		set, both := file(first), file(first, later)
		set.Budget.PerHour, both.Budget.PerHour = 1, 1
		r := w.start(1, set)[0]
		time.Sleep(2 * second)
		r.Apply(both)
		time.Sleep(5 * second)
		testkit.Equal(t, w.state(later), strings.HasPrefix(w.state(later), "budget the overall budget is used up"), true)
		time.Sleep(20 * second)
		r.stop()
		time.Sleep(time.Hour - 40*second)
		w.start(1, both)
		time.Sleep(20 * second)
		testkit.Equal(t, "orders of the first", w.sold(first), 1)
		testkit.Equal(t, "orders of the second", w.sold(later), 1)
	})
}

// Idle targets cost one script in about 27 s each, whatever the number of replicas.
func TestIdleCosts(t *testing.T) {
	t.Parallel()
	const idle, minutes = 100, 3
	for _, n := range []int{1, 3} {
		bubble(t, fmt.Sprint(n, " replicas"), func(t *testing.T, w *world) {
			var list []targets.Target
			for i := range idle {
				list = append(list, adaptive(fmt.Sprint("t", i), 5))
			}
			w.start(n, file(list...))
			time.Sleep(2 * time.Minute)
			stop := w.commands()
			time.Sleep(minutes * time.Minute)
			scripts, reads := stop()
			each := float64(scripts-n*minutes*60*3) / idle / minutes // each replica asks twice and beats once in a second
			t.Logf("%.2f scripts a minute and idle target", each)
			if each < 1.8 || each > 2.4 || reads > 0 {
				t.Errorf("%.2f scripts a minute and idle target, %d reads", each, reads)
			}
		})
	}
}
