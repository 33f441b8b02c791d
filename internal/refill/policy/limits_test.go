//go:build !race

package policy

import (
	"testing"
	"time"
)

// A hit earns max_waste, and a miss earns a twentieth of max_waste. The number of tokens held may
// be up to the credit plus the recent hits.
func TestCreditIsEarned(t *testing.T) {
	m := NewState(usual())
	if m.limits().affordable != 15 {
		t.Errorf("a new target may hold %d", m.limits().affordable)
	}
	now := time.Unix(1_700_000_000, 0)
	for range 100 {
		m.Request(now, false)
	}
	if got := m.limits().affordable; got < 29 || got > 30 {
		t.Errorf("after a hundred misses %d", got)
	}
	for range 10 {
		m.Request(now, true)
	}
	if got := m.limits().affordable; got < 69 || got > 70 { // 30 from the hits plus the initial 10
		t.Errorf("after ten hits %d", got)
	}
	now = now.Add(time.Hour)
	m.Expired(now, 50)
	if got := m.limits().affordable; got < 9 || got > 10 {
		t.Errorf("after an hour and 50 deaths %d", got)
	}
	if m.Expired(now, 50); m.limits().affordable != 0 {
		t.Errorf("in debt %d", m.limits().affordable)
	}
	if m.Expired(now, 100_000); m.credit.left != -m.credit.most() {
		t.Errorf("the deepest debt is %.0f, want %.0f", m.credit.left, -m.credit.most())
	}
	for range 10_000 {
		m.Request(now, true)
	}
	if m.credit.left != m.credit.most() {
		t.Errorf("saved up %.0f, at most %.0f", m.credit.left, m.credit.most())
	}
}

// Each expired token uses up one free expiry. Tokens and orders together are at most twice the
// affordable number, and at most the depth.
func TestFreeExpiriesAreUsedUp(t *testing.T) {
	c := newCredit(3)
	c.accrue(1e9, 4, 80)
	start := c.left
	for n, want := range []float64{start, start - 4, start - 8} {
		if c.charge(4, 10); c.left != want {
			t.Errorf("charge %d: %g left, want %g", n, c.left, want)
		}
	}
	for affordable, want := range map[int]int{0: 3, 10: 20, 90: 100} {
		if got := (&limits{floor: 3, most: 100, affordable: affordable}).held(); got != want {
			t.Errorf("%d held with a credit for %d, want %d", got, affordable, want)
		}
	}
}

// Orders for a warm window start earlier than the window by nearly the longest lead time, but by at
// most half a usable life.
func TestWindowsAreOrderedByTheLongestLeads(t *testing.T) {
	m := NewState(usual())
	for scale, want := range map[time.Duration][2]time.Duration{
		500 * time.Millisecond: {22 * time.Second, 24 * time.Second},
		time.Second:            {40 * time.Second, 40 * time.Second},
	} {
		var leads []time.Duration
		for n := range leadsKept {
			leads = append(leads, time.Duration(n+1)*scale)
		}
		m.Learn(after(0), leads)
		if got := m.warmLead(); got < want[0] || got > want[1] {
			t.Errorf("lead times up to %v: %v before, want %v", leads[leadsKept-1], got, want)
		}
	}
}
