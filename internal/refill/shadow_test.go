package refill

import (
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
			w.shelf.take(target)
		}
		w.after(time.Minute)
		n = w.note(target.Name)
		w.shelf.with(func() { real = w.shelf.figures[target.ID] })
	})
	return n, real
}

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
	arrivals := part(t, "onoff", 5)
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
	if !s.Adaptive || s.Depth != 64 || math.Abs(s.ShadowHitRate-want.HitRate) > 0.03 || math.Abs(float64(s.ShadowBought)/float64(want.Bought)-1) > 0.1 {
		t.Errorf("%+v, the simulator %+v", s, want)
	}
	if s.Requests > int64(len(arrivals)) || s.Requests < int64(len(arrivals))-20 || math.Abs(s.HitRate-float64(real.Hits)/float64(real.Requests)) > 0.01 || s.Bought > real.Solved {
		t.Errorf("%+v, in truth %+v", s, real)
	}
	if text := s.String(); !strings.HasPrefix(text, "adaptive would have bought ") || !strings.Contains(text, " % fewer at 9") {
		t.Error(text)
	}
}

// And the shadow of an adaptive target names the fixed depth that would have been
// as good, as the simulator does.
func TestShadowOfAdaptive(t *testing.T) {
	arrivals := part(t, "onoff", 5)
	note, _ := live(t, learning("login", 200), arrivals)
	s := note.Shadow
	if s == nil {
		t.Fatal("nothing is told")
	}
	t.Log(s)
	k := usual()
	k.Adaptive, k.Depth = false, s.Depth
	want := simulated(t, Simulation{Knobs: k, Solves: DefaultSolves(), Concurrency: 64, Arrivals: arrivals})
	if s.Adaptive || s.Depth != 16 || math.Abs(s.ShadowHitRate-want.HitRate) > 0.03 || math.Abs(float64(s.ShadowBought)/float64(want.Bought)-1) > 0.1 {
		t.Errorf("%+v, the simulator %+v", s, want)
	}
	if text := s.String(); !strings.HasPrefix(text, "a fixed depth of 16 would have bought ") || !strings.Contains(text, " % more at 9") {
		t.Error(text)
	}
}

// A shadow lets go of its table when nobody has asked for an hour, counts on, and
// has it again with the next request; a night of it costs the fixed target much.
func TestShadowDozes(t *testing.T) {
	play(t, 64, func(t *testing.T, w *world) {
		login := target("login", 5)
		login.HitRate, login.MaxWaste = 0.97, 3
		w.apply(login)
		w.after(5 * time.Minute)
		memory := w.manager.roster.Load().byName["login"].mind
		if memory.shadow != nil {
			t.Error("there is a shadow before anybody asked")
		}
		w.demand(login, 5*time.Second, 30*time.Minute)
		w.after(time.Second)
		before := w.note("login").Shadow
		if before == nil || memory.learner().table.known < 3 {
			t.Fatalf("after half an hour of demand: %v", before)
		}
		known := memory.learner().table.known
		w.after(8 * time.Hour)
		night := w.note("login").Shadow
		if memory.learner() != nil || memory.shadow.runs[0].mind.table != nil {
			t.Error("the table is still there after a night")
		}
		if night.Bought < before.Bought+1500 || night.ShadowBought > before.ShadowBought+20 || night.Requests != before.Requests {
			t.Errorf("after a night %+v, before %+v", night, before)
		}
		w.demand(login, 5*time.Second, time.Minute)
		if n := memory.learner().table.known; n < known {
			t.Errorf("of %d cells %d came back", known, n)
		}
	})
}

// What is told is of the last 12 to 24 hours.
func TestShadowForgets(t *testing.T) {
	m := newMemory(target("login", 5), 15*time.Second, 5*time.Second)
	at := epoch
	s := newShadow(m, 20, at, NewMind)
	figures := pool.Figures{}
	for hour := range 60 {
		next := at.Add(time.Hour)
		figures.Requests += 100
		figures.Hits += 90
		figures.Misses += 10
		figures.Solved += 300
		m.looked = at
		s.learn(m, next, 100, figures)
		at = next
		told := s.tell(figures)
		if told == nil {
			t.Fatalf("hour %d: nothing", hour)
		}
		hours := at.Sub(told.Since).Hours()
		if hours > 24 || hours < 12 && hour > 12 || told.Requests != int64(100*hours) || told.Bought != int64(300*hours) || told.HitRate != 0.9 {
			t.Errorf("hour %d: %+v, of %g hours", hour, told, hours)
		}
	}
}

// Of nearly nothing nothing is said.
func TestShadowIsSilent(t *testing.T) {
	m := newMemory(target("login", 5), 15*time.Second, 5*time.Second)
	s := newShadow(m, 20, epoch, NewMind)
	for _, f := range []pool.Figures{{}, {Requests: 49, Hits: 49, Solved: 60}, {Requests: 90, Misses: 90}} {
		if told := s.tell(f); told != nil {
			t.Errorf("%+v of %+v", told, f)
		}
	}
	f := pool.Figures{Requests: 100, Hits: 90, Waited: 5, Misses: 5, Solved: 100}
	m.looked = epoch
	s.learn(m, epoch.Add(time.Hour), 100, f)
	if told := s.tell(f); told == nil || told.Requests != 100 || told.HitRate != 0.9 {
		t.Errorf("%+v", told)
	}
}

func TestShadowSentence(t *testing.T) {
	cases := map[string]Shadow{
		"adaptive would have bought 41 % fewer at 99.1 % hits (here: 98.6 %, 1000 bought)":                                    {Adaptive: true, Depth: 64, Bought: 1000, ShadowBought: 590, HitRate: 0.986, ShadowHitRate: 0.991},
		"a fixed depth of 16 would have bought 310 % more at 99.0 % hits (here: 99.2 %, 100 bought)":                          {Depth: 16, Bought: 100, ShadowBought: 410, HitRate: 0.992, ShadowHitRate: 0.99},
		"no fixed depth up to 12 is as good: that one would have bought 12 % fewer at 86.8 % hits (here: 95.3 %, 100 bought)": {Depth: 12, Bought: 100, ShadowBought: 88, HitRate: 0.953, ShadowHitRate: 0.868},
		"a fixed depth of 1 would have bought as many at 100.0 % hits (here: 100.0 %, 1000 bought)":                           {Depth: 1, Bought: 1000, ShadowBought: 1004, HitRate: 1, ShadowHitRate: 1},
	}
	for want, s := range cases {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
