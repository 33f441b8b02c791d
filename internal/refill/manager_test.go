package refill

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/targets"
	"poold/internal/testkit"
)

// After Apply no order is placed under the old definition, even if old orders are in flight and slots
// are scarce.
func TestDepthShrinksAcrossAReload(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 2, func(t *testing.T, w *scenario) {
		login := target("login", 20)
		w.apply(login)
		w.after(30 * time.Second)
		w.take(login)
		login.Depth = 3
		w.apply(login)
		applied := time.Now()
		for range 120 {
			w.after(time.Second)
			w.take(login)
		}
		later := 0
		for _, p := range w.book.placed() {
			if !p.at.After(applied) {
				continue
			}
			if later++; p.Depth != 3 {
				t.Errorf("ordered with depth %d, %v after the reload", p.Depth, p.at.Sub(applied))
			}
		}
		if later == 0 {
			t.Error("nothing was ordered after the reload, so nothing was tested")
		}
	})
}

// When Apply returns, all workers of removed targets have ended, even workers whose looks hung. The
// workers are stopped concurrently.
func TestRemovedWorkersHaveEnded(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		var list []targets.Target
		for i := range 50 {
			list = append(list, target(fmt.Sprint("t", i), 1))
		}
		stuck := make(chan struct{})
		w.store.with(func() { w.store.strangle = stuck })
		w.apply(list...)
		w.after(time.Second) // until the first look of every worker hangs
		var ended []<-chan struct{}
		for _, h := range w.manager.workers.Load().byID {
			ended = append(ended, h.done)
		}
		time.AfterFunc(5*time.Second, func() { close(stuck) })
		began := time.Now()
		w.apply()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("Apply returned after %v, want 5s, when the looks came back", took)
		}
		for _, done := range ended {
			select {
			case <-done:
			default:
				t.Error("a worker was still running when Apply returned")
			}
		}
		if _, ok := w.manager.Status("t0"); ok {
			t.Error("a removed target still has a status")
		}
		looker := w.manager.looker
		looker.mu.Lock()
		if len(looker.workers)+len(looker.queue) > 0 {
			t.Errorf("the looker still has %d workers, %d of them queued", len(looker.workers), len(looker.queue))
		}
		looker.mu.Unlock()
		_, before := w.store.lookCount("")
		w.after(time.Minute)
		if _, now := w.store.lookCount(""); now != before {
			t.Errorf("%d looks for targets that are gone", now-before)
		}
	})
}

// If a target is removed, its order in flight ends under its old definition.
func TestOrdersOutliveTheirWorker(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		login := target("login", 3)
		w.apply(login)
		w.after(time.Second)
		began := time.Now()
		w.apply()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("Apply waited %v for the orders", took)
		}
		w.after(time.Minute)
		if n := w.fresh(login); n != 3 {
			t.Errorf("%d of 3 paid tokens landed", n)
		}
	})
}

// A renamed target keeps its stock. An unchanged target keeps its worker and gets no additional look.
func TestRenamedAndUnchanged(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		a, b := target("a", 3), target("b", 3)
		a.Lifetime, b.Lifetime = time.Hour, time.Hour
		w.apply(a, b)
		w.after(30 * time.Second)
		worker := w.manager.workers.Load().byName["b"]
		before, _ := w.store.lookCount(b.ID)
		renamed := a
		renamed.Name = "new-name"
		b.Line = 7
		w.apply(renamed, b)
		w.after(time.Second)
		if w.manager.workers.Load().byName["b"] != worker {
			t.Error("an unchanged target got a new worker")
		}
		if now, _ := w.store.lookCount(b.ID); now > before+1 { // the backstop may have caused one look
			t.Errorf("%d looks for an unchanged target", now-before)
		}
		if _, ok := w.manager.Status("a"); ok {
			t.Error("the old name still has a status")
		}
		if n := w.status("new-name"); n.State != OK {
			t.Errorf("status of the new name: %+v", n)
		}
		if n := w.provider.asked(); n != 6 {
			t.Errorf("%d submits, want 6: the stock stays where the identity is", n)
		}
	})
}

// Wake-ups share looks. There is at most one look per 20 ms, and a look follows each wake-up.
func TestWakeUpsAreCoalesced(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		login := target("login", 1)
		login.Lifetime = time.Hour
		w.apply(login)
		w.after(time.Minute)
		before, _ := w.store.lookCount(login.ID)
		for range 1000 {
			w.manager.Wake(login.ID)
			w.after(time.Millisecond)
		}
		now, _ := w.store.lookCount(login.ID)
		if n := now - before; n < 45 || n > 55 {
			t.Errorf("%d looks in a second of kicks, want about 50", n)
		}
		w.after(2 * coalesce) // until the look of the last wake-up and the pause of coalesce are over
		settled, _ := w.store.lookCount(login.ID)
		w.manager.Wake(login.ID)
		w.after(0)
		if now, _ := w.store.lookCount(login.ID); now != settled+1 {
			t.Errorf("%d looks right after a single kick, want 1", now-settled)
		}
		w.manager.Wake("nobody's")
	})
}

// After a stop no more orders are placed. Orders in flight stay in the journal.
func TestStopLeavesOrdersInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScenario(t, 3)
		w.replica = w.newReplica()
		m, provider, login := w.manager, w.provider, target("login", 9)
		m.Apply(t.Context(), &targets.Set{Targets: []targets.Target{login}}) // stored until Run starts
		if provider.asked() != 0 {
			t.Error("bought before Run")
		}
		w.run(w.replica)
		time.Sleep(5 * time.Second)
		began := time.Now()
		w.end(w.replica)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		s, err := w.elsewhere.Look(t.Context(), login.ID, login.Margin, 0)
		if err != nil || s.Orders != 3 || s.Bought != 3 || provider.asked() != 3 {
			t.Errorf("%d orders in the journal, %d of them bought, %d submits, want 3 each; %v", s.Orders, s.Bought, provider.asked(), err)
		}
		// After Run has ended, Apply and Wake do nothing and return.
		m.Apply(t.Context(), &targets.Set{})
		m.Wake(login.ID)
		w.close()
	})
}
