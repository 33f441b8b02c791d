package refill

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"poold/internal/pool"
)

func seconds(s ...float64) []time.Duration {
	list := make([]time.Duration, len(s))
	for i := range s {
		list[i] = time.Duration(s[i] * float64(time.Second))
	}
	return list
}

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
			if got := Lead(c.learned, 15*time.Second, 5*time.Second, c.usable); got != c.want {
				t.Errorf("lead %v, want %v", got, c.want)
			}
		})
	}
}

// The caller's list is data of others.
func TestLeadLeavesItsArgument(t *testing.T) {
	learned := seconds(3, 1, 2)
	Lead(learned, 0, 0, time.Hour)
	if learned[0] != 3*time.Second || learned[1] != time.Second {
		t.Errorf("reordered to %v", learned)
	}
}

func TestFixed(t *testing.T) {
	cases := map[string]struct {
		stock pool.Stock
		want  Decision
	}{
		"empty": {
			pool.Stock{NextLook: -1},
			Decision{Want: 5, Order: 5, Look: Never},
		},
		"full": {
			pool.Stock{Fresh: 5, Outliving: 5, NextLook: time.Minute},
			Decision{Want: 5, Look: time.Minute},
		},
		"orders count": {
			pool.Stock{Fresh: 1, Outliving: 1, Orders: 3, NextLook: time.Second},
			Decision{Want: 5, Order: 1, Look: time.Second},
		},
		"a token that does not outlive the lead is replaced while it is still fresh": {
			pool.Stock{Fresh: 5, Outliving: 4, NextLook: 3 * time.Second},
			Decision{Want: 5, Order: 1, Look: 3 * time.Second},
		},
		"each waiting caller wants one more": {
			pool.Stock{Orders: 5, Waiting: 3, NextLook: -1},
			Decision{Want: 5, Order: 3, Look: Never},
		},
		"surplus orders nothing": {
			pool.Stock{Fresh: 9, Outliving: 9, Orders: 2, NextLook: 0},
			Decision{Want: 5, Look: 0},
		},
		"paused": {
			pool.Stock{Paused: true, Waiting: 3, NextLook: time.Second},
			Decision{Look: Never},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Fixed(State{Depth: 5, Usable: 80 * time.Second, FirstPoll: 15 * time.Second, PollInterval: 5 * time.Second, Stock: c.stock})
			c.want.Lead = 20 * time.Second
			if got != c.want {
				t.Errorf("decision %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestThrottle(t *testing.T) {
	wants := Decision{Want: 5, Order: 4, Look: time.Minute}
	cases := map[string]struct {
		decision Decision
		failures int
		since    time.Duration
		want     Decision
	}{
		"seven failures":          {wants, 7, 0, wants},
		"eight, just placed":      {wants, 8, time.Second, Decision{Want: 5, Order: 0, Look: 4 * time.Second}},
		"eight, time for a probe": {wants, 8, 5 * time.Second, Decision{Want: 5, Order: 1, Look: 5 * time.Second}},
		"an earlier look stays":   {Decision{Order: 4, Look: time.Second}, 8, 0, Decision{Look: time.Second}},
		"nothing to order":        {Decision{Look: Never}, 99, 0, Decision{Look: Never}},
		"never placed":            {wants, 8, Never, Decision{Want: 5, Order: 1, Look: 5 * time.Second}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Throttle(c.decision, c.failures, c.since); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// Whatever the stock holds, the orders decided upon fill it up to the depth
// exactly, and never beyond.
func TestFixedKeepsTheDepthSentence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.IntRange(0, 300)
		s := State{
			Depth:        rapid.IntRange(1, 200).Draw(t, "depth"),
			Usable:       time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "usable")),
			FirstPoll:    time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "first")),
			PollInterval: time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "interval")),
			Stock: pool.Stock{
				Outliving: small.Draw(t, "outliving"), Orders: small.Draw(t, "orders"), Waiting: small.Draw(t, "waiting"),
				NextLook: time.Duration(rapid.Int64Range(-1, int64(time.Hour)).Draw(t, "look")),
				Paused:   rapid.Bool().Draw(t, "paused"),
			},
		}
		for _, ms := range rapid.SliceOfN(rapid.Int64Range(0, 300_000), 0, 48).Draw(t, "leads") {
			s.Stock.Leads = append(s.Stock.Leads, time.Duration(ms)*time.Millisecond)
		}
		d := Throttle(Fixed(s), rapid.IntRange(0, 20).Draw(t, "failures"), time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "since")))
		sum := s.Stock.Outliving + s.Stock.Orders - s.Stock.Waiting
		if d.Order < 0 || d.Order > 0 && sum+d.Order > s.Depth {
			t.Fatalf("%d ordered on top of %d with depth %d", d.Order, sum, s.Depth)
		}
		if full := Fixed(s); !s.Stock.Paused && sum < s.Depth && sum+full.Order != s.Depth {
			t.Fatalf("%d ordered on top of %d does not fill depth %d", full.Order, sum, s.Depth)
		}
		if d.Lead < 0 || d.Lead > s.Usable/2 {
			t.Fatalf("lead %v of usable life %v", d.Lead, s.Usable)
		}
		if d.Look < 0 {
			t.Fatalf("look in %v", d.Look)
		}
	})
}

func BenchmarkFixed(b *testing.B) {
	s := State{Depth: 20, Usable: 80 * time.Second, FirstPoll: 15 * time.Second, PollInterval: 5 * time.Second}
	s.Stock = pool.Stock{Outliving: 17, Orders: 2, Waiting: 1, NextLook: time.Second}
	for i := range 48 {
		s.Stock.Leads = append(s.Stock.Leads, time.Duration(i*7919%60_000)*time.Millisecond)
	}
	b.ReportAllocs()
	for b.Loop() {
		if d := Fixed(s); d.Order != 2 {
			b.Fatal(d)
		}
	}
}
