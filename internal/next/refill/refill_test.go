package refill_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/next/pool"
	"poold/internal/next/purchase"
	"poold/internal/next/refill"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// A target is filled to its depth and kept there. Each taken token is replaced at once, by the wake-up alone.
func TestFilling(t *testing.T) {
	t.Parallel()
	bubble(t, "one replica", func(t *testing.T, w *world) {
		login := target("login", 5)
		r := w.start("r1", login)
		time.Sleep(2 * second)
		same(t, "orders after 2 s", w.sold(login), 5)
		time.Sleep(20 * second)
		same(t, "tokens", w.counts(login).Fresh, 5)
		same(t, "state", w.state(login), "ok")
		for range 3 {
			if !r.take(login) {
				t.Error("no token")
			}
			before := w.sold(login)
			time.Sleep(100 * time.Millisecond)
			same(t, "orders 100 ms after a take", w.sold(login), before+1)
		}
		w.set(func() { w.most = map[captcha.ID]int{} })
		few := 0
		for range 100 { // tokens are replaced a lead time before they are too old
			time.Sleep(9700 * time.Millisecond)
			if c := w.counts(login); c.Fresh < 5 {
				few++
			}
		}
		if few > 5 {
			t.Errorf("fewer than 5 tokens at %d of 100 moments", few)
		}
		if n := w.most[login.ID]; n > 10 {
			t.Errorf("%d tokens and orders at a depth of 5", n)
		}
	})
	bubble(t, "three replicas share the work and buy nothing twice", func(t *testing.T, w *world) {
		var list []targets.Target
		for i := range 30 {
			list = append(list, target(fmt.Sprint("t", i), 4))
		}
		replicas := []*replica{w.start("r1", list...), w.start("r2", list...), w.start("r3", list...)}
		time.Sleep(4 * second)
		for i, one := range list {
			same(t, "orders", w.sold(one), 4)
			list[i].Depth = 9 // of a reload that comes to all at the same moment
		}
		for _, r := range replicas {
			r.Apply(file(list...))
		}
		time.Sleep(second)
		deciders := map[string]bool{}
		for _, one := range list {
			same(t, "orders after the reload", w.sold(one), 9)
		}
		time.Sleep(time.Minute)
		for _, one := range list {
			deciders[w.db.HGet(context.Background(), "{p}:stats:"+string(one.ID), "decider").Val()] = true
		}
		same(t, "deciders", len(deciders), 3)
	})
}

// A replica that asked what is due, and died, delays these decisions by 2 s, and its own wake-ups are not needed.
func TestADeadReplicaDelaysADecision(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		login := target("login", 3)
		r1, r2 := w.start("r1", login), w.start("r2", login)
		time.Sleep(22 * second)
		same(t, "tokens", w.counts(login).Fresh, 3)
		r1.deaf.Store(true)
		if !r1.take(login) {
			t.Error("no token")
		}
		r1.kill()
		before := w.sold(login)
		time.Sleep(3 * second)
		same(t, "orders", w.sold(login), before+1)
		if n := r2.log.Count("panic"); n > 0 {
			t.Error(r2.log.String())
		}
	})
}

// An adaptive target buys nothing before its first request, follows the demand, stops with it, and remembers it
// across a restart. Replicas among which the requests alternate reach nearly the same.
func TestAdaptive(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	for _, n := range []int{1, 3} {
		bubble(t, fmt.Sprint(n, " replicas"), func(t *testing.T, w *world) {
			login := adaptive("login", 20)
			var replicas []*replica
			for i := range n {
				replicas = append(replicas, w.start(fmt.Sprint("r", i), login))
			}
			time.Sleep(time.Minute)
			same(t, "orders before the first request", w.sold(login), 0)
			w.demand(login, 5*second, 10*time.Minute, replicas...)
			before := w.sold(login)
			asked, hits := w.demand(login, 5*second, 10*time.Minute, replicas...)
			bought := w.sold(login) - before
			t.Logf("%d of %d requests found a token, %d were bought", hits, asked, bought)
			if hits < asked*97/100 || bought > asked*115/100 {
				t.Errorf("%d of %d requests found a token, %d were bought", hits, asked, bought)
			}
			if s := w.status(login); s.Want < 2 || s.Forecast <= 0 || s.State != refill.OK {
				t.Errorf("status while there is demand: %+v", s)
			}
			time.Sleep(5 * time.Minute)
			quiet, version := w.sold(login), w.counts(login).Learned
			time.Sleep(10 * time.Minute)
			if more := w.sold(login) - quiet; more > 3 {
				t.Errorf("%d tokens were bought while nobody asked", more)
			}
			same(t, "saves while nobody asks", w.counts(login).Learned, version)
			for _, r := range replicas {
				r.stop()
			}
			next := w.start("next", login)
			if asked, hits = w.demand(login, 5*second, 6*time.Minute, next); hits < asked*92/100 { // the first four come before a token can
				t.Errorf("after a restart %d of %d requests found a token", hits, asked)
			}
		})
	}
}

// What several replicas learn of a sparse, regular demand is enough to meet it.
func TestSparseDemandAtSeveralReplicas(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	for _, n := range []int{1, 3} {
		bubble(t, fmt.Sprint(n, " replicas"), func(t *testing.T, w *world) {
			login := adaptive("login", 20)
			var replicas []*replica
			for i := range n {
				replicas = append(replicas, w.start(fmt.Sprint("r", i), login))
			}
			w.demand(login, 2*time.Minute, 30*time.Minute, replicas...)
			before := w.sold(login)
			asked, hits := w.demand(login, 2*time.Minute, time.Hour, replicas...)
			t.Logf("%d of %d requests found a token, %d were bought", hits, asked, w.sold(login)-before)
			if hits < asked*80/100 {
				t.Errorf("%d of %d requests found a token", hits, asked)
			}
		})
	}
}

// A replica that stops does not replace a newer learned state by its own old one.
func TestAStopLeavesANewerLearnedState(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		login := adaptive("login", 20)
		r1 := w.start("r1", login)
		w.demand(login, 5*second, 2*time.Minute, r1)
		r2 := w.start("r2", login)
		r1.deaf.Store(true)
		w.demand(login, 5*second, time.Minute, r2)
		r1.stop()
		w.demand(login, 5*second, 2*time.Minute, r2)
		time.Sleep(second)
		r2.stop()
		stored := w.db.Get(context.Background(), "{p}:learned:"+string(login.ID)).Val()
		if !strings.HasPrefix(stored, `{"Seen":{"Requests":60,`) {
			t.Errorf("stored %.100s", stored)
		}
	})
}

// A reload adds, changes, pauses and removes targets, and leaves the others alone.
func TestReload(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		kept, gone, less, halted := target("kept", 2), target("gone", 2), target("less", 4), target("halted", 2)
		r := w.start("r1", kept, gone, less, halted)
		time.Sleep(22 * second)
		keptSold := w.sold(kept)
		less.Depth, halted.Paused, kept.Line, kept.Owner = 1, true, 99, "others"
		added := target("added", 3)
		r.Apply(file(kept, less, halted, added))
		time.Sleep(100 * time.Millisecond)
		same(t, "orders of the added target", w.sold(added), 3)
		same(t, "orders of the kept target", w.sold(kept), keptSold)
		same(t, "state of the halted target", w.state(halted), "paused paused in the configuration file")
		sold := map[string]int{"gone": w.sold(gone), "halted": w.sold(halted)}
		time.Sleep(5 * time.Minute)
		same(t, "orders of the removed target", w.sold(gone), sold["gone"])
		same(t, "orders of the halted target", w.sold(halted), sold["halted"])
		same(t, "due of the removed target", w.due(gone), "never")
		same(t, "due of the halted target", w.due(halted), "never")
		if c := w.counts(less); c.Fresh < 1 || c.Fresh > 2 {
			t.Errorf("%d tokens at a depth of 1", c.Fresh)
		}
		same(t, "owner of the next order", w.bought[len(w.bought)-1].Owner != "", true)
		halted.Paused = false
		r.Apply(file(kept, less, halted, added, gone))
		time.Sleep(100 * time.Millisecond)
		same(t, "orders after the end of the pause", w.sold(halted), sold["halted"]+2)
		same(t, "orders of the target that is back", w.sold(gone), sold["gone"]+2)
		for _, s := range w.bought {
			if s.Target == "kept" && s.Owner == "others" {
				return
			}
		}
		t.Error("no order has the new owner")
	})
	bubble(t, "an old definition places no further order", func(t *testing.T, w *world) {
		login := target("login", 10)
		r := w.start("r1")
		w.set(func() {
			w.how = func(s *purchase.Spec) pool.How {
				if len(w.bought) == 2 {
					go r.Apply(file()) // it waits until this order is being placed
				}
				return pool.Solved
			}
		})
		r.Apply(file(login))
		time.Sleep(5 * second)
		if n := w.sold(login); n < 3 || n > 5 {
			t.Errorf("%d orders, of which 3 were placed before the reload", n)
		}
	})
}

// An operator's pause stops purchases at all replicas, until it ends or is ended.
func TestPause(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		login := target("login", 3)
		r1, r2 := w.start("r1", login), w.start("r2", login)
		time.Sleep(22 * second)
		ctx := context.Background()
		if err := r1.pool.Pause(ctx, login.ID, "the site is down", time.Minute); err != nil {
			t.Fatal(err)
		}
		before := w.sold(login)
		for range 3 {
			r2.take(login)
		}
		time.Sleep(58 * second)
		same(t, "orders during the pause", w.sold(login), before)
		same(t, "state", w.state(login), "paused the site is down")
		same(t, "want", w.status(login).Want, 0)
		time.Sleep(4 * second)
		same(t, "orders after the end of the pause", w.sold(login), before+3)
		same(t, "state after the pause", w.state(login), "ok")
		_ = r1.pool.Pause(ctx, login.ID, "", 0)
		time.Sleep(2 * time.Minute)
		same(t, "tokens in a pause without an end", w.counts(login).Fresh, 0)
		_ = r2.pool.Resume(ctx, login.ID)
		time.Sleep(100 * time.Millisecond)
		same(t, "orders at once", w.counts(login).Orders, 3)
	})
}

// Failing orders are tried slowly, and the status names the cause. A reload with other providers tries at once.
func TestBrakes(t *testing.T) {
	t.Parallel()
	bubble(t, "the provider rejects the parameters", func(t *testing.T, w *world) {
		login := target("login", 20)
		w.how = func(*purchase.Spec) pool.How { return pool.Hopeless }
		r := w.start("r1", login)
		time.Sleep(10 * second)
		if n := w.sold(login); n > 3 {
			t.Errorf("%d orders in 10 s", n)
		}
		same(t, "state", w.state(login), "refused ERROR hopeless")
		if in := time.Until(w.status(login).Until); in < 45*second || in > time.Minute {
			t.Errorf("the next order comes in %v", in)
		}
		time.Sleep(time.Hour)
		if n := w.sold(login); n < 6 || n > 10 { // after 1, 2, 4, ... minutes
			t.Errorf("%d orders in an hour", n)
		}
		same(t, "logged", r.log.Count("level=ERROR", "state=refused", `reason="ERROR hopeless"`), 1)
		before := w.sold(login)
		w.set(func() { w.how = nil })
		set := file(login)
		set.Providers = []targets.Provider{{Name: "other"}}
		r.Apply(set)
		time.Sleep(22 * second)
		same(t, "orders after the reload", w.sold(login) > before, true)
		time.Sleep(22 * second)
		same(t, "state after a solve", w.state(login), "ok")
		same(t, "tokens and orders", w.counts(login).Fresh+w.counts(login).Orders, 20)
	})
	bubble(t, "the orders fail", func(t *testing.T, w *world) {
		login := target("login", 20)
		w.lead, w.how = second, func(*purchase.Spec) pool.How { return pool.Failed }
		w.start("r1", login)
		w.start("r2", login)
		time.Sleep(10 * second)
		before := w.sold(login)
		time.Sleep(10 * time.Minute)
		if n := w.sold(login) - before; n < 80 || n > 125 {
			t.Errorf("%d orders in 10 minutes, want one in 5 s", n)
		}
		want := "starved the last orders failed or were refused, one try each 5s (has the sitekey changed?); the last: ERROR failed"
		same(t, "state", w.state(login), want)
		w.set(func() { w.how = nil })
		time.Sleep(10 * second)
		same(t, "state after a solve", w.state(login), "ok")
	})
	bubble(t, "there is no provider", func(t *testing.T, w *world) {
		login := target("login", 3)
		w.noProvider = true
		r := w.start("r1", login)
		time.Sleep(5 * second)
		same(t, "state", w.state(login), "starved "+purchase.ErrNoProvider.Error())
		w.set(func() { w.noProvider = false })
		set := file(login)
		set.Providers = []targets.Provider{{Name: "main"}}
		r.Apply(set)
		time.Sleep(100 * time.Millisecond)
		same(t, "orders at once", w.sold(login), 3)
		same(t, "state after the reload", w.state(login), "ok")
	})
}

// A used-up budget stops purchases until it has room. The room of the overall budget goes to the target that has
// waited longest.
func TestBudgets(t *testing.T) {
	t.Parallel()
	bubble(t, "of a target", func(t *testing.T, w *world) {
		login := target("login", 3)
		login.Budget.PerHour = 2
		r := w.start("r1", login)
		began := time.Now()
		time.Sleep(5 * second)
		same(t, "orders", w.sold(login), 2)
		s := w.status(login)
		same(t, "state", s.State, refill.Budget)
		if in := s.Until.Sub(began); in < 59*time.Minute || in > 61*time.Minute || !strings.HasPrefix(s.Reason, refill.OwnBudget+"; there is room again at 2026-") {
			t.Errorf("status %+v", s)
		}
		time.Sleep(58 * time.Minute)
		same(t, "orders within the hour", w.sold(login), 2)
		time.Sleep(3 * time.Minute)
		same(t, "orders after the hour", w.sold(login), 4)
		same(t, "logged", r.log.Count("level=WARN", "state=budget"), 1)
	})
	bubble(t, "of all", func(t *testing.T, w *world) {
		first, later := target("first", 1), target("later", 1)
		set := file(first)
		set.Budget.PerHour = 1
		r := w.startSet("r1", set)
		time.Sleep(2 * second)
		same(t, "orders of the first", w.sold(first), 1)
		both := file(first, later)
		both.Budget.PerHour = 1
		r.Apply(both)
		time.Sleep(5 * second)
		same(t, "orders of the second", w.sold(later), 0)
		if s := w.state(later); !strings.HasPrefix(s, "budget "+refill.OverallBudget) {
			t.Error(s)
		}
		time.Sleep(time.Hour)
		same(t, "orders of the first after an hour", w.sold(first), 1)
		same(t, "orders of the second after an hour", w.sold(later), 1)
	})
}

// A target whose orders need more threads than there are is starved all the time until it is filled, and says what
// helps. Others have their turns.
func TestStarvedForThreads(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2} {
		bubble(t, fmt.Sprint(n, " replicas"), func(t *testing.T, w *world) {
			w.concurrency, w.lead = 1, 5*second
			login := target("login", 12)
			var replicas []*replica
			for i := range n {
				replicas = append(replicas, w.start(fmt.Sprint("r", i), login))
			}
			time.Sleep(4 * second)
			for range 50 {
				same(t, "state", w.state(login), "starved 1 of 1 threads of main in use; raise concurrency")
				time.Sleep(second)
			}
			if n := w.sold(login); n < 10 {
				t.Errorf("%d orders in 54 s", n)
			}
			w.set(func() { w.concurrency = 20 })
			time.Sleep(30 * second)
			same(t, "state with threads", w.state(login), "ok")
			logged := 0
			for _, r := range replicas {
				logged += r.log.Count("level=WARN", "state=starved")
			}
			if logged < 1 || logged > n {
				t.Errorf("logged %d times", logged)
			}
		})
	}
	bubble(t, "turns", func(t *testing.T, w *world) {
		w.concurrency, w.lead = 2, 5*second
		var list []targets.Target
		for i := range 10 {
			list = append(list, target(fmt.Sprint("t", i), 1))
		}
		w.start("r1", list...)
		w.start("r2", list...)
		time.Sleep(28 * second)
		for _, one := range list {
			same(t, "orders of "+one.Name, w.sold(one), 1)
		}
	})
}

// While Redis is away, a replica asks rarely; when it is back, all is filled within seconds, even if Redis has lost
// its data.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		login, learns := target("login", 3), adaptive("learns", 20)
		r := w.start("r1", login, learns)
		w.demand(learns, 5*second, 10*time.Minute, r)
		want := w.status(learns).Want
		w.server.SetDown(true)
		time.Sleep(2 * time.Minute)
		if idle := time.Since(r.LastTurn()); idle > 5*second {
			t.Errorf("the last turn was %v ago", idle)
		}
		w.server.FlushAll()
		w.server.SetDown(false)
		time.Sleep(5 * second)
		same(t, "orders", w.counts(login).Orders, 3)
		r.take(learns)
		time.Sleep(second)
		if got := w.status(learns).Want; got < want-2 || got == 0 {
			t.Errorf("the target wants %d tokens after the loss, %d before: the memory was dropped", got, want)
		}
	})
}

// A replica decides for its guests: one order for each ticket, also if wake-ups are lost and another replica that does
// not know the guest gets what is due.
func TestGuests(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		known := target("guest", 0)
		id := pool.Guest(known.Identity.ID())
		spec := purchase.Spec{Identity: known.Identity, ID: id, Margin: 10 * second, Lifetime: 100 * second, Horizon: 10 * second, Guest: true}
		r1, r2 := w.start("r1"), w.start("r2")
		known.ID = id
		got := make(chan error, 2)
		for range 2 {
			go func() {
				release := r1.Guest(spec)
				defer release()
				_, err := r1.pool.Take(context.Background(), &pool.Call{
					Name: fmt.Sprint(time.Now().UnixNano(), len(got)), Nonce: "n", ID: id, Margin: 10 * second, Wait: time.Minute, MostTickets: 10,
				})
				got <- err
			}()
			time.Sleep(second)
		}
		same(t, "orders for two callers", w.sold(known), 2)
		for range 2 {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
		r1.deaf.Store(true)
		go func() {
			defer r1.Guest(spec)()
			_, err := r1.pool.Take(context.Background(), &pool.Call{Name: "third", Nonce: "n", ID: id, Margin: 10 * second, Wait: time.Minute, MostTickets: 10})
			got <- err
		}()
		time.Sleep(3 * second)
		same(t, "orders after a lost wake-up", w.sold(known), 3)
		if err := <-got; err != nil {
			t.Error(err)
		}
		time.Sleep(10 * second)
		same(t, "due when nobody needs it", w.due(known), "never")
		same(t, "errors", r1.log.Count("panic")+r2.log.Count("panic"), 0)
	})
}

// A panic in one decision ends nothing else, and that target is tried again.
func TestAPanicEndsOneDecision(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		good, bad := target("good", 2), target("bad", 2)
		bad.Identity.Type = captcha.HCaptcha
		r := w.start("r1")
		broken := true
		r.pace = func(kind captcha.Type) {
			if kind == captcha.HCaptcha && broken {
				panic("of a test")
			}
		}
		r.Apply(file(good, bad))
		time.Sleep(5 * second)
		same(t, "orders of the other target", w.sold(good), 2)
		if n := r.log.Count("panic in a decision"); n < 1 || n > 4 {
			t.Errorf("logged %d times in 5 s", n)
		}
		broken = false
		time.Sleep(3 * second)
		same(t, "orders of the target after the cause is gone", w.sold(bad), 2)
	})
}

// Run ends when its context ends, after the decisions and the orders.
func TestStop(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		r := w.start("r1", target("login", 50))
		time.Sleep(3 * second)
		r.stop()
		synctest.Wait()
		same(t, "ended", r.ended.Load(), true)
		same(t, "state", w.state(target("login", 50)), "ok")
	})
}

// Idle targets cost one script in about 27 s each, whatever the number of replicas.
func TestIdleCosts(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const idle, minutes = 200, 10
	for _, n := range []int{1, 3} {
		bubble(t, fmt.Sprint(n, " replicas"), func(t *testing.T, w *world) {
			var list []targets.Target
			for i := range idle {
				list = append(list, adaptive(fmt.Sprint("t", i), 5))
			}
			for i := range n {
				w.start(fmt.Sprint("r", i), list...)
			}
			time.Sleep(2 * time.Minute)
			scripts := w.scripts()
			time.Sleep(minutes * time.Minute)
			// Each replica asks twice and beats once in a second.
			rest := float64(scripts() - n*minutes*60*3)
			each := rest / idle / minutes
			t.Logf("%.2f scripts a minute and idle target", each)
			if each < 2 || each > 2.4 {
				t.Errorf("%.2f scripts a minute and idle target", each)
			}
		})
	}
}
