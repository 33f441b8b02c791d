//go:build !race

package policy

import (
	"testing"
	"time"
)

func seconds(s ...float64) []time.Duration {
	list := make([]time.Duration, len(s))
	for i := range s {
		list[i] = time.Duration(s[i] * float64(time.Second))
	}
	return list
}

// fixed returns a State with a fixed depth of 5. The provider is polled after 15 s and
// then every 5 s.
func fixed(usable time.Duration, learned []time.Duration) *State {
	m := NewState(Params{Depth: 5, Usable: usable, FirstPoll: 15 * time.Second, PollInterval: 5 * time.Second})
	m.Learn(after(0), learned)
	return m
}

func (s *State) decided(stock Stock) Decision { return s.Decide(after(0), s.Plan(after(0), 0), &stock) }

func TestLead(t *testing.T) {
	const usable = 80 * time.Second
	cases := map[string]struct {
		learned []time.Duration
		usable  time.Duration
		want    time.Duration
	}{
		"nothing learned":            {nil, usable, 20 * time.Second},
		"two solves are not enough":  {seconds(50, 50), usable, 20 * time.Second},
		"three are":                  {seconds(30, 10, 12), usable, 12 * time.Second},
		"even count":                 {seconds(30, 10, 12, 14), usable, 13 * time.Second},
		"half the usable life, cap":  {seconds(70, 70, 70), usable, 40 * time.Second},
		"cap before anything learnt": {nil, 30 * time.Second, 15 * time.Second},
		"no usable life":             {nil, -time.Second, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := fixed(c.usable, c.learned).Plan(after(0), 0).Lead; got != c.want {
				t.Errorf("lead %v, want %v", got, c.want)
			}
		})
	}
}

func TestShortest(t *testing.T) {
	for n, want := range map[int]time.Duration{7: 0, 8: 10 * time.Second} {
		learned := seconds(30, 10, 12, 14, 18, 20, 25, 17)[:n]
		if got := fixed(time.Hour, learned).Plan(after(0), 0).Shortest; got != want {
			t.Errorf("of %d: %v, want %v", n, got, want)
		}
	}
}

// The rule of docs/configuration.md: an order is placed while (fresh tokens that outlive the lead
// time) + (orders) - (callers waiting) < depth.
func TestFixed(t *testing.T) {
	cases := map[string]struct {
		stock Stock
		order int
		look  time.Duration
	}{
		"empty": {
			Stock{NextLook: -1}, 5, Never,
		},
		"full": {
			Stock{Fresh: 5, Outliving: 5, NextLook: time.Minute}, 0, time.Minute,
		},
		"orders count": {
			Stock{Fresh: 1, Outliving: 1, Orders: 3, NextLook: time.Second}, 1, time.Second,
		},
		"a token that does not outlive the lead is replaced while it is still fresh": {
			Stock{Fresh: 5, Outliving: 4, NextLook: 3 * time.Second}, 1, 3 * time.Second,
		},
		"each waiting caller wants one more": {
			Stock{Orders: 5, Waiting: 3, NextLook: -1}, 3, Never,
		},
		"surplus orders nothing": {
			Stock{Fresh: 9, Outliving: 9, Orders: 2, NextLook: 0}, 0, 0,
		},
		"paused": {
			Stock{Paused: true, Waiting: 3, NextLook: time.Second}, 0, Never,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := fixed(80*time.Second, nil).decided(c.stock)
			want := Decision{Plan: Plan{Want: 5, Most: 5, Lead: 20 * time.Second, Look: c.look}, Order: c.order}
			if c.stock.Paused {
				want.Want, want.Limit = 0, LimitPaused
			}
			if d != want {
				t.Errorf("decision %+v, want %+v", d, want)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	const order, look = 4, time.Minute
	cases := map[string]struct {
		order    int
		look     time.Duration
		failures uint32
		since    float64 // time since the last order; <0 = no order yet
		want     int
		wantLook time.Duration
		limit    string
	}{
		"seven failures":          {order, look, 7, 0, order, look, LimitNone},
		"eight, just placed":      {order, look, 8, 1, 0, 4 * time.Second, LimitProbe},
		"eight, time for a probe": {order, look, 8, 5, 1, 5 * time.Second, LimitProbe},
		"an earlier look stays":   {order, time.Second, 8, 0, 0, time.Second, LimitProbe},
		"nothing to order":        {0, Never, 99, 0, 0, Never, LimitNone},
		"never placed":            {order, look, 8, -1, 1, 5 * time.Second, LimitProbe},
		"one alone is no less":    {1, look, 8, 5, 1, 5 * time.Second, LimitNone},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := fixed(time.Minute, nil)
			if c.since >= 0 {
				m.Placed(after(0))
			}
			m.advance(after(max(0, c.since)))
			m.learned.solves.streak = c.failures
			d := Decision{Plan: Plan{Look: c.look}, Order: c.order}
			m.probe(&d)
			if want := (Decision{Plan: Plan{Look: c.wantLook, Limit: c.limit}, Order: c.want}); d != want {
				t.Errorf("%+v, want %+v", d, want)
			}
		})
	}
}
