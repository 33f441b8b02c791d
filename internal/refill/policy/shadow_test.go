//go:build !race

package policy

import (
	"testing"
	"time"
)

// shaded returns a tracker with a fixed depth of 5 and a shadow that began at epoch.
func shaded() *Tracker {
	m := NewTracker(usualFixed(5), nil)
	m.looked, m.figures.Requests = epoch, 1
	m.shadow = newShadow(m, 20, epoch, NewState)
	m.shadow.warmedUp = true
	return m
}

// hourly simulates an hour with one request every 36 s. Nine in ten requests are hits.
func (m *Tracker) hourly(hour int, change func(*Stock)) (at time.Time, told *Shadow) {
	const steps = 100
	for n := range steps {
		at = epoch.Add(time.Duration(hour)*time.Hour + time.Duration(n+1)*time.Hour/steps)
		s := Stock{Figures: m.figures}
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
		m.Learn(at, &s, 20)
	}
	return at, m.Shadow()
}

// A summary covers the last 12 to 24 hours, for the target and for its shadow.
func TestShadowForgets(t *testing.T) {
	long(t)
	m := shaded()
	for hour := range 60 {
		at, told := m.hourly(hour, nil)
		if told == nil {
			t.Fatalf("hour %d: nothing", hour)
		}
		hours := at.Sub(told.Since).Hours()
		if hours > 24 || hours < 12 && hour > 12 || told.Requests != int64(100*hours) || told.Bought != int64(300*hours) || told.HitRate != 0.9 {
			t.Errorf("hour %d: %+v, of %g hours", hour, told, hours)
		}
		// There is one request every 36 s. About two purchased tokens are needed to hit nearly all
		// requests.
		if perHour := float64(told.ShadowBought) / hours; told.ShadowHitRate > 1 || told.ShadowHitRate < 0.8 && hour > 2 || perHour < 80 || perHour > 250 {
			t.Errorf("hour %d: %+v, %g bought an hour", hour, told, perHour)
		}
	}
}

// There is no summary until there are enough requests.
func TestShadowIsSilent(t *testing.T) {
	m := shaded()
	for _, f := range []Figures{{}, {Requests: 49, Hits: 49, Solved: 60}, {Requests: 90, Misses: 90}} {
		m.shadow.newer.real = f
		if told := m.Shadow(); told != nil {
			t.Errorf("%+v of %+v", told, f)
		}
	}
	m.shadow.begin(epoch)
	if _, told := m.hourly(0, nil); told == nil || told.Requests != 100 || told.HitRate != 0.9 {
		t.Errorf("%+v", told)
	}
}

// While an operator has paused buying, nothing counts, neither for the target nor for its shadow.
// If Redis loses the counts, a new summary begins.
func TestShadowLeavesOut(t *testing.T) {
	m := shaded()
	m.hourly(0, nil)
	_, before := m.hourly(1, nil)
	for hour := range 3 {
		_, paused := m.hourly(2+hour, func(s *Stock) { s.Paused = true })
		if paused.Span = before.Span; *paused != *before {
			t.Errorf("paused: %+v, before %+v", paused, before)
		}
	}
	m.Learn(epoch.Add(6*time.Hour), &Stock{Figures: Figures{Requests: 3, Hits: 3}}, 20)
	if told := m.Shadow(); told != nil {
		t.Errorf("after the loss: %+v", told)
	}
	if _, told := m.hourly(6, nil); told == nil || told.HitRate != 0.9 || told.Requests != 100 {
		t.Errorf("later: %+v", told)
	}
}

// Even if counting begins during a pause, the pause does not count.
func TestShadowBeginsInAPause(t *testing.T) {
	m := shaded()
	m.shadow.warmedUp = false
	m.hourly(0, func(s *Stock) { s.Paused = true })
	if _, told := m.hourly(1, nil); told == nil || told.Requests != 100 || told.Bought != 300 {
		t.Errorf("%+v", told)
	}
}

// A shadow has the same outages as its target.
func TestShadowLivesInTheSameWorld(t *testing.T) {
	bought := func(change func(m *Tracker, s *Stock)) int {
		m := shaded()
		for hour := range 4 {
			m.hourly(hour, func(s *Stock) {
				if change != nil {
					change(m, s)
				}
			})
		}
		return m.shadow.total(0).bought
	}
	usually := bought(nil)
	outage := bought(func(m *Tracker, _ *Stock) { m.state.learned.solves.streak = FailuresInARow })
	if outage > usually/4 {
		t.Errorf("usually %d bought, in an outage %d", usually, outage)
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

// After a time in which another replica watched the target, a tracker loads the state that the
// other replica saved. The tracker does not learn the requests of that time as a burst.
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
