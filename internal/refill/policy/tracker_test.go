//go:build !race

package policy

import (
	"testing"
	"time"
)

// After a while in which others looked, what they saved is loaded, and the requests of
// that time are not learned as if they all came now.
func TestResume(t *testing.T) {
	at := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	p := Params{Adaptive: true, Depth: 50, HitRate: 0.97, MaxWaste: 3, Usable: 80 * time.Second, FirstPoll: 10 * time.Second, PollInterval: 5 * time.Second}
	stock := &Stock{NextExpiry: -1, NextLook: -1}
	follow := func(resume bool) (forecast float64) {
		tracker := NewTracker(p, nil)
		if err := tracker.Load(at, nil); err != nil {
			t.Fatal(err)
		}
		tracker.Learn(at, stock, 10)
		later := at.Add(10 * time.Minute)
		if resume {
			tracker.Resume()
			if !tracker.WantsSaved(later) {
				t.Error("what others saved is not wanted")
			}
			if err := tracker.Load(later, nil); err != nil {
				t.Fatal(err)
			}
		}
		after := *stock
		after.Figures.Requests, after.Figures.Misses = 500, 500
		tracker.Learn(later, &after, 10)
		return tracker.Decide(later, tracker.Plan(later), &after).Forecast
	}
	if all, none := follow(false), follow(true); none > 0.1 || all < 10 {
		t.Errorf("forecast %v where what others saw is learned again, %v where not", all, none)
	}
}
