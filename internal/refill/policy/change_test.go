//go:build !race

package policy

import (
	"math"
	"slices"
	"testing"
	"time"
)

// Changed params take effect immediately, and the learned state stays.
func TestChange(t *testing.T) {
	m, at := used(usual())
	cells, count := m.learned.table.known, m.learned.count
	k := usual()
	k.Depth, k.Min = 9, 9
	m.Change(k)
	if w := m.Plan(at, 0); w.Want != 9 || w.Most != 9 {
		t.Errorf("%+v", w)
	}
	if m.learned.table.known != cells || m.learned.count != count {
		t.Error("forgot what it knew")
	}
	k.MaxWaste = 0.1
	m.credit.left = 1e6
	m.Change(k)
	if m.credit.left != m.credit.most() {
		t.Errorf("credit %v", m.credit.left)
	}
}

// If the clock goes back, the State's time does not advance. After months without an event, a State
// is brought up to date quickly.
func TestOddClocks(t *testing.T) {
	m, at := used(usual())
	m.planned = 0
	want := m.Plan(at, 0)
	m.planned = 0
	if got := m.Plan(at.Add(-time.Hour), 0); got != want {
		t.Errorf("an hour back: %+v, want %+v", got, want)
	}
	m.Request(time.Time{}, true) // the zero time is the earliest
	head := m.learned.table.head
	if w := m.Plan(at.Add(90*24*time.Hour), 0); w.Want != 0 {
		t.Errorf("three months later: %+v", w)
	}
	if samples := m.learned.table.head - head; samples > 6000 {
		t.Errorf("%d samples to catch up", samples)
	}
}

// Unusual lead times change the scale. A small change of the lead times keeps the table.
func TestScale(t *testing.T) {
	m, at := used(usual())
	land := func(lead time.Duration) {
		for range leadsKept {
			at = at.Add(time.Second)
			m.Landed(at, lead)
		}
	}
	land(28 * time.Second)
	if m.learned.scale != 1 || m.learned.table.known == 0 {
		t.Errorf("at 28 s: scale %v, %d cells", m.learned.scale, m.learned.table.known)
	}
	cells := m.learned.table.known
	land(1800 * time.Millisecond)
	if m.learned.scale > 0.31 || m.learned.table.known > cells/2 {
		t.Errorf("at 1.8 s: scale %v, %d cells", m.learned.scale, m.learned.table.known)
	}
	land(0)
	if m.learned.scale < leastScale {
		t.Errorf("at 0 s: scale %v", m.learned.scale)
	}
	land(72 * time.Second)
	if m.learned.scale != 4 || m.learned.table.known > cells/2 {
		t.Errorf("at 72 s: scale %v, %d cells", m.learned.scale, m.learned.table.known)
	}
}

// If the scale changes, the expected number of requests per lead time changes immediately, because
// the request rate stays the same.
func TestScaleKeepsTheRate(t *testing.T) {
	for _, lead := range []float64{1.8, 90} {
		m := NewState(usual())
		at := requests(m, 0, 600, 1)
		m.Learn(after(at), slices.Repeat(seconds(lead), leadsKept))
		if w := m.Plan(after(at), 0); m.learned.scale == 1 || math.Abs(w.Forecast/lead-1) > 0.25 {
			t.Errorf("a request a second and a lead time of %g s: scale %.2f, %.1f requests are expected", lead, m.learned.scale, w.Forecast)
		}
	}
}
