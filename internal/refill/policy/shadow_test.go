package refill

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/targets"
)

// live runs a manager on a trace's arrivals, and answers its last note.
func live(t *testing.T, target targets.Target, arrivals []float64) (n Note, real pool.Figures) {
	t.Helper()
	play(t, 64, func(t *testing.T, w *world) {
		w.market.like(DefaultSolves())
		w.apply(target)
		began := time.Now()
		for _, arrival := range arrivals {
			w.after(max(0, time.Duration(arrival*float64(time.Second))-time.Since(began)))
			w.take(target)
		}
		w.after(time.Minute)
		n = w.note(target.Name)
		real = w.stock(target).Figures
	})
	return n, real
}

// perRequest is how many tokens it would have bought for each.
func (s *Shadow) perRequest() float64 { return float64(s.ShadowBought) / float64(s.Requests) }

// part is the first hours of a trace.
func part(t *testing.T, name string, hours float64) []float64 {
	arrivals := trace(t, name)
	for i, at := range arrivals {
		if at > hours*3600 {
			return arrivals[:i]
		}
	}
	return arrivals
}

// What the shadow of a fixed target says of the adaptive policy is what the
// simulator says of it, on the same demand.
func TestShadowOfFixed(t *testing.T) {
	long(t)
	arrivals := part(t, "onoff", 1.3)
	login := target("login", 15)
	login.HitRate, login.MaxWaste = 0.97, 3
	note, real := live(t, login, arrivals)
	s := note.Shadow
	if s == nil {
		t.Fatal("nothing is told")
	}
	t.Log(s)
	k := usual()
	k.Depth = 64
	want := simulated(t, Simulation{Knobs: k, Solves: DefaultSolves(), Concurrency: 64, Arrivals: arrivals})
	if !s.Adaptive || s.Depth != 64 || math.Abs(s.ShadowHitRate-want.HitRate) > 0.05 || math.Abs(s.perRequest()*float64(want.Requests)/float64(want.Bought)-1) > 0.2 {
		t.Errorf("%+v, the simulator %+v", s, want)
	}
	if s.Requests > int64(len(arrivals)) || s.Requests < int64(len(arrivals)/2) || math.Abs(s.HitRate-float64(real.Hits)/float64(real.Requests)) > 0.01 || s.Bought > real.Solved {
		t.Errorf("%+v, in truth %+v", s, real)
	}
	if text := s.String(); !strings.HasPrefix(text, "adaptive would have bought ") || !strings.Contains(text, " % fewer at ") {
		t.Error(text)
	}
}

// And the shadow of an adaptive target names the fixed depth that would have been
// as good, as the simulator does.
func TestShadowOfAdaptive(t *testing.T) {
	long(t)
	arrivals := part(t, "onoff", 1.3)
	note, _ := live(t, learning("login", 200), arrivals)
	s := note.Shadow
	if s == nil {
		t.Fatal("nothing is told")
	}
	t.Log(s)
	k := usual()
	k.Adaptive, k.Depth = false, s.Depth
	want := simulated(t, Simulation{Knobs: k, Solves: DefaultSolves(), Concurrency: 64, Arrivals: arrivals})
	// The simulator also counts the first requests, which found nothing.
	if s.Adaptive || s.Depth != 12 && s.Depth != 16 || math.Abs(s.ShadowHitRate-want.HitRate) > 0.07 || math.Abs(s.perRequest()*float64(want.Requests)/float64(want.Bought)-1) > 0.2 {
		t.Errorf("%+v, the simulator %+v", s, want)
	}
	if text := s.String(); !strings.HasPrefix(text, fmt.Sprintf("a fixed depth of %d would have bought ", s.Depth)) || !strings.Contains(text, " % more at ") {
		t.Error(text)
	}
}

// A shadow lets go of its table when nobody has asked for an hour, counts on, and
// has it again with the next request; the time until then costs the fixed target much.
func TestShadowDozes(t *testing.T) {
	long(t)
	play(t, 64, func(t *testing.T, w *world) {
		login := target("login", 5)
		login.HitRate, login.MaxWaste = 0.97, 3
		w.apply(login)
		w.after(5 * time.Minute)
		w.demand(login, 5*time.Second, 15*time.Minute)
		w.after(time.Second)
		before := w.note("login").Shadow
		w.after(90 * time.Minute)
		night := w.note("login").Shadow
		if before == nil || night.Bought < before.Bought+280 || night.ShadowBought > before.ShadowBought+20 || night.Requests != before.Requests {
			t.Errorf("after that %+v, before %+v", night, before)
		}
		saved := func() (cells, saves int) {
			learned, err := w.shelf.Recall(t.Context(), login.ID)
			if err != nil {
				t.Error(err)
			}
			mind, err := Restore(usual(), learned, time.Now())
			if err != nil {
				t.Error(err)
			}
			w.shelf.with(func() { saves = w.shelf.saves })
			return mind.table.known, saves
		}
		cells, saves := saved()
		if cells < 15 || saves > 20 {
			t.Errorf("%d cells, saved %d times", cells, saves)
		}
		w.demand(login, 5*time.Second, 2*time.Minute)
		if n, _ := saved(); n < cells {
			t.Errorf("of %d cells %d came back", cells, n)
		}
	})
}

// An adaptive target is saved once a minute while somebody asks, and no more.
func TestAdaptiveTargetIsSavedSeldom(t *testing.T) {
	play(t, 64, func(t *testing.T, w *world) {
		login := learning("login", 20)
		w.apply(login)
		w.demand(login, 5*time.Second, 10*time.Minute)
		w.after(2 * time.Hour)
		w.shelf.with(func() {
			if n := w.shelf.saves; n > 12 {
				t.Errorf("saved %d times", n)
			}
		})
	})
}

// shaded is a memory of a target with a shadow that began at epoch.
func shaded(target targets.Target) *memory {
	m := newMemory(target, 15*time.Second, 5*time.Second)
	m.looked, m.figures.Requests = epoch, 1
	m.shadow = newShadow(m, 20, epoch, NewMind)
	m.shadow.warmedUp = true
	return m
}

// hourly lets an hour pass with a request each 36 s, of which nine in ten hit.
func (m *memory) hourly(hour int, change func(*pool.Stock)) (at time.Time, told *Shadow) {
	const steps = 100
	for n := range steps {
		at = epoch.Add(time.Duration(hour)*time.Hour + time.Duration(n+1)*time.Hour/steps)
		s := pool.Stock{Figures: m.figures}
		s.Figures.Requests++
		if n%10 > 0 {
			s.Figures.Hits++
		} else {
			s.Figures.Misses++
		}
		s.Figures.Solved += 3
		if change != nil {
			change(&s)
		}
		m.learn(at, &s, 20)
	}
	return at, m.shadow.tell(m.looked, m.figures)
}

// What is told is of the last 12 to 24 hours, on both sides.
func TestShadowForgets(t *testing.T) {
	login := target("login", 5)
	login.HitRate, login.MaxWaste = 0.97, 3
	m := shaded(login)
	for hour := range 60 {
		at, told := m.hourly(hour, nil)
		if told == nil {
			t.Fatalf("hour %d: nothing", hour)
		}
		hours := at.Sub(told.Since).Hours()
		if hours > 24 || hours < 12 && hour > 12 || told.Requests != int64(100*hours) || told.Bought != int64(300*hours) || told.HitRate != 0.9 {
			t.Errorf("hour %d: %+v, of %g hours", hour, told, hours)
		}
		// One request each 36 s: nearly each is hit by about two tokens bought.
		if perHour := float64(told.ShadowBought) / hours; told.ShadowHitRate > 1 || told.ShadowHitRate < 0.8 && hour > 2 || perHour < 80 || perHour > 250 {
			t.Errorf("hour %d: %+v, %g bought an hour", hour, told, perHour)
		}
	}
}

// Of nearly nothing nothing is said.
func TestShadowIsSilent(t *testing.T) {
	m := shaded(target("login", 5))
	for _, f := range []pool.Figures{{}, {Requests: 49, Hits: 49, Solved: 60}, {Requests: 90, Misses: 90}} {
		if told := m.shadow.tell(epoch, f); told != nil {
			t.Errorf("%+v of %+v", told, f)
		}
	}
	if _, told := m.hourly(0, nil); told == nil || told.Requests != 100 || told.HitRate != 0.9 {
		t.Errorf("%+v", told)
	}
}

// While an operator has paused the buying nothing counts, for neither side; a
// Redis that lost its counts begins anew.
func TestShadowLeavesOut(t *testing.T) {
	login := target("login", 5)
	login.HitRate, login.MaxWaste = 0.97, 3
	m := shaded(login)
	m.hourly(0, nil)
	_, before := m.hourly(1, nil)
	for hour := range 3 {
		_, paused := m.hourly(2+hour, func(s *pool.Stock) { s.Paused = true })
		if paused.Span = before.Span; *paused != *before {
			t.Errorf("paused: %+v, before %+v", paused, before)
		}
	}
	m.learn(epoch.Add(6*time.Hour), &pool.Stock{Figures: pool.Figures{Requests: 3, Hits: 3}}, 20)
	if told := m.shadow.tell(m.looked, m.figures); told != nil {
		t.Errorf("after the loss: %+v", told)
	}
	if _, told := m.hourly(6, nil); told == nil || told.HitRate != 0.9 || told.Requests != 100 {
		t.Errorf("later: %+v", told)
	}
}

// A pause in which counting begins is left out once, not twice.
func TestShadowBeginsInAPause(t *testing.T) {
	login := target("login", 5)
	login.HitRate, login.MaxWaste = 0.97, 3
	m := shaded(login)
	m.shadow.warmedUp = false
	m.hourly(0, func(s *pool.Stock) { s.Paused = true })
	if _, told := m.hourly(1, nil); told == nil || told.Requests != 100 || told.Bought != 300 {
		t.Errorf("%+v", told)
	}
}

// What is told grows with the provider, and heeds windows and outages.
func TestShadowLivesInTheSameWorld(t *testing.T) {
	login := target("login", 5)
	login.HitRate, login.MaxWaste = 0.97, 3
	bought := func(change func(m *memory, s *pool.Stock)) int {
		m := shaded(login)
		for hour := range 4 {
			m.hourly(hour, func(s *pool.Stock) {
				if change != nil {
					change(m, s)
				}
			})
		}
		return m.shadow.adaptive.result.Bought
	}
	usually := bought(nil)
	window := bought(func(_ *memory, s *pool.Stock) { s.Windows = []pool.Window{{Tokens: 9, Left: time.Hour}} })
	outage := bought(func(m *memory, _ *pool.Stock) { m.solves.streak = failuresInARow })
	if window < usually+1000 || outage > usually/4 {
		t.Errorf("usually %d bought, in a window %d, in an outage %d", usually, window, outage)
	}
}

func TestShadowSentence(t *testing.T) {
	cases := map[string]Shadow{
		"adaptive would have bought 41 % fewer at 99.1 % hits (in truth 1000 at 98.6 %, in 14 h)":                                      {Span: 14 * time.Hour, Requests: 2000, Adaptive: true, Depth: 64, Bought: 1000, ShadowBought: 590, HitRate: 0.986, ShadowHitRate: 0.991},
		"a fixed depth of 16 would have bought 310 % more at 99.0 % hits (in truth 100 at 99.2 %, in 14 h)":                            {Span: 14 * time.Hour, Requests: 2000, Depth: 16, Bought: 100, ShadowBought: 410, HitRate: 0.992, ShadowHitRate: 0.99},
		"no fixed depth up to 12 is as good: that one would have bought 12 % fewer at 86.8 % hits (in truth 100 at 95.3 %, in 90 min)": {Span: 90 * time.Minute, Requests: 2000, Depth: 12, Bought: 100, ShadowBought: 88, HitRate: 0.953, ShadowHitRate: 0.868},
		"a fixed depth of 1 would have bought as many at 100.0 % hits (in truth 1000 at 100.0 %, in 14 h)":                             {Span: 14 * time.Hour, Requests: 2000, Depth: 1, Bought: 1000, ShadowBought: 1004, HitRate: 1, ShadowHitRate: 1},
	}
	for want, s := range cases {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
