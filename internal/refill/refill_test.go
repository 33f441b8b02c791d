package refill_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// A target is filled to its depth and kept there. Each taken token is replaced at once, by the wake-up alone.
func TestATargetIsFilledToItsDepth(t *testing.T) {
	t.Parallel()
	bubble(t, "one replica", func(t *testing.T, w *world) {
		login, floor := target("login", 5), adaptive("floor", 20)
		floor.Min = 4
		r := w.start(1, file(login, floor))[0]
		time.Sleep(100 * time.Millisecond)
		testkit.Equal(t, "orders at once", w.sold(login), 5)
		testkit.Equal(t, "orders for min", w.sold(floor), 4)
		time.Sleep(21 * second)
		testkit.Equal(t, "tokens", w.counts(login).Fresh, 5)
		testkit.Equal(t, "state", w.state(login), "ok")
		for range 3 {
			testkit.Equal(t, "a token", r.take(login), true)
			before := w.sold(login)
			time.Sleep(100 * time.Millisecond)
			testkit.Equal(t, "orders 100 ms after a take", w.sold(login), before+1)
		}
		before := w.sold(login)
		w.set(func() { w.slow = second / 2 })
		r.take(login)
		time.Sleep(second / 4)
		r.take(login) // a decision runs
		time.Sleep(second)
		testkit.Equal(t, "orders when a change came during a decision", w.sold(login), before+2)
		w.set(func() { w.slow = 0 })
		few := 0
		for range 100 { // tokens are replaced a lead time before they are too old
			time.Sleep(9700 * time.Millisecond)
			if c := w.counts(login); c.Fresh < 5 {
				few++
			} else {
				testkit.AtMost(t, "tokens and orders at a depth of 5", c.Fresh+c.Orders, 10)
			}
		}
		testkit.AtMost(t, "moments of 100 with fewer than 5 tokens", few, 5)
	})
	bubble(t, "three replicas share the work and buy nothing twice", func(t *testing.T, w *world) {
		var list []targets.Target
		for i := range 30 {
			list = append(list, target(fmt.Sprint("t", i), 4))
		}
		replicas := w.start(3, file(list...))
		time.Sleep(4 * second)
		for i, one := range list {
			testkit.Equal(t, "orders", w.sold(one), 4)
			list[i].Depth = 9 // of a reload that comes to all at the same moment
		}
		for _, r := range replicas {
			r.Apply(file(list...))
		}
		time.Sleep(time.Minute)
		for _, one := range list {
			testkit.Equal(t, "orders after the reload", w.sold(one), 9)
		}
		testkit.Equal(t, "deciders", len(w.buyers), 3)
	})
	bubble(t, "a replica that takes over plans with the known lead times", func(t *testing.T, w *world) {
		login := target("login", 1)
		w.lead = 40 * second
		first := w.start(1, file(login))[0]
		time.Sleep(5 * time.Minute)
		before := w.sold(login)
		for w.sold(login) == before {
			time.Sleep(second)
		}
		time.Sleep(42 * second) // a token has just landed: the next order comes 50 s later
		first.stop()
		before = w.sold(login)
		time.Sleep(53 * second)
		w.start(1, file(login))
		time.Sleep(100 * time.Millisecond)
		testkit.Equal(t, "orders", w.sold(login), before+1)
	})
	bubble(t, "an order for a waiting caller is urgent, the one for the stock is not", func(t *testing.T, w *world) {
		login, urgent := target("login", 2), ""
		r := w.start(1, file())[0]
		wait := func(name string) {
			call := &pool.Call{Name: name, Nonce: "n", ID: login.ID, Wait: time.Minute, MostTickets: 10}
			_, _ = r.pool.Take(context.Background(), call)
		}
		go wait("one")
		go wait("two")
		time.Sleep(second)
		r.Apply(file(login))
		time.Sleep(second)
		go wait("beside orders for the stock")
		time.Sleep(40 * second)
		testkit.Equal(t, "a token", r.take(login), true) // another one is left
		time.Sleep(second)
		for _, s := range w.orders() {
			urgent += fmt.Sprint(s.Urgent, " ")
		}
		testkit.Equal(t, "urgent", urgent, "true true false false false false ")
	})
	bubble(t, "a dead replica delays a decision by 2 s", func(t *testing.T, w *world) {
		login := target("login", 3)
		dead := w.start(2, file(login))[0]
		time.Sleep(22 * second)
		dead.deaf.Store(true)
		testkit.Equal(t, "a token", dead.take(login), true)
		dead.setAway(true)
		before := w.sold(login)
		time.Sleep(3 * second)
		testkit.Equal(t, "orders", w.sold(login), before+1)
	})
}

// A replica that takes over learns each request once, also a request that came while the replica was away. A replica
// that stops does not replace a newer state than its own.
func TestLearnedState(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		login := adaptive("login", 20)
		saved := func() (requests, remembered, atOnce int64) {
			var l struct {
				Seen    struct{ Requests int64 }
				History []byte
			}
			text := w.db.Get(context.Background(), "{p}:learned:"+string(login.ID)).Val()
			testkit.NoError(t, json.Unmarshal([]byte(text), &l))
			for rest := bytes.NewReader(l.History); rest.Len() > 0; {
				_, _ = binary.ReadUvarint(rest) // the time
				n, _ := binary.ReadUvarint(rest)
				remembered, atOnce = remembered+int64(n), max(atOnce, int64(n))
			}
			return l.Seen.Requests, remembered, atOnce
		}
		first := w.start(1, file(login))[0]
		w.demand(login, second/2, 2*second, first)
		time.Sleep(second / 2)
		requests, _, _ := saved()
		testkit.Equal(t, "requests of the first state", requests, 1)
		first.setAway(true)
		next := w.start(2, file(login))
		time.Sleep(2 * second)
		if requests, remembered, _ := saved(); requests != 4 || remembered != 4 {
			t.Errorf("another replica saved %d requests, the policy remembers %d", requests, remembered)
		}
		next[1].setAway(true)
		w.demand(login, second, 35*second, next[0])
		time.Sleep(second / 2)
		first.setAway(false)
		first.stop()
		requests, _, _ = saved()
		testkit.AtLeast(t, "requests of the state after the stop of a replica that was away", requests, 20)
		next[0].stop()
		requests, _, _ = saved()
		testkit.Equal(t, "requests of the last state", requests, 39)
		next[1].setAway(false)
		time.Sleep(5 * second)
		next[1].take(login)
		time.Sleep(second / 2)
		if requests, _, atOnce := saved(); requests != 40 || atOnce > 10 {
			t.Errorf("a replica that was away saved %d requests, %d of them at the same moment", requests, atOnce)
		}
		w.db.Set(context.Background(), "{p}:learned:"+string(login.ID), "no state", 0)
		last := w.start(1, file(login))[0]
		last.take(login)
		time.Sleep(2 * time.Second)
		testkit.Equal(t, "dropped states", fmt.Sprint(next[1].log.Count("is dropped"), last.log.Count("is dropped")), "0 1")
	})
}

// A reload adds, changes, pauses and removes targets, and leaves the others alone.
func TestReload(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		kept, gone, less, halted := target("kept", 2), target("gone", 2), target("less", 4), target("halted", 2)
		r := w.start(1, file(kept, gone, less, halted))[0]
		time.Sleep(22 * second)
		less.Depth, halted.Paused, kept.Owner = 1, true, "others"
		added := target("added", 3)
		r.Apply(file(kept, less, halted, added))
		time.Sleep(100 * time.Millisecond)
		testkit.Equal(t, "orders of the added target", w.sold(added), 3)
		testkit.Equal(t, "orders of the kept target", w.sold(kept), 2)
		testkit.Equal(t, "state of the halted target", w.state(halted), "paused paused in the configuration file")
		time.Sleep(5 * time.Minute)
		testkit.Equal(t, "orders of the removed target", w.sold(gone), 2)
		testkit.Equal(t, "orders of the halted target", w.sold(halted), 2)
		testkit.Equal(t, "the removed target is due", w.due(gone.ID), false)
		testkit.Equal(t, "the halted target is due", w.due(halted.ID), false)
		if c := w.counts(less); c.Fresh < 1 || c.Fresh > 2 {
			t.Errorf("%d tokens at a depth of 1", c.Fresh)
		}
		owner := ""
		for _, s := range w.orders() {
			if s.Target == "kept" {
				owner = s.Owner
			}
		}
		testkit.Equal(t, "owner of the last order", owner, "others")
		halted.Paused = false
		r.Apply(file(kept, less, halted, added, gone))
		time.Sleep(100 * time.Millisecond)
		testkit.Equal(t, "orders after the end of the pause", w.sold(halted), 4)
		testkit.Equal(t, "orders of the target that is back", w.sold(gone), 4)
	})
	bubble(t, "an old definition places no further order", func(t *testing.T, w *world) {
		login := target("login", 10)
		r := w.start(1, file())[0]
		w.how = func(*purchase.Spec) pool.Outcome {
			if len(w.bought) == 2 {
				r.Apply(file())
			}
			return pool.Solved
		}
		r.Apply(file(login))
		time.Sleep(5 * second)
		testkit.Equal(t, "orders", w.sold(login), 3)
	})
}

// An operator's pause stops purchases at all replicas, until it ends or is ended.
func TestAPauseHoldsAtAllReplicas(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		login := target("login", 3)
		r := w.start(2, file(login))
		time.Sleep(22 * second)
		ctx := context.Background()
		_ = r[0].pool.Pause(ctx, login.ID, "the site is down", time.Minute)
		for range 3 {
			r[1].take(login)
		}
		time.Sleep(58 * second)
		testkit.Equal(t, "orders during the pause", w.sold(login), 3)
		testkit.Equal(t, "state", w.state(login), "paused the site is down")
		testkit.Equal(t, "want", w.status(login).Want, 0)
		time.Sleep(4 * second)
		testkit.Equal(t, "orders after the end of the pause", w.sold(login), 6)
		testkit.Equal(t, "state after the pause", w.state(login), "ok")
		_ = r[0].pool.Pause(ctx, login.ID, "", 0)
		time.Sleep(2 * time.Minute)
		testkit.Equal(t, "tokens in a pause without an end", w.counts(login).Fresh, 0)
		_, _ = r[1].pool.Resume(ctx, login.ID)
		time.Sleep(100 * time.Millisecond)
		testkit.Equal(t, "orders at once", w.counts(login).Orders, 3)
	})
}

// A target whose orders need more threads than there are is starved all the time until it is filled, and says what
// helps. Each waiting target has its turn at once.
func TestTargetsTakeTurnsForThreads(t *testing.T) {
	t.Parallel()
	bubble(t, "one", func(t *testing.T, w *world) {
		w.concurrency, w.lead = 1, 5*second
		login := target("login", 12)
		r := w.start(2, file(login))
		time.Sleep(4 * second)
		for range 50 {
			testkit.Equal(t, "state", w.state(login),
				"starved 1 of 1 threads of main in use; raise concurrency")
			time.Sleep(second)
		}
		testkit.AtLeast(t, "orders in 54 s", w.sold(login), 10)
		w.set(func() { w.concurrency = 20 })
		time.Sleep(30 * second)
		testkit.Equal(t, "state with threads", w.state(login), "ok")
		if n := r[0].log.Count("WARN", "state=starved") + r[1].log.Count("WARN", "state=starved"); n < 1 || n > 2 {
			t.Errorf("logged %d times", n)
		}
	})
	bubble(t, "an adaptive target learns how long it waits", func(t *testing.T, w *world) {
		w.concurrency, w.lead = 1, 5*second
		login := adaptive("login", 20)
		r := w.start(1, file(login))[0]
		w.demand(login, second, time.Minute, r)
		r.stop()
		learned := w.db.Get(context.Background(), "{p}:learned:"+string(login.ID)).Val()
		testkit.Equal(t, "it waits: "+learned, strings.Contains(learned, `"permit":0,`), false)
	})
	bubble(t, "turns", func(t *testing.T, w *world) {
		w.concurrency, w.lead = 1, 5*second
		var list []targets.Target
		for i := range 10 {
			list = append(list, target(fmt.Sprint("t", i), 1))
		}
		w.start(1, file(list...))
		time.Sleep(5500 * time.Millisecond)
		testkit.Equal(t, "orders when one has ended", len(w.orders()), 2)
		w.set(func() { w.concurrency = 20 })
		time.Sleep(5 * second)
		for _, one := range list {
			testkit.Equal(t, "orders of "+one.Name+" when two have ended", w.sold(one), 1)
		}
	})
}

// While Redis is away, a replica asks rarely. When it is back, all is filled within seconds, even if Redis has lost
// its data.
func TestRefillAfterRedisWasAway(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		login, learns := target("login", 3), adaptive("learns", 20)
		r := w.start(1, file(login, learns))[0]
		w.demand(learns, 5*second, 10*time.Minute, r)
		want := w.status(learns).Want
		w.server.SetDown(true)
		time.Sleep(2 * time.Minute)
		testkit.AtMost(t, "time since the last turn", time.Since(r.LastPass()), 5*second)
		w.server.FlushAll()
		w.server.SetDown(false)
		time.Sleep(5 * second)
		testkit.Equal(t, "orders", w.counts(login).Orders, 3)
		r.take(learns)
		time.Sleep(second)
		if got := w.status(learns).Want; got < want-2 || got == 0 {
			t.Errorf("the target wants %d tokens after the loss, %d before: the memory was dropped", got, want)
		}
	})
}

// A replica decides for its guests: one order for each ticket, also if wake-ups are lost and a replica that does not
// know the guest has removed it from due.
func TestGuests(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		guest := target("guest", 0)
		guest.ID = pool.Guest(guest.ID)
		spec := purchase.Spec{
			Identity: guest.Identity, ID: guest.ID, Margin: 10 * second, Lifetime: 100 * second, Horizon: 10 * second,
			Guest: true,
		}
		r := w.start(2, file())[0]
		got := make(chan error, 3)
		ask := func() {
			release := r.Guest(spec)
			go func() {
				defer release()
				_, err := r.pool.Take(context.Background(), &pool.Call{
					Name: fmt.Sprint(time.Now().UnixNano()), Nonce: "n", ID: guest.ID, Margin: 10 * second, Wait: time.Minute,
					MostTickets: 10,
				})
				got <- err
			}()
			time.Sleep(second / 2)
		}
		ask()
		ask()
		testkit.Equal(t, "orders for two callers", w.sold(guest), 2)
		time.Sleep(22 * second)
		r.deaf.Store(true)
		ask()
		for range 6 {
			w.db.ZRem(context.Background(), "{p}:due", string(guest.ID))
			time.Sleep(second / 2)
		}
		testkit.Equal(t, "orders after a lost wake-up", w.sold(guest), 3)
		for range 3 {
			testkit.NoError(t, <-got)
		}
		time.Sleep(10 * second)
		testkit.Equal(t, "a guest whom nobody needs is due", w.due(guest.ID), false)
	})
}

// A panic in one decision ends nothing else, and that target is tried again.
func TestAPanicEndsOneDecision(t *testing.T) {
	t.Parallel()
	bubble(t, "", func(t *testing.T, w *world) {
		good, bad := target("good", 2), target("bad", 2)
		bad.Identity.Type = captcha.HCaptcha
		r := w.start(1, file())[0]
		var repaired atomic.Bool
		r.pace = func(kind captcha.Type) {
			if kind == captcha.HCaptcha && !repaired.Load() {
				panic("of a test")
			}
		}
		r.Apply(file(good, bad))
		time.Sleep(5 * second)
		testkit.Equal(t, "orders of the other target", w.sold(good), 2)
		if n := r.log.Count("panic in a decision"); n < 1 || n > 4 {
			t.Errorf("logged %d times in 5 s", n)
		}
		repaired.Store(true)
		time.Sleep(35 * second)
		testkit.Equal(t, "orders of the target after the cause is gone", w.sold(bad), 2)
	})
}
