package claimtest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
)

// outcome is the end of a solve. The model forgets an outcome when the time in its field `ends` has
// come.
type outcome struct {
	solve string
	value string
	ends  time.Time
}

func (o outcome) known(solve string, now time.Time) bool {
	return o.solve == solve && now.Before(o.ends)
}

// model is a claim in memory.
type model struct {
	times         dedup.ClaimTimes
	solve         string // name of the solve in flight; "" = none
	identity      captcha.ID
	fence         int64 // the latest fence
	lease, stops  time.Time
	asked         time.Time
	token, failed outcome
	last          *dedup.ClaimEnd // how the holder with the latest fence ended the solve; nil = it has not ended
	ended         time.Time       // when the holder with the latest fence ended the solve
	saved         map[dedup.SavingsSource]int64
}

// running reports whether a solve is in flight.
func (m *model) running(now time.Time) bool { return m.solve != "" && now.Before(m.stops) }

// enter returns the claim that Enter should return, without the fence of a holder and the name of a
// new solve. The store chooses these two values.
func (m *model) enter(e dedup.ClaimEntry, now time.Time) dedup.Claim {
	share := func(as dedup.SavingsSource) dedup.Claim {
		if e.Callers > 0 {
			m.saved[as] += int64(e.Callers)
		}
		return dedup.Claim{State: dedup.ClaimShared, Solve: m.token.solve, Left: m.token.ends.Sub(now), Value: []byte(m.token.value)}
	}
	switch {
	case e.Solve == "" && m.token.known(m.token.solve, now):
		return share(dedup.SavedAfter)
	case e.Solve != "" && m.token.known(e.Solve, now):
		return share(dedup.SavedWaiting)
	case m.running(now) && (e.Solve == "" || e.Solve == m.solve):
		if now.Before(m.lease) {
			m.asked = now
			return dedup.Claim{State: dedup.ClaimSolving, Solve: m.solve, Identity: m.identity, Left: m.stops.Sub(now)}
		}
	case e.Solve == "":
		m.solve, m.identity, m.stops, m.asked = "", e.Identity, now.Add(m.times.Longest), time.Time{}
	case m.failed.known(e.Solve, now):
		return dedup.Claim{State: dedup.ClaimError, Solve: e.Solve, Value: []byte(m.failed.value)}
	default:
		return dedup.Claim{State: dedup.ClaimError, Solve: e.Solve}
	}
	m.lease, m.last = now.Add(m.times.Lease), nil
	return dedup.Claim{State: dedup.ClaimHeld, Solve: m.solve, Identity: m.identity, Left: m.stops.Sub(now)}
}

// hold returns the results that Hold should return.
func (m *model) hold(fence int64, identity captcha.ID, now time.Time) (mine, wanted bool) {
	if fence != m.fence || !m.running(now) {
		return false, false
	}
	m.identity, m.lease = identity, now.Add(m.times.Lease)
	return true, now.Before(m.asked.Add(m.times.Wanted))
}

// release applies a call of Release to the model.
func (m *model) release(fence int64, identity captcha.ID, now time.Time) {
	if fence == m.fence && m.running(now) {
		m.identity, m.lease = identity, now
	}
}

// end returns the result that End should return.
func (m *model) end(fence int64, e dedup.ClaimEnd, now time.Time) bool {
	switch {
	case fence != m.fence || fence == 0:
		return false
	case m.last != nil:
		return now.Before(m.ended.Add(m.times.Solved)) && m.last.Failed == e.Failed && string(m.last.Value) == string(e.Value)
	case !m.running(now):
		return false
	case e.Failed:
		m.failed = outcome{m.solve, string(e.Value), now.Add(m.times.Failed)}
	default:
		m.token = outcome{m.solve, string(e.Value), now.Add(min(e.Lasts, m.times.Solved))}
	}
	m.solve, m.last, m.ended = "", &e, now
	return true
}

// For random calls in random order, a store returns the same results as the model. In a synctest
// bubble, time passes between the calls.
func testRandomCallsMatchTheModel(t *testing.T, open Open) {
	times := longTimes
	b := open(t, longTimes)
	if b.Exact {
		times = dedup.ClaimTimes{
			Lease: 50 * time.Millisecond, Wanted: 30 * time.Millisecond, Longest: 200 * time.Millisecond,
			Solved: 100 * time.Millisecond, Failed: 80 * time.Millisecond,
		}
		b = open(t, times)
	}
	// The package rapid calls the method Deadline of a *testing.T, which a bubble does not allow. The
	// wrapper hides this method.
	rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
		before := saved(t, b.Replicas[0])
		story := story{t: t, b: b, key: newKey(), m: model{times: times, saved: before}, solves: []string{"", "unknown"}, fences: []int64{0, 7}}
		steps := map[string]func(*rapid.T){"enter": story.enter, "hold": story.hold, "release": story.release, "end": story.end}
		if b.Exact {
			steps["sleep"] = func(rt *rapid.T) {
				time.Sleep(time.Duration(rapid.SampledFrom([]int{1, 29, 30, 49, 50, 79, 80, 100, 150}).Draw(rt, "ms")) * time.Millisecond)
			}
		}
		rt.Repeat(steps)
		if got := saved(t, b.Replicas[0]); !maps.Equal(got, story.m.saved) {
			rt.Fatalf("saved %v, want %v", got, story.m.saved)
		}
	})
}

// story applies calls to the store and to the model.
type story struct {
	t      *testing.T
	b      Backend
	key    captcha.ID
	m      model
	solves []string
	fences []int64
}

func (s *story) replica(rt *rapid.T) Claims {
	return rapid.SampledFrom(s.b.Replicas).Draw(rt, "replica")
}

func (s *story) identity(rt *rapid.T) captcha.ID {
	return captcha.ID(rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "identity"))
}

// drawLate draws an item of the list, most often an item near the end of the list.
func drawLate[T any](rt *rapid.T, list []T, name string) T {
	return list[max(0, len(list)-1-rapid.IntRange(0, len(list)-1).Draw(rt, name))]
}

func (s *story) enter(rt *rapid.T) {
	e := dedup.ClaimEntry{Key: s.key, Solve: rapid.SampledFrom([]string{"", drawLate(rt, s.solves, "solve")}).Draw(rt, "new or not"),
		Identity: s.identity(rt), Callers: rapid.IntRange(0, 3).Draw(rt, "callers")}
	want := s.m.enter(e, time.Now())
	got, err := s.replica(rt).Enter(s.t.Context(), e)
	if err != nil {
		rt.Fatalf("entering %+v: %v", e, err)
	}
	if want.State == dedup.ClaimHeld {
		if got.Fence <= s.m.fence {
			rt.Fatalf("fence %d after %d", got.Fence, s.m.fence)
		}
		if want.Solve == "" && (got.Solve == "" || slices.Contains(s.solves, got.Solve)) {
			rt.Fatalf("a new solve: %+v", got)
		}
		s.m.fence, s.m.solve, s.fences = got.Fence, got.Solve, append(s.fences, got.Fence)
		if want.Solve == "" {
			s.solves = append(s.solves, got.Solve)
		}
		want.Fence, want.Solve = got.Fence, got.Solve
	}
	if off := want.Left - got.Left; !s.b.Exact && off.Abs() < 10*time.Second {
		want.Left = got.Left
	}
	same := want.State == got.State && want.Solve == got.Solve && want.Fence == got.Fence && want.Left == got.Left
	same = same && string(want.Value) == string(got.Value) && (want.Value == nil) == (got.Value == nil)
	if same && (want.State == dedup.ClaimHeld || want.State == dedup.ClaimSolving) {
		same = want.Identity == got.Identity
	}
	if !same {
		rt.Fatalf("entering %+v: %+v, want %+v", e, got, want)
	}
}

func (s *story) hold(rt *rapid.T) {
	fence, identity := drawLate(rt, s.fences, "fence"), s.identity(rt)
	mine, wanted := s.m.hold(fence, identity, time.Now())
	gotMine, gotWanted, err := s.replica(rt).Hold(s.t.Context(), s.key, fence, identity)
	if err != nil || gotMine != mine || gotWanted != wanted {
		rt.Fatalf("holding by %d = %v, %v, %v; want %v, %v", fence, gotMine, gotWanted, err, mine, wanted)
	}
}

func (s *story) release(rt *rapid.T) {
	fence, identity := drawLate(rt, s.fences, "fence"), s.identity(rt)
	s.m.release(fence, identity, time.Now())
	if err := s.replica(rt).Release(s.t.Context(), s.key, fence, identity); err != nil {
		rt.Fatalf("letting go by %d: %v", fence, err)
	}
}

func (s *story) end(rt *rapid.T) {
	fence := drawLate(rt, s.fences, "fence")
	e := dedup.ClaimEnd{
		Value:  []byte(rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "value")),
		Failed: rapid.Bool().Draw(rt, "failed"),
		Lasts:  time.Duration(rapid.SampledFrom([]int{0, 20, 60, 100_000_000}).Draw(rt, "lasts")) * time.Millisecond,
	}
	if !s.b.Exact && e.Lasts > 0 {
		e.Lasts = time.Hour
	}
	want := s.m.end(fence, e, time.Now())
	if ok, err := s.replica(rt).End(s.t.Context(), s.key, fence, e); err != nil || ok != want {
		rt.Fatalf("ending by %d with %+v = %v, %v; want %v", fence, e, ok, err, want)
	}
}
