//go:build !race

package policy

import (
	"testing"
	"time"
)

// A hit earns max_waste, a miss a twentieth of it. The credit plus the recent hits may be held.
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
	if got := m.limits().affordable; got < 69 || got > 70 { // 30 more, and the 10
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
