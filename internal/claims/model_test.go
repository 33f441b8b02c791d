package claims_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"poold/internal/captcha"
	"poold/internal/claims"
)

// model is a claim in memory. It draws calls, and compares the results of a store with its own.
type model struct {
	*world

	t              *testing.T
	key            captcha.ID
	names          []string // of all solves
	fences         []int64  // of all holders
	solve          string   // under way; "" = none
	lease, stops   int64
	token, failure ending
	last           *claims.End // how the last holder ended its solve
}

// ending is an end that callers can read.
type ending struct {
	solve string
	value []byte
	until int64
}

// For random calls in random order, a store returns the same results as the model.
func testModel(t *testing.T, w *world) {
	// A bubble does not allow the method Deadline of a *testing.T, which rapid would call.
	rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
		m := &model{world: w, t: t, key: newKey(), names: []string{"unknown"}, fences: []int64{0}}
		rt.Repeat(map[string]func(*rapid.T){"enter": m.enter, "hold": m.hold, "end": m.end, "sleep": m.sleep})
	})
}

func (m *model) after(d time.Duration) int64 { return m.ms.Load() + d.Milliseconds() }

func (m *model) left(moment int64) time.Duration {
	return time.Duration(moment-m.ms.Load()) * time.Millisecond
}

// holder reports whether a fence is the latest one, of a solve under way.
func (m *model) holder(fence int64) bool {
	return fence == slices.Max(m.fences) && m.solve != "" && m.left(m.stops) > 0
}

func (m *model) draw(rt *rapid.T) (c *claims.Claims, fence int64) {
	late := max(0, len(m.fences)-1-rapid.IntRange(0, len(m.fences)-1).Draw(rt, "fence"))
	return m.replica(rapid.IntRange(0, 2).Draw(rt, "replica")), m.fences[late]
}

func (m *model) sleep(rt *rapid.T) {
	m.pass(rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Second, claims.Lease, claims.FailedFor, claims.SharedFor, claims.Longest,
	}).Draw(rt, "time"))
}

func (m *model) enter(rt *rapid.T) {
	c, _ := m.draw(rt)
	e := claims.Entry{Key: m.key}
	if rapid.Bool().Draw(rt, "waits") {
		e.Solve = rapid.SampledFrom(m.names[max(0, len(m.names)-3):]).Draw(rt, "solve")
	}
	got, err := c.Enter(m.t.Context(), e)
	if err != nil {
		rt.Fatalf("entering %+v: %v", e, err)
	}
	isNew, want := e.Solve == "", claims.Claim{State: claims.Failed, Solve: e.Solve}
	switch {
	case m.left(m.token.until) > 0 && (isNew || e.Solve == m.token.solve):
		want = claims.Claim{State: claims.Shared, Solve: m.token.solve, Left: m.left(m.token.until), Value: m.token.value}
	case m.holder(slices.Max(m.fences)) && (isNew || e.Solve == m.solve):
		want.State = claims.Held
		if m.left(m.lease) > 0 {
			want.State = claims.Solving
		}
	case isNew:
		if want.State = claims.Held; slices.Contains(m.names, got.Solve) {
			rt.Fatalf("a new solve: %+v", got)
		}
		m.solve, m.stops = got.Solve, m.after(claims.Longest)
		m.names = append(m.names, got.Solve)
	case e.Solve == m.failure.solve && m.left(m.failure.until) > 0:
		want.Value = m.failure.value
	}
	if want.State == claims.Held || want.State == claims.Solving {
		want.Solve, want.Left = m.solve, m.left(m.stops)
	}
	if want.State == claims.Held {
		if want.Fence = got.Fence; got.Fence <= slices.Max(m.fences) || m.keep.Load() != int64(want.Left+claims.SharedFor) {
			rt.Fatalf("fence %d after %v, kept for %d", got.Fence, m.fences, m.keep.Load())
		}
		m.fences, m.lease, m.last = append(m.fences, got.Fence), m.after(claims.Lease), nil
	}
	if !reflect.DeepEqual(got, want) {
		rt.Fatalf("entering %+v: %+v, want %+v", e, got, want)
	}
}

// hold renews or releases the lease.
func (m *model) hold(rt *rapid.T) {
	c, fence := m.draw(rt)
	want, lease := m.holder(fence), claims.Lease
	if rapid.IntRange(0, 3).Draw(rt, "release") == 0 {
		lease = 0
		if err := c.Release(m.t.Context(), m.key, fence); err != nil {
			rt.Fatalf("releasing by %d: %v", fence, err)
		}
	} else if mine, err := c.Hold(m.t.Context(), m.key, fence); err != nil || mine != want {
		rt.Fatalf("holding by %d = %v, %v; want %v", fence, mine, err, want)
	}
	if want {
		m.lease = m.after(lease)
	}
}

func (m *model) end(rt *rapid.T) {
	c, fence := m.draw(rt)
	e := claims.End{
		Value: []byte(rapid.SampledFrom([]string{"", "a"}).Draw(rt, "value")), Failed: rapid.Bool().Draw(rt, "failed"),
		Lasts: rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(rt, "lasts"),
	}
	want := m.holder(fence)
	again := fence == slices.Max(m.fences) && m.last != nil && m.last.Failed == e.Failed && string(m.last.Value) == string(e.Value)
	if ok, err := c.End(m.t.Context(), m.key, fence, e); err != nil || ok != (want || again) || want && m.keep.Load() != int64(claims.SharedFor) {
		rt.Fatalf("ending by %d with %+v = %v, %v; want %v, %v; kept for %d", fence, e, ok, err, want, again, m.keep.Load())
	}
	switch {
	case !want:
		return
	case e.Failed:
		m.failure = ending{m.solve, e.Value, m.after(claims.FailedFor)}
	default:
		m.token = ending{m.solve, e.Value, m.after(min(e.Lasts, claims.SharedFor))}
	}
	m.solve, m.last = "", &e
}
