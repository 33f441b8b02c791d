package refill

import (
	"testing"
	"time"

	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// jobHits lets a job come every three minutes, and answers what share of its
// requests found a token from the eighth time on. event comes in the middle of that
// time.
func jobHits(t *testing.T, replicas int, event func(w *scenario, login targets.Target)) (hits float64) {
	const every, requests, learned, counted = 3 * time.Minute, 12, 7, 4
	play(t, 64, func(t *testing.T, w *scenario) {
		sound := policy.DefaultSolves()
		sound.Fail = 0
		w.provider.like(sound)
		login := learning("login", 200)
		login.MaxWaste = 10 // so that nearly all is hits once it is learned
		w.apply(login)
		for range replicas - 1 {
			w.start(login)
		}
		began, got := time.Now(), 0
		for run := range learned + counted {
			w.after(time.Duration(run+1)*every - time.Since(began))
			for n := range requests {
				if w.take(login) && run >= learned {
					got++
				}
				if run == learned && n == requests/2 {
					event(w, login)
				}
				w.after(700 * time.Millisecond)
			}
		}
		hits = float64(got) / (counted * requests)
	})
	return hits
}

// A restart in the middle of a job's requests, by SIGTERM or SIGKILL, and the death
// of one of two replicas cost little: what was learned is in Redis, and
// every replica has seen all of it.
func TestMemoryOutlivesReplicas(t *testing.T) {
	long(t)
	const away = 2 * time.Second
	cases := map[string]struct {
		replicas int
		event    func(w *scenario, login targets.Target)
	}{
		"restart": {1, func(w *scenario, login targets.Target) {
			w.end(w.replica)
			w.after(away)
			w.replica = w.start(login)
		}},
		"kill and restart": {1, func(w *scenario, login targets.Target) {
			w.kill(w.replica)
			w.after(away)
			w.replica = w.start(login)
		}},
		"one of two is killed": {2, func(w *scenario, _ targets.Target) {
			w.kill(w.replica)
			w.replica = w.all[1]
		}},
	}
	for name, x := range cases {
		t.Run(name, func(t *testing.T) {
			got := jobHits(t, x.replicas, x.event)
			t.Logf("%.4f hits", got)
			if got < 0.85 { // 1 with what was learned, 0.6 without
				t.Errorf("%.4f hits", got)
			}
		})
	}
}
