package refill

import (
	"fmt"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/targets"
)

// watchedBy returns the identities that a replica watches.
func watchedBy(r *replica) map[captcha.ID]bool {
	watched := map[captcha.ID]bool{}
	for id, h := range r.manager.workers.Load().byID {
		watched[id] = h.watched.Load()
	}
	return watched
}

// A replica keeps its share of the targets when one heartbeat fails. When heartbeats have failed
// for heartbeatLife, the replica watches all targets, because the other replicas may have stopped
// too. When a heartbeat succeeds, the targets are divided again. A second outage has the same
// effect.
func TestAReplicaWithoutHeartbeatsWatchesAll(t *testing.T) {
	watching(t, 12, func(t *testing.T, w *scenario, list []targets.Target) {
		cutOff := w.all[0]
		own := watchedBy(cutOff)
		beats := func(fail bool) { cutOff.store.with(func() { cutOff.store.beatsFail = fail }) }
		strangers := func(long time.Duration) (n int) {
			before := w.counts(list)
			w.after(long)
			after := w.counts(list)
			for _, x := range list {
				if !own[x.ID] && after[0][x.ID] > before[0][x.ID] {
					n++
				}
			}
			return n
		}
		all := len(list)
		for _, mine := range own {
			if mine {
				all--
			}
		}
		for outage := range 2 {
			beats(true)
			if n := strangers(heartbeatEvery); n > 0 {
				t.Errorf("outage %d: after one failed beat %d targets of other replicas were looked at", outage, n)
			}
			beats(false)
			if n := strangers(heartbeatLife + heartbeatEvery); n > 0 {
				t.Errorf("outage %d: after it %d targets of other replicas were looked at", outage, n)
			}
			beats(true)
			if n := strangers(heartbeatLife + 2*heartbeatEvery + takeOver); n != all {
				t.Errorf("outage %d: %d of the %d targets of other replicas were looked at", outage, n, all)
			}
			beats(false)
			w.after(2 * heartbeatEvery)
			if got := watchedBy(cutOff); fmt.Sprint(got) != fmt.Sprint(own) {
				t.Errorf("outage %d: after it the targets are divided otherwise: %v, before %v", outage, got, own)
			}
			w.after(quietRound)
		}
		// Every replica notices an outage of Redis for every target, even for targets that another
		// replica watches.
		states := func() (n map[string]int) {
			n = map[string]int{}
			for _, r := range w.all {
				for _, x := range list {
					s, _ := r.manager.Status(x.Name)
					n[s.State]++
				}
			}
			return n
		}
		w.redis.SetDown(true)
		w.after(quietRound)
		if n := states(); n[Starved] != len(w.all)*len(list) {
			t.Errorf("while Redis is away: %v", n)
		}
		w.redis.SetDown(false)
		w.after(10 * time.Second)
		if n := states(); n[OK] != len(w.all)*len(list) {
			t.Errorf("when Redis is back: %v", n)
		}
	})
}
