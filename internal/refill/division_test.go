package refill

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// shares simulates two live replicas. It counts the calls of Share and the calls of
// Shared.
type shares struct {
	alone
	n, reads atomic.Int64
	text     []byte    // status that the other replica shared
	left     time.Time // when the other replica stopped; zero = still alive
}

func (s *shares) Heartbeat(_ context.Context, lasts time.Duration) (string, []string, error) {
	if lasts <= 2*heartbeatEvery {
		return "", nil, fmt.Errorf("one lost beat in %v looks like a dead replica", lasts)
	}
	if !s.left.IsZero() && !time.Now().Before(s.left) {
		return "me", []string{"me"}, nil
	}
	return "me", []string{"me", "you"}, nil
}
func (s *shares) Share(context.Context, captcha.ID, []byte) error { s.n.Add(1); return nil }
func (s *shares) Shared(_ context.Context, ids []captcha.ID) ([][]byte, error) {
	s.reads.Add(1)
	return slices.Repeat([][]byte{s.text}, len(ids)), nil
}

// If a status differs from the last shared status, it is shared immediately. If only its figures
// differ, it is shared after a delay.
func TestWhenAStatusIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &shares{}
		l := newLooker(nil, told, slog.New(slog.DiscardHandler))
		l.division.Store(&division{self: "a", live: []string{"a", "b"}})
		h := newWorker(t.Context(), target("login", 3), nil, &counter{}, nil, slog.New(slog.DiscardHandler))
		h.watched.Store(true)
		steps := []struct {
			change func(s *Status)
			wait   time.Duration
			shared int64
		}{
			{func(*Status) {}, 0, 1},
			{func(*Status) {}, time.Minute, 1},
			{func(s *Status) { s.Want = 9 }, 0, 2},
			{func(s *Status) { s.State = Starved }, 0, 3},
			{func(s *Status) { s.Forecast = 1 }, 0, 3},
			{func(*Status) {}, shareEvery, 4},
			{func(*Status) {}, sharedAgain, 5},
		}
		for n, step := range steps {
			time.Sleep(step.wait)
			step.change(&h.status.now)
			l.share(h)
			if shared := told.n.Load(); shared != step.shared {
				t.Errorf("step %d: shared %d times, want %d", n, shared, step.shared)
			}
		}
		h.watched.Store(false)
		h.status.now.Want = 1
		if l.share(h); told.n.Load() != 5 {
			t.Error("a status of what another replica watches was shared")
		}
	})
}

// named returns targets that the given replica (me or you) watches.
func named(by string, many int) (list []targets.Target) {
	for n := 0; len(list) < many; n++ {
		x := target(fmt.Sprint("login", n), 1)
		if (&division{self: by, live: []string{"me", "you"}}).watches(x.ID) {
			list = append(list, x)
		}
	}
	return list
}

// When the other replica stops, the next decision needs a look, because the other replica may have
// changed the stock after the last look. Later decisions need no look while nothing happens.
func TestTheFirstDecisionAloneNeedsALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := named("me", 1)[0]
		mine.Refill, mine.HitRate, mine.MaxWaste, mine.Min = targets.RefillAdaptive, 0.97, 3, 1
		stock := &paced{asks: map[captcha.ID][]time.Duration{mine.ID: {time.Hour}}, looks: map[captcha.ID][]time.Time{}}
		left := time.Now().Add(5*heartbeatEvery - heartbeatEvery/2)
		noticed := left.Add(heartbeatEvery / 2)
		m := NewManager(stock, &shares{left: left}, &counter{}, noOthers, slog.New(slog.DiscardHandler))
		running(t, m, func() { time.Sleep(15 * heartbeatEvery) }, mine)
		const decides = 1200 * time.Millisecond // maximum time between two decisions with this lead time
		looks := stock.at(mine)
		if len(looks) < 2 || looks[1].Sub(looks[0]) > decides {
			t.Fatalf("beside the other replica: looks at %v", looks)
		}
		first := slices.IndexFunc(looks, noticed.Before)
		if first < 0 {
			t.Fatal("alone: not a look")
		}
		alone := looks[first:]
		if wait := alone[0].Sub(noticed); wait > decides || len(alone) > 1 && alone[1].Sub(alone[0]) < backstop {
			t.Errorf("alone: looks %v after it was noticed, %d in all", wait, len(alone))
		}
	})
}

// After a hang, a replica shares the status of its targets again, because other replicas have
// shared statuses of these targets during the hang. The replica logs the hang once.
func TestStatusIsSharedAgainAfterAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = batchesAtOnce + 2
		stock := &paced{asks: map[captcha.ID][]time.Duration{}, looks: map[captcha.ID][]time.Time{}}
		list := named("me", many)
		for _, x := range list {
			stock.asks[x.ID] = []time.Duration{time.Hour}
		}
		others, log := &shares{}, &testkit.Log{}
		m := NewManager(stock, others, &counter{}, noOthers, log.Logger())
		running(t, m, func() {
			hang := func(is chan struct{}) {
				stock.mu.Lock()
				defer stock.mu.Unlock()
				stock.hang = is
			}
			time.Sleep(2 * time.Minute)
			for round := range 3 {
				if n := others.n.Load(); n != int64(many*(round+1)) {
					t.Errorf("after %d hangs the status of %d targets was shared %d times", round, many, n)
				}
				if n := log.Count("hang"); n != round {
					t.Errorf("%d hangs were logged %d times", round, n)
				}
				hangs := make(chan struct{})
				hang(hangs)
				for _, x := range list { // each look hangs in its own exchange
					m.Wake(x.ID)
					time.Sleep(time.Millisecond)
				}
				time.Sleep(2 * heartbeatLife)
				hang(nil)
				close(hangs)
				time.Sleep(2 * time.Minute)
			}
		}, list...)
	})
}

// For the answers to callers that get no token, a replica reads the watching replica's status at
// most once a second, also after an outage.
func TestCallersReadAStatusSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs := named("you", 1)[0]
		text, err := json.Marshal(Status{State: Starved, Reason: "of you"})
		if err != nil {
			t.Fatal(err)
		}
		others := &shares{text: text}
		m := NewManager(eye(empty), others, &counter{}, noOthers, slog.New(slog.DiscardHandler))
		running(t, m, func() {
			for second := range 5 {
				time.Sleep(time.Second)
				for range 100 {
					if n, _ := m.Current(t.Context(), theirs.Name); n.Reason != "of you" {
						t.Errorf("%+v", n)
						return
					}
				}
				if n := others.reads.Load(); n != int64(second+1) {
					t.Errorf("%d reads in %d seconds", n, second+1)
				}
			}
		}, theirs)
	})
}

// Replicas of different versions must divide the targets in the same way, so the rule must not
// change.
func TestTheRuleOfTheDivisionIsFixed(t *testing.T) {
	for id, want := range map[captcha.ID]string{
		"one": "c", "two": "a", "three": "b", "four": "a", "five": "a", "six": "c", "seven": "b", "eight": "c",
	} {
		for _, self := range []string{"a", "b", "c"} {
			w := &division{self: self, live: []string{"a", "b", "c"}}
			if w.watches(id) != (self == want) {
				t.Errorf("%s is divided otherwise: %s", id, self)
			}
		}
		if w := (&division{self: "d", live: []string{"a", "b", "c"}}); !w.watches(id) {
			t.Error("a replica that is not among the live ones leaves a target to others")
		}
	}
}

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

// A replica that takes over a target knows its demand and follows the demand from then on.
func TestTheNextWatcherFollowsTheDemand(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 64, func(t *testing.T, w *scenario) {
		login := learning("login", 40)
		w.apply(login)
		next := w.start(login)
		w.after(10 * time.Second)
		if watchedBy(next)[login.ID] {
			next, w.replica = w.replica, next
		}
		w.demand(login, 4*time.Second, 6*time.Minute)
		w.kill(w.replica)
		w.replica = next
		w.after(5 * time.Second)
		if asked, got := w.demand(login, 4*time.Second, time.Minute); got < asked*8/10 {
			t.Errorf("right after the death %d of %d requests found a token", got, asked)
		}
		w.demand(login, 2*time.Second, 3*time.Minute)
		if asked, got := w.demand(login, 2*time.Second, 4*time.Minute); got < asked*95/100 {
			t.Errorf("then %d of %d requests found a token", got, asked)
		}
	})
}
