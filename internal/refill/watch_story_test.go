package refill

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// quietRound is long enough for one look at each target without a wake-up. After this look, a
// replica no longer looks at targets that another replica watches.
const quietRound = 3*(backstop+backstopSpread) + gatherTime

// watching runs a story on three replicas with many full pools of long-lived tokens,
// without demand.
func watching(t *testing.T, many int, story func(t *testing.T, w *scenario, list []targets.Target)) {
	t.Helper()
	play(t, 100, func(t *testing.T, w *scenario) {
		list := lasting(many, 1, 20*time.Hour)
		w.apply(list...)
		w.start(list...)
		w.start(list...)
		w.after(quietRound)
		story(t, w, list)
	})
}

// counts returns the number of looks of each replica at each target so far.
func (w *scenario) counts(list []targets.Target) (looks []map[captcha.ID]int) {
	for _, r := range w.all {
		of := map[captcha.ID]int{}
		for _, x := range list {
			of[x.ID], _ = r.store.lookCount(x.ID)
		}
		looks = append(looks, of)
	}
	return looks
}

// lookedAt returns the replicas that looked at a target between the two counts.
func lookedAt(x targets.Target, before, after []map[captcha.ID]int) (by []int) {
	for n := range after {
		if after[n][x.ID] > before[n][x.ID] {
			by = append(by, n)
		}
	}
	return by
}

// Exactly one replica watches each target, and each replica watches some targets.
func TestOneReplicaWatches(t *testing.T) {
	watching(t, 24, func(t *testing.T, w *scenario, list []targets.Target) {
		before := w.counts(list)
		w.after(quietRound)
		after := w.counts(list)
		watches := make([]int, len(w.all))
		for _, x := range list {
			by := lookedAt(x, before, after)
			if len(by) != 1 {
				t.Errorf("%s is watched by %d replicas", x.Name, len(by))
			}
			for _, n := range by {
				watches[n]++
			}
		}
		for n, watched := range watches {
			if watched < 1 { // the share is random, because the names of replicas are random
				t.Errorf("replica %d watches %d of %d targets", n, watched, len(list))
			}
		}
		// The replica that gets the request for a token serves it, even if another replica watches
		// the target.
		asked := w.provider.asked()
		for _, x := range list {
			w.take(x)
		}
		w.after(50 * time.Millisecond)
		if n := w.provider.asked() - asked; n != len(list) {
			t.Errorf("%d orders right after %d takes at one replica", n, len(list))
		}
	})
}

// If a replica dies or hangs, other replicas watch its targets within five seconds. If a replica
// stops, the others watch its targets after their next heartbeat. When the replica is back, each
// target again has exactly one watcher.
func TestWatchersAreReplaced(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	for name, end := range map[string]func(w *scenario, r *replica) (back func()){
		"killed":  func(w *scenario, r *replica) func() { w.kill(r); return func() {} },
		"stopped": func(w *scenario, r *replica) func() { w.end(r); return func() {} },
		"hangs": func(w *scenario, r *replica) func() {
			hangs := make(chan struct{})
			r.store.with(func() { r.store.strangle = hangs })
			for _, h := range r.manager.workers.Load().byID { // from now on, the look of every worker hangs
				r.manager.looker.wake(h)
				w.after(time.Millisecond)
			}
			return func() {
				r.store.with(func() { r.store.strangle = nil })
				close(hangs)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			watching(t, 20, func(t *testing.T, w *scenario, list []targets.Target) {
				gone := w.all[1]
				before := w.counts(list)
				watched := map[captcha.ID]bool{}
				for id, h := range gone.manager.workers.Load().byID {
					watched[id] = h.watched.Load()
				}
				back := end(w, gone)
				limit := 5 * time.Second
				if name == "stopped" { // a stop is announced, so no heartbeat has to expire
					limit = heartbeatEvery + takeOver + 50*time.Millisecond
				}
				w.after(limit)
				after := w.counts(list)
				for _, x := range list {
					if watched[x.ID] && after[0][x.ID]+after[2][x.ID] == before[0][x.ID]+before[2][x.ID] {
						t.Errorf("nobody has looked at %s", x.Name)
					}
				}
				back()
				w.after(quietRound)
				before = w.counts(list)
				w.after(quietRound)
				after = w.counts(list)
				for _, x := range list {
					if by := lookedAt(x, before, after); len(by) != 1 {
						t.Errorf("%s is watched by %d replicas in the end", x.Name, len(by))
					}
				}
			})
		})
	}
}

// Every replica shows the same status of a target.
func TestStatusOfTargetsThatOthersWatch(t *testing.T) {
	play(t, 4, func(t *testing.T, w *scenario) {
		bad, good := target("bad", 2), target("good", 3)
		w.provider.fail = func(id captcha.Identity) bool { return id.Sitekey == "bad" }
		w.provider.lead = func() time.Duration { return 6 * time.Second }
		w.provider.pace = [2]time.Duration{time.Second, time.Second}
		w.apply(bad, good)
		w.start(bad, good)
		w.start(bad, good)
		w.after(time.Minute)
		told := 0
		for n, r := range w.all {
			if err := r.manager.Refresh(t.Context()); err != nil {
				t.Errorf("replica %d: %v", n, err)
			}
			b, _ := r.manager.Status("bad")
			g, _ := r.manager.Status("good")
			if b.State != Starved || !strings.Contains(b.Reason, "in a row failed") || g.State != OK || g.Want != 3 || len(g.Failures) != 0 {
				t.Errorf("replica %d says %+v and %+v", n, b, g)
			}
			told += len(b.Failures)
		}
		if told == 0 {
			t.Error("no replica tells of a failure")
		}
		w.after(sharedFor)
		for n, r := range w.all { // replicas do not show an old status
			h := r.manager.workers.Load().byName["bad"]
			if b, _ := r.manager.Status("bad"); !h.watched.Load() && h.status.snapshot().State == OK && b.State != OK {
				t.Errorf("replica %d still says %+v", n, b)
			}
		}
		w.redis.SetDown(true)
		w.after(time.Second)
		if err := w.all[0].manager.Refresh(t.Context()); err == nil && w.all[0].watchesNot() {
			t.Error("statuses were read without Redis")
		}
		w.redis.SetDown(false)
		w.after(10 * time.Second)
	})
}

// Each replica gives a caller the reason why there is no token, although only one replica watches the
// target and has placed orders.
func TestCallersSeeTheStatusOfTheWatchingReplica(t *testing.T) {
	play(t, 4, func(t *testing.T, w *scenario) {
		x := target("x", 2)
		var fails atomic.Bool
		w.provider.fail = func(captcha.Identity) bool { return fails.Load() }
		w.apply(x)
		w.start(x)
		w.start(x)
		w.after(time.Minute)
		agree := func(state string) {
			t.Helper()
			for n, r := range w.all {
				if now, known := r.manager.Current(t.Context(), "x"); !known || now.State != state {
					t.Errorf("replica %d tells a caller %+v, want %s", n, now, state)
				}
			}
		}
		agree(OK)
		fails.Store(true)
		w.take(x)
		w.after(5 * time.Minute)
		agree(Starved)
		w.redis.SetDown(true)
		w.after(currentFor)
		for _, r := range w.all { // the last status that the replica read
			if _, known := r.manager.Current(t.Context(), "x"); !known {
				t.Error("nothing is known while Redis is away")
			}
		}
		w.redis.SetDown(false)
		fails.Store(false)
		w.after(time.Minute)
		agree(OK)
		if _, known := w.manager.Current(t.Context(), "none"); known {
			t.Error("a target that is not in the file is known")
		}
	})
}

// watchesNot reports whether other replicas watch at least one target.
func (r *replica) watchesNot() bool {
	for _, h := range r.manager.workers.Load().byID {
		if !h.watched.Load() {
			return true
		}
	}
	return false
}

// A worker that was absent loads the state that the watching replica saved. The worker does not
// learn the requests during its absence as a burst.
func TestAbsentWorkersLearnNothingTwice(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 64, func(t *testing.T, w *scenario) {
		login := learning("login", 40)
		w.apply(login)
		second := w.start(login)
		w.after(10 * time.Second)
		// All requests go to the watching replica, so that the other replica gets no wake-up.
		idle := second
		if second.manager.workers.Load().byName["login"].watched.Load() {
			idle, w.replica = w.replica, second
		}
		w.demand(login, 4*time.Second, 20*time.Minute)
		before := w.held(login)
		idle.manager.Wake(login.ID)
		w.after(30 * time.Second)
		if n := w.held(login); n > before+6 {
			t.Errorf("%d tokens and orders after a kick, %d before", n, before)
		}
	})
}

// If a target has pending callers, a replica continues to look at the target even if another replica
// watches it.
func TestContent(t *testing.T) {
	for waiting, content := range map[int]bool{0: true, 2: false} {
		w := newWorker(t.Context(), target("login", 3), eye(nil), &counter{}, nil, slog.New(slog.DiscardHandler))
		stock := pool.Stock{NextLook: -1, Fresh: 3, Outliving: 3, Orders: waiting, Waiting: waiting}
		if next, order := w.turn(t.Context(), time.Now(), w.query(w.tracker.Plan(time.Now()).Lead), stock); order != nil || next.passive != content {
			t.Errorf("with %d callers: content %v, something to order %v", waiting, next.passive, order != nil)
		}
	}
}

// If the watching replica has seen orders of another replica, it looks again before the tokens of
// these orders expire. The landings of these orders do not wake its worker.
func TestWatcherSeesTokensBoughtByOthers(t *testing.T) {
	play(t, 100, func(t *testing.T, w *scenario) {
		login := target("login", 3)
		login.Lifetime, login.Margin = 8*time.Second, 2*time.Second
		w.provider.pace = [2]time.Duration{500 * time.Millisecond, 500 * time.Millisecond}
		w.provider.lead = func() time.Duration { return time.Second }
		w.apply(login)
		w.start(login)
		w.after(2 * heartbeatEvery) // until both replicas know which of them watches the target
		for range 200 {
			if w.held(login) >= 3 && w.stock(login).Orders == 0 {
				break
			}
			w.after(100 * time.Millisecond)
		}
		var orders []pool.Ref
		for range 3 {
			w.takeAt(w.elsewhere, login)
			orders = append(orders, w.foreign(login))
		}
		for _, r := range w.all {
			r.manager.Wake(login.ID)
		}
		w.after(time.Second)
		for _, ref := range orders {
			landing := pool.Landing{Ref: ref, Provider: "one", Task: ref.Order, Value: ref.Order, Lifetime: login.Lifetime, Lead: time.Second}
			if how, err := w.elsewhere.Settle(t.Context(), landing); how != pool.Ended || err != nil {
				t.Fatal(how, err)
			}
		}
		const step = 100 * time.Millisecond
		var hole time.Duration
		for range 120 {
			w.after(step)
			if w.held(login) == 0 {
				hole += step
			}
		}
		if hole > time.Second {
			t.Errorf("the target had neither token nor order for %v", hole)
		}
	})
}
