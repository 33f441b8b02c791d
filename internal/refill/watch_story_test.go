package refill

import (
	"testing"
	"time"

	"poold/internal/captcha"
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
