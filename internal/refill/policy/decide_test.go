//go:build !race

package policy

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"poold/internal/testkit"
)

// target is a target under test, with the counts that a script would read.
type target struct {
	p  Params
	l  *Learned
	c  Snapshot
	at float64 // seconds since monday
}

func newTarget(change func(p *Params)) *target {
	x := &target{p: usual(), c: Snapshot{NextExpiry: -1, NextAgeing: -1}}
	if change != nil {
		change(&x.p)
	}
	x.l = NewLearned(x.p)
	x.learn()
	return x
}

func after(seconds float64) time.Time { return monday.Add(inSeconds(seconds)) }

func (x *target) learn() { x.l.Learn(x.p, &x.c, after(x.at)) }

func (x *target) decide() Decision { return Decide(x.p, x.l, &x.c, after(x.at)) }

// hits adds n requests that find a token, one every gap seconds.
func (x *target) hits(n int, gap float64) *target {
	for range n {
		x.c.Totals.Requests++
		x.c.Totals.Hits++
		x.learn()
		x.at += gap
	}
	return x
}

func (x *target) misses(n int64) {
	x.c.Totals.Requests += n
	x.learn()
}

func (x *target) expire(n int64) {
	x.c.Totals.Expired += n
	x.learn()
}

func repeat(n int, lead time.Duration) (leads []time.Duration) {
	for range n {
		leads = append(leads, lead)
	}
	return leads
}

// said describes a decision for messages.
func said(d Decision) string {
	return fmt.Sprintf("want %d, order %d, next %v, limit %q, failing %v", d.Want, d.Order, d.Next, d.Limit, d.Failing)
}

// The rule of docs/refill.md: an order is placed while (fresh tokens that outlive the lead time) + (orders) -
// (pending callers) < depth.
func TestAFixedDepthIsKept(t *testing.T) {
	for name, x := range map[string]struct {
		c     Snapshot
		order int
		next  time.Duration
	}{
		"empty": {c: Snapshot{NextAgeing: -1}, order: 5, next: Never},
		"full": {c: Snapshot{Fresh: 5, Outliving: 5, NextAgeing: time.Minute},
			order: 0, next: time.Minute},
		"orders count": {c: Snapshot{Fresh: 1, Outliving: 1, Orders: 3, NextAgeing: 9 * time.Second},
			order: 1, next: 9 * time.Second},
		"a token that dies soon is replaced": {c: Snapshot{Fresh: 5, Outliving: 4, NextAgeing: 3 * time.Second},
			order: 1, next: 3 * time.Second},
		"each pending caller wants one more": {c: Snapshot{Orders: 5, Waiting: 3, NextAgeing: -1, NextEnd: 7 * time.Second},
			order: 3, next: 7 * time.Second},
		"surplus orders nothing": {c: Snapshot{Fresh: 9, Outliving: 9, Orders: 2}, order: 0, next: 0},
		"paused": {c: Snapshot{Paused: true, Waiting: 3, Resumes: 8 * time.Second},
			order: 0, next: 8 * time.Second},
		"paused without an end":    {c: Snapshot{Paused: true, Waiting: 3}, order: 0, next: Never},
		"failing, the first probe": {c: Snapshot{FailedInARow: 8, NextAgeing: -1}, order: 1, next: ProbeEvery},
		"seven failures":           {c: Snapshot{FailedInARow: 7, NextAgeing: -1}, order: 5, next: Never},
	} {
		a := newTarget(func(p *Params) { p.Adaptive, p.Depth = false, 5 })
		a.c = x.c
		if d := a.decide(); d.Order != x.order || d.Next != x.next || !x.c.Paused && d.Want != 5 {
			t.Errorf("%s: got %s; must be: want 5, order %d, next %v", name, said(d), x.order, x.next)
		}
	}
	x := newTarget(func(p *Params) { p.Adaptive, p.IdleAfter = false, time.Minute })
	x.at = 20
	testkit.Equal(t, "time until it is idle", x.decide().Next, 40*time.Second)
}

// Between two probes are five seconds. A success ends them.
func TestProbes(t *testing.T) {
	x := newTarget(func(p *Params) { p.Adaptive, p.Depth = false, 5 })
	x.c.FailedInARow = FailingAfter
	x.l.Ordered(x.p, 5, 1, after(x.at))
	for _, c := range []struct {
		after    float64
		failures int
		order    int
		next     time.Duration
		limit    string
	}{{1, 8, 0, 4 * time.Second, LimitProbe}, {5, 99, 1, ProbeEvery, LimitProbe}, {5, 0, 5, Never, LimitNone}} {
		x.at, x.c.FailedInARow = c.after, c.failures
		if d := x.decide(); d.Order != c.order || d.Next != c.next || d.Limit != c.limit || d.Failing != (c.failures > 7) {
			t.Errorf("after %g s and %d failures: got %s; must be: order %d, next %v, limit %q", c.after, c.failures, said(d),
				c.order, c.next, c.limit)
		}
	}
}

// Decisions plan with the median lead time, once three are known; a target with min plans with a longer one. No lead
// time counts for more than the life of a token, or with a fixed depth half of it.
func TestLeadTime(t *testing.T) {
	ms := func(n ...int) (leads []time.Duration) {
		for _, n := range n {
			leads = append(leads, time.Duration(n)*time.Second)
		}
		return leads
	}
	for name, x := range map[string]struct {
		leads  []time.Duration
		change func(p *Params)
		want   time.Duration
	}{
		"nothing known":          {nil, func(*Params) {}, 20 * time.Second},
		"two are not enough":     {ms(50, 50), func(*Params) {}, 20 * time.Second},
		"the median of three":    {ms(30, 10, 12), func(*Params) {}, 12 * time.Second},
		"of four":                {ms(30, 10, 12, 14), func(*Params) {}, 13 * time.Second},
		"fixed: half the life":   {ms(70, 70, 70), func(p *Params) { p.Adaptive = false }, 40 * time.Second},
		"adaptive: the life":     {ms(99, 99, 99), func(*Params) {}, 80 * time.Second},
		"guessed: half the life": {nil, func(p *Params) { p.Usable = 30 * time.Second }, 15 * time.Second},
		"with min, a long one":   {ms(10, 20, 30, 40, 50), func(p *Params) { p.Min = 1 }, 45 * time.Second},
	} {
		a := newTarget(x.change)
		a.c.Leads = x.leads
		a.learn()
		testkit.AtMost(t, name+": difference from the lead", (a.l.Lead(a.p, after(0)) - x.want).Abs(), time.Microsecond)
	}
}

// Without demand no token is wanted. For a steady demand, more tokens are wanted than one lead time needs; after its
// end, none.
func TestDemandIsFollowed(t *testing.T) {
	x := newTarget(nil)
	if d := x.decide(); d.Want != 0 || d.Limit != LimitNone || d.Next != Never {
		t.Errorf("at first: got %s; must be: want 0, next %v, limit \"\"", said(d), Never)
	}
	x.hits(2000, 1)
	if d := x.decide(); d.Want < 22 || d.Want > 60 || d.Forecast < 16 || d.Forecast > 24 || d.Risk > 0.03 {
		t.Errorf("at one a second: got %s, forecast %g, risk %g; must be: want 22 to 60, forecast 16 to 24, risk to 0.03",
			said(d), d.Forecast, d.Risk)
	}
	x.at += 900
	testkit.Equal(t, "want a quarter of an hour later", x.decide().Want, 0)
}

// After hours of lone requests, a request is not a burst; after hours of bursts it is. A token for a timer is wanted a
// lead time ahead, and not so early that it would expire before.
func TestBurstsAndTimersAreLearned(t *testing.T) {
	lone, bursts := newTarget(nil), newTarget(nil)
	for range 60 {
		lone.hits(1, 1000)
		bursts.hits(30, 1)
		bursts.at += 970
	}
	testkit.AtMost(t, "tokens for a lone request", lone.hits(1, 0).decide().Want, 1)
	testkit.AtLeast(t, "tokens for a burst", bursts.hits(1, 0).decide().Want, 10)
	timer := newTarget(nil).hits(60, 300)
	timer.at -= 300
	last := timer.at
	for silence, want := range map[float64]int{100: 0, 205: 0, 260: 1} {
		timer.at = last + silence
		testkit.Equal(t, fmt.Sprintf("want %g s after the last request of a timer", silence), timer.decide().Want, want)
	}
}

// Whatever the forecast wants, these limits hold: depth, credit and idle_after. The tokens of min and of a window are
// wanted nevertheless, and a decision names the limit that held.
func TestLimitsBeatTheForecast(t *testing.T) {
	runs := func(tokens int) []Warm {
		return []Warm{{tokens, func(at time.Time) (time.Time, time.Time) { return at, at.Add(time.Hour) }}}
	}
	min3 := func(p *Params) { p.Min = 3 }
	full := func(n int) func(p *Params) { return func(p *Params) { p.Min, p.Depth = n, n } }
	fixed := func(p *Params) { p.Adaptive = false }
	idleFixed := func(p *Params) { p.Adaptive, p.IdleAfter = false, time.Minute }
	for name, x := range map[string]struct {
		change  func(*Params)
		expired int64
		after   float64
		stock   [4]int // fresh and outliving tokens, orders, callers that wait
		want    int
		limit   string
	}{
		"depth":       {change: func(p *Params) { p.Depth = 7 }, want: 7, limit: LimitDepth},
		"depth 0":     {change: func(p *Params) { p.Depth = 0 }},
		"credit":      {expired: 500, limit: LimitCredit},
		"credit, min": {change: min3, expired: 503, want: 3, limit: LimitCredit},
		"credit, warm": {change: func(p *Params) { p.Warm = runs(9) }, expired: 509, want: 9,
			limit: LimitCredit},
		"min alone":        {change: min3, after: 4000, want: 3},
		"warm beats depth": {change: func(p *Params) { p.Depth, p.Warm = 7, runs(12) }, after: 4000, want: 12},
		"idle":             {change: func(p *Params) { p.IdleAfter = time.Second }, after: 2, limit: LimitIdle},
		"idle_after is not over": {change: func(p *Params) { p.Depth, p.IdleAfter = 7, time.Minute }, want: 7,
			limit: LimitDepth},
		"fixed":                 {change: fixed, want: 200},
		"fixed knows no credit": {change: fixed, expired: 999, want: 200},
		"fixed, idle":           {change: idleFixed, after: 61, limit: LimitIdle},
		"fixed, in a warm window": {change: func(p *Params) { p.Adaptive, p.Depth, p.Warm = false, 5, runs(9) },
			want: 9},
		"fixed, a smaller window": {change: func(p *Params) { p.Adaptive, p.Warm = false, runs(9) }, want: 200},
		"fixed, idle and a window": {change: func(p *Params) { idleFixed(p); p.Warm = runs(9) }, after: 61, want: 9,
			limit: LimitIdle},
		"full, and all is used":    {change: full(200), stock: [4]int{200, 190}, want: 200},
		"full if all orders land":  {change: full(20), after: 4000, stock: [4]int{0, 0, 20}, want: 20},
		"full, and a caller waits": {change: full(3), after: 4000, stock: [4]int{3, 1, 2, 1}, want: 3, limit: LimitDepth},
		"a debt, a caller waits": {change: min3, expired: 503, after: 4000, stock: [4]int{3, 1, 2, 1}, want: 3,
			limit: LimitCredit},
	} {
		a := newTarget(x.change).hits(1000, 0.5)
		a.expire(x.expired)
		a.at += x.after
		a.c.Lead, a.c.Fresh, a.c.Outliving, a.c.Orders, a.c.Waiting = 20*time.Second, x.stock[0], x.stock[1], x.stock[2],
			x.stock[3]
		if d := a.decide(); d.Want != x.want || d.Limit != x.limit {
			t.Errorf("%s: got %s; must be: want %d, limit %q", name, said(d), x.want, x.limit)
		}
	}
}

// A window counts while it runs, and as long before as most solves take, but at most half a usable life. The next
// decision is due when a window begins or ends, and 5 min after one that places orders.
func TestWindows(t *testing.T) {
	x := newTarget(func(p *Params) {
		p.Warm = []Warm{
			each(24*time.Hour, 8*time.Hour+55*time.Minute, 10, 30*time.Minute), each(24*time.Hour, 9*time.Hour, 4, time.Hour),
		}
	})
	for _, lead := range []time.Duration{20 * time.Second, 70 * time.Second} {
		x.c.Leads = repeat(48, lead)
		x.learn()
		lead = min(lead, 40*time.Second)
		for _, c := range []struct {
			at, next time.Duration
			tokens   int
		}{
			{8 * time.Hour, 55*time.Minute - lead, 0}, {8*time.Hour + 55*time.Minute - lead, 5 * time.Minute, 10},
			{9*time.Hour + 25*time.Minute, 35 * time.Minute, 4}, {10 * time.Hour, 22*time.Hour + 55*time.Minute - lead, 0},
		} {
			x.at = c.at.Seconds()
			if d := x.decide(); d.Warm != c.tokens || d.Next != c.next {
				t.Errorf("lead time %v, at %v: got %s, warm %d; must be: next %v, warm %d", lead, c.at, said(d), d.Warm, c.next,
					c.tokens)
			}
		}
	}
}

// A hit earns miss_cost, a miss a twentieth. Expiries that min causes are free.
func TestHitsAndMissesEarnCredit(t *testing.T) {
	x := newTarget(nil)
	credit := func(what string, want float64) {
		t.Helper()
		testkit.AtMost(t, what+": difference of the credit", math.Abs(x.decide().Credit-want), 1e-6)
	}
	credit("new", 15)
	x.misses(100)
	credit("a hundred misses", 30)
	x.hits(10, 0)
	credit("ten hits", 60)
	x.expire(70)
	credit("in debt", -10)
	if d := x.decide(); d.Want != 0 && d.Limit != LimitCredit || d.Order > 0 {
		t.Errorf("in debt: %+v", d)
	}
	x.expire(100_000)
	credit("the deepest debt", -16*15)
	x.hits(10_000, 0)
	credit("saved up", 16*15)
	x = newTarget(func(p *Params) { p.Min = 4 })
	for range 100 {
		x.at += 80
		x.expire(4)
	}
	credit("the expiries of min", 15)
	x.expire(10)
	credit("and ten more", 5)
	x.at += 33
	x.expire(3)
	credit("three in half of the time", 4)
}

// An order counts by the probability that it lands. An outage does not change the share of failures.
func TestOrdersCountByTheirChance(t *testing.T) {
	x := newTarget(nil).hits(2000, 1)
	x.c.Orders = 10
	for fails, counted := range map[float64]int{0: 10, 0.3: 7, 0.8: 2} {
		x.l.fails = fails
		testkit.Equal(t, fmt.Sprintf("orders if %g of the solves fail", fails),
			x.decide().Order, x.decide().Want-counted)
	}
	for range 100 {
		x.c.Totals.Failed++
		x.c.Totals.Solved += 2
		x.learn()
	}
	testkit.AtMost(t, "difference from a third that fails", math.Abs(x.l.fails-1.0/3), 0.03)
	x.c.FailedInARow, x.c.Totals.Failed = FailingAfter, x.c.Totals.Failed+500
	x.learn()
	testkit.AtMost(t, "share that fails, after an outage", x.l.fails, 0.37)
}

// A target whose solves take four times as long is judged over four times as long: the constants stretch with the lead
// times, and so does the silence after which the next decision comes later. The forecast rate stays the same.
func TestConstantsStretchWithTheLeadTime(t *testing.T) {
	for lead, scale := range map[float64]float64{18: 1, 28: 1, 1.8: 0.1, 72: 4, 0: leastScale} {
		x := newTarget(nil).hits(600, 1)
		x.l.memory.rescale(1)
		x.c.Leads = repeat(48, inSeconds(lead))
		x.learn()
		if x.l.memory.scale != scale || lead > 1 && math.Abs(x.decide().Forecast/lead-1) > 0.25 {
			t.Errorf("lead time %g s: scale %g, forecast %g; must be: scale %g, forecast %g", lead, x.l.memory.scale,
				x.decide().Forecast, scale, lead)
		}
		last := x.at
		for silence, next := range map[float64]float64{100: 1, 400: 2, 1000: 10} {
			if x.at = last + silence*scale; lead > 0 && x.decide().Next != inSeconds(next*scale) {
				t.Errorf("scale %g, %g s after a request: got %s; must be: next %v", scale, silence, said(x.decide()),
					inSeconds(next*scale))
			}
		}
	}
}

// If the clock goes back or Redis loses its counts, nothing is learned twice.
func TestNothingIsLearnedTwice(t *testing.T) {
	x := newTarget(nil).hits(1000, 1)
	x.at-- // the time of the last request
	was, entries := x.decide(), len(x.l.memory.entries)
	x.at -= 3600
	testkit.Equal(t, "want after an hour back", x.decide().Want, was.Want)
	x.c.Totals = Totals{}
	x.learn()
	testkit.Equal(t, "requests after a loss of the counts", len(x.l.memory.entries), entries)
}

// With a wanted hit rate, no more tokens are wanted than it needs, however cheap they are.
func TestNoMoreIsWantedThanTheHitRateNeeds(t *testing.T) {
	wants := map[float64]int{}
	for _, rate := range []float64{0.5, 0.9, 0.99} {
		x := newTarget(func(p *Params) { p.MissCost, p.HitRate, p.Depth = 1000, rate, 500 }).hits(500, 1)
		d := x.decide()
		if wants[rate] = d.Want; d.Want < 2 || d.Risk > 1-rate {
			t.Errorf("hit_rate %g: %+v, want two tokens or more, and a risk of at most %g", rate, d, 1-rate)
		}
	}
	if wants[0.5] >= wants[0.9] || wants[0.9] >= wants[0.99] {
		t.Errorf("a higher hit_rate does not want more tokens: %v", wants)
	}
}

func drawParams(t *rapid.T) Params {
	p := Params{
		Adaptive:  rapid.Bool().Draw(t, "adaptive"),
		Depth:     rapid.IntRange(0, 300).Draw(t, "depth"),
		HitRate:   rapid.Float64Range(0.5, 0.9999).Draw(t, "hit rate"),
		MissCost:  rapid.Float64Range(0.1, 1000).Draw(t, "miss cost"),
		IdleAfter: rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Hour}).Draw(t, "idle after"),
		Usable:    time.Duration(rapid.Int64Range(int64(time.Second), int64(24*time.Hour)).Draw(t, "usable")),
		FirstPoll: time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "first")),
	}
	if p.Adaptive {
		p.Min = rapid.IntRange(0, p.Depth).Draw(t, "min")
	}
	if n := rapid.SampledFrom([]int{0, 0, 0, 25}).Draw(t, "warm"); n > 0 {
		p.Warm = []Warm{{n, func(at time.Time) (time.Time, time.Time) { return at, at.Add(time.Hour) }}}
	}
	return p
}

// After any sequence of events, a decision keeps the limits and has orders for pending callers.
func TestDecisionsKeepTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &target{p: drawParams(t)}
		x.l = NewLearned(x.p)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			x.at += rapid.SampledFrom([]float64{-50, 0, 0.001, 0.3, 1, 7, 60, 900, 1e5}).Draw(t, "pause")
			n, f := int64(rapid.IntRange(0, 40).Draw(t, "n")), &x.c.Totals
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0, 1:
				f.Requests, f.Hits = f.Requests+n, f.Hits+n/2
			case 2:
				f.Solved += n
				x.c.Leads = repeat(48, time.Duration(n*n)*time.Second)
			case 3:
				f.Failed += n
			case 4:
				f.Expired += n
			case 5:
				x.l.Ordered(x.p, int(n), int(n/2), after(x.at))
			}
			x.learn()
			x.c.Fresh = rapid.IntRange(0, 300).Draw(t, "fresh")
			x.c.Outliving = rapid.IntRange(0, x.c.Fresh).Draw(t, "outliving")
			x.c.Orders = rapid.IntRange(0, 60).Draw(t, "orders")
			x.c.Waiting = rapid.IntRange(0, 20).Draw(t, "waiting")
			x.c.NextAgeing = time.Duration(rapid.Int64Range(-1, int64(time.Minute)).Draw(t, "look"))
			x.check(t)
		}
	})
}

func (x *target) check(t rapid.TB) {
	t.Helper()
	d, c := x.decide(), &x.c
	most := max(x.p.Depth, d.Warm)
	held := c.Fresh + c.Orders - c.Waiting
	if !x.p.Adaptive {
		held += c.Outliving - c.Fresh
	}
	least := max(x.p.Min, d.Warm)
	for rule, broken := range map[string]bool{
		"min, the window and the depth are limits":        d.Want < least || d.Want > most,
		"an order and the next decision are not negative": d.Order < 0 || d.Next < 0,
		"a risk is a probability":                         !(d.Risk >= 0 && d.Risk <= 1+1e-9),
		"a forecast is a number":                          math.IsNaN(d.Forecast),
		"orders do not exceed the depth":                  d.Order > 0 && held+d.Order > most,
		"orders fill min and the window":                  c.Outliving == c.Fresh && held < least && d.Order == 0,
		"an unserved caller gets an order":                c.Fresh == 0 && c.Waiting > c.Orders && most > 0 && d.Order == 0,
	} {
		if broken {
			t.Errorf("%s: %+v\n%+v: %+v", rule, x.p, c, d)
		}
	}
}

// For any demand and provider, the permits limit the orders in flight, the credit limits the number of expired tokens,
// and the run ends.
func TestWasteIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		p.Adaptive, p.Min, p.Warm = true, 0, nil
		p.Usable = time.Duration(rapid.IntRange(1, 300).Draw(t, "life")) * time.Second
		p.FirstPoll = time.Duration(rapid.IntRange(1, 60).Draw(t, "guess")) * time.Second
		median := time.Duration(rapid.IntRange(1, 100).Draw(t, "median")) * time.Second
		var arrivals []float64
		at := 0.0
		for range rapid.IntRange(1, 15).Draw(t, "bursts") {
			at += min((p.Usable + 6*median).Seconds(), rapid.SampledFrom([]float64{1, 20, 90, 400}).Draw(t, "gap"))
			for range rapid.IntRange(1, 40).Draw(t, "burst") {
				arrivals = append(arrivals, at)
				at += 0.2
			}
		}
		solves := Solves{Median: median, Sigma: 0.5, Fail: rapid.Float64Range(0, 1).Draw(t, "fail")}
		permits := rapid.IntRange(1, 64).Draw(t, "permits")
		r, err := Simulation{Params: p, Solves: solves, Concurrency: permits, Arrivals: arrivals}.Run(t.Context())
		testkit.NoError(t, err)
		if r.PeakInFlight > permits {
			t.Fatalf("%d orders were in flight, with %d permits", r.PeakInFlight, permits)
		}
		// At most heldTimes as many tokens are held as the credit affords, and that is one more for a recent hit.
		earned := startCredit(&p) + (p.MissCost+1)*float64(r.Hits) + calibrated.missEarns*p.MissCost*float64(r.Misses)
		if bound := math.Ceil(float64(calibrated.heldTimes) * earned); float64(r.Expired) > bound || r.PeakHeld > p.Depth {
			t.Fatalf("%d of %d expired for %d hits and %d misses, more than %g: %+v", r.Expired, r.Bought, r.Hits, r.Misses,
				bound, r)
		}
	})
}
