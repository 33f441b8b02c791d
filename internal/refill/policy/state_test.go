//go:build !race

package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

// after returns the time that is this number of seconds after epoch.
func after(seconds float64) time.Time { return epoch.Add(inSeconds(seconds)) }

// requests adds n requests, one every gap seconds, and returns the time after the last
// request.
func requests(m *State, from float64, n int, gap float64) float64 {
	for range n {
		m.Request(after(from), true)
		from += gap
	}
	return from
}

// Without demand no token is wanted. For a steady demand the policy wants more tokens than one lead
// time needs. After the demand has ended, no token is wanted.
func TestPlanFollowsTheDemand(t *testing.T) {
	m := NewState(usual())
	if w := m.Plan(after(0), 0); w.Want != 0 || w.Limit != LimitNone || w.Look != Never {
		t.Errorf("at first: %+v", w)
	}
	end := requests(m, 0, 2000, 1)
	w := m.Plan(after(end), 0)
	if w.Want < 25 || w.Want > 60 || w.Forecast < 16 || w.Forecast > 24 || w.Risk > 0.03 {
		t.Errorf("at one a second: %+v", w)
	}
	if w := m.Plan(after(end+900), 0); w.Want != 0 {
		t.Errorf("a quarter of an hour later: %+v", w)
	}
}

// After hours of single requests, the policy does not expect that a request begins a burst. After
// hours of bursts, the policy expects this.
func TestTableLearnsWhatHappensNext(t *testing.T) {
	lone, bursts := NewState(usual()), NewState(usual())
	at := 0.0
	for range 60 {
		requests(lone, at, 1, 0)
		requests(bursts, at, 30, 1)
		at += 1000
	}
	lone.Request(after(at), true)
	bursts.Request(after(at), true)
	if w := lone.Plan(after(at), 0); w.Want > 1 {
		t.Errorf("a lone request: %+v", w)
	}
	if w := bursts.Plan(after(at), 0); w.Want < 10 {
		t.Errorf("a burst: %+v", w)
	}
}

func TestLimits(t *testing.T) {
	busy := func(change func(*Params)) (*State, float64) {
		k := usual()
		change(&k)
		m := NewState(k)
		return m, requests(m, 0, 1000, 0.5)
	}
	cases := map[string]struct {
		change func(*Params)
		then   func(m *State, at float64)
		after  float64 // seconds since epoch
		warm   int
		want   int
		limit  string
	}{
		"depth":                    {change: func(k *Params) { k.Depth = 7 }, want: 7, limit: LimitDepth},
		"depth 0":                  {change: func(k *Params) { k.Depth = 0 }, want: 0, limit: LimitNone},
		"credit":                   {then: func(m *State, at float64) { m.Expired(after(at), 500) }, want: 0, limit: LimitCredit},
		"credit, min":              {change: func(k *Params) { k.Min = 3 }, then: func(m *State, at float64) { m.Expired(after(at), 500+3) }, want: 3, limit: LimitCredit},
		"credit, warm":             {then: func(m *State, at float64) { m.Expired(after(at), 500) }, warm: 9, want: 9, limit: LimitCredit},
		"min alone":                {change: func(k *Params) { k.Min = 3 }, after: 4000, want: 3, limit: LimitNone},
		"warm beats depth":         {change: func(k *Params) { k.Depth = 7 }, after: 4000, warm: 12, want: 12, limit: LimitNone},
		"idle":                     {change: func(k *Params) { k.IdleAfter = time.Second }, after: 2, want: 0, limit: LimitIdle},
		"idle_after is not over":   {change: func(k *Params) { k.Depth, k.IdleAfter = 7, time.Minute }, want: 7, limit: LimitDepth},
		"fixed":                    {change: func(k *Params) { k.Adaptive = false }, want: 200, limit: LimitNone},
		"fixed knows no credit":    {change: func(k *Params) { k.Adaptive = false }, then: func(m *State, at float64) { m.Expired(after(at), 999) }, want: 200},
		"fixed, idle":              {change: func(k *Params) { k.Adaptive, k.IdleAfter = false, time.Minute }, after: 61, want: 0, limit: LimitIdle},
		"fixed, in a warm window":  {change: func(k *Params) { k.Adaptive, k.Depth = false, 5 }, warm: 9, want: 9},
		"fixed, a smaller window":  {change: func(k *Params) { k.Adaptive = false }, warm: 9, want: 200},
		"fixed, idle and a window": {change: func(k *Params) { k.Adaptive, k.IdleAfter = false, time.Minute }, after: 61, warm: 9, want: 9, limit: LimitIdle},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.change == nil {
				c.change = func(*Params) {}
			}
			m, at := busy(c.change)
			if c.then != nil {
				c.then(m, at)
			}
			if w := m.Plan(after(at+c.after), c.warm); w.Want != c.want || w.Limit != c.limit {
				t.Errorf("%+v, want %d, limit %q", w, c.want, c.limit)
			}
		})
	}
}

// After eight failures in a row, orders become probes, one per 5 s, until a success.
func TestOutage(t *testing.T) {
	m := NewState(usual())
	at := requests(m, 0, 1000, 0.5)
	for range 200 {
		m.Failed(after(at))
	}
	if m.learned.solves.fails > 0.25 {
		t.Errorf("an outage made the failure share %.2f", m.learned.solves.fails)
	}
	decide := func(at float64, s Stock) Decision { return m.Decide(after(at), m.Plan(after(at), 0), &s) }
	if d := decide(at, Stock{NextLook: -1}); d.Order != 1 || d.Limit != LimitProbe {
		t.Errorf("the first probe: %+v", d)
	}
	m.Placed(after(at))
	if d := decide(at+4, Stock{NextLook: -1}); d.Order != 0 || d.Limit != LimitProbe || d.Look > time.Second {
		t.Errorf("4 s later: %+v", d)
	}
	if d := decide(at+5, Stock{NextLook: -1}); d.Order != 1 {
		t.Errorf("5 s later: %+v", d)
	}
	m.Landed(after(at+20), 20*time.Second)
	if d := decide(at+20, Stock{NextLook: -1}); d.Order < d.Want || d.Limit == LimitProbe {
		t.Errorf("after a success: %+v", d)
	}
}

func TestDecideWhilePaused(t *testing.T) {
	for _, adaptive := range []bool{true, false} {
		k := usual()
		k.Adaptive = adaptive
		m := NewState(k)
		at := requests(m, 0, 100, 1)
		d := m.Decide(after(at), m.Plan(after(at), 0), &Stock{Paused: true, Waiting: 5})
		if d.Order != 0 || d.Want != 0 || d.Limit != LimitPaused || d.Look != Never {
			t.Errorf("adaptive %v: %+v", adaptive, d)
		}
	}
}

// Each pending caller causes an order immediately, regardless of the forecast and the credit.
func TestDecideForCallersWaiting(t *testing.T) {
	m := NewState(usual())
	m.Expired(after(0), 60)
	if d := m.Decide(after(0), m.Plan(after(0), 0), &Stock{Waiting: 3, NextLook: -1}); d.Order != 3 {
		t.Errorf("%+v", d)
	}
}

// After any sequence of events, a decision keeps within the limits and includes orders for pending
// callers.
func TestDecisionsKeepTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawParams(t)
		m := NewState(k)
		now := 0.0
		for range rapid.IntRange(1, 80).Draw(t, "events") {
			now += rapid.SampledFrom([]float64{-50, 0, 0.001, 0.3, 1, 7, 60, 900, 1e5}).Draw(t, "pause")
			at := after(now)
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0, 1, 2:
				requests(m, now, rapid.IntRange(1, 40).Draw(t, "n"), 0.05)
			case 3:
				m.Landed(at, time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "lead")))
			case 4:
				m.Failed(at)
			case 5:
				m.Expired(at, rapid.IntRange(0, 30).Draw(t, "expired"))
			case 6:
				m.Placed(at)
			}
			warm := rapid.SampledFrom([]int{0, 0, 0, 25}).Draw(t, "warm")
			w := m.Plan(at, warm)
			s := drawStock(t)
			checkDecision(t, m, w, m.Decide(at, w, &s), &s, warm)
		}
	})
}

func drawParams(t *rapid.T) Params {
	k := Params{
		Adaptive:  rapid.Bool().Draw(t, "adaptive"),
		Depth:     rapid.IntRange(0, 300).Draw(t, "depth"),
		HitRate:   rapid.Float64Range(0.5, 0.9999).Draw(t, "hit rate"),
		MaxWaste:  rapid.Float64Range(0.1, 1000).Draw(t, "max waste"),
		IdleAfter: rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Hour}).Draw(t, "idle after"),
		Usable:    time.Duration(rapid.Int64Range(int64(time.Second), int64(24*time.Hour)).Draw(t, "usable")),
		FirstPoll: time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "first")),
	}
	if k.Adaptive {
		k.Min = rapid.IntRange(0, k.Depth).Draw(t, "min")
	}
	return k
}

func drawStock(t *rapid.T) Stock {
	s := Stock{
		Fresh: rapid.IntRange(0, 300).Draw(t, "fresh"), Orders: rapid.IntRange(0, 60).Draw(t, "orders"),
		Waiting: rapid.IntRange(0, 20).Draw(t, "waiting"), Paused: rapid.IntRange(0, 9).Draw(t, "paused") == 0,
		NextLook: time.Duration(rapid.Int64Range(-1, int64(time.Minute)).Draw(t, "look")),
	}
	s.Outliving = rapid.IntRange(0, s.Fresh).Draw(t, "outliving")
	return s
}

func checkDecision(t *rapid.T, m *State, w Plan, d Decision, s *Stock, warm int) {
	t.Helper()
	k, most := m.params, max(m.params.Depth, warm)
	if w.Want < 0 || w.Want > most || w.Want < max(k.Min, warm) || w.Lead < 0 || w.Lead > k.Usable || !(w.Risk >= 0 && w.Risk <= 1+1e-9) ||
		math.IsNaN(w.Forecast) || w.Look < 0 {
		t.Fatalf("plan %+v", w)
	}
	if d.Order < 0 || d.Look < 0 {
		t.Fatalf("decision %+v", d)
	}
	if s.Paused {
		if d.Order != 0 {
			t.Fatalf("ordered %d while paused", d.Order)
		}
		return
	}
	held := s.Fresh
	if !k.Adaptive {
		held = s.Outliving
	}
	held += s.Orders - s.Waiting
	if d.Order > 0 && held+d.Order > most {
		t.Fatalf("%d ordered on top of %d with depth %d", d.Order, held, most)
	}
	if k.Adaptive && m.learned.last > 0 && d.Look > inSeconds(idleStep*m.learned.scale) {
		t.Fatalf("looks again in %v", d.Look)
	}
	if d.Limit == LimitProbe {
		return
	}
	// Missing tokens for `min` and for pending callers are always ordered.
	if s.Outliving == s.Fresh && held < max(k.Min, warm) && d.Order == 0 {
		t.Fatalf("min %d, warm %d, held %d: %+v", k.Min, warm, held, d)
	}
	if s.Fresh == 0 && s.Waiting > s.Orders && most > 0 && d.Order == 0 {
		t.Fatalf("%d wait for %d orders: %+v", s.Waiting, s.Orders, d)
	}
}

// If tokens cost nearly nothing, the wanted hit rate decides how many tokens are wanted.
func TestHitRateSaysHowManyAreEnough(t *testing.T) {
	wants := map[float64]int{}
	for _, rate := range []float64{0.5, 0.9, 0.99} {
		k := usual()
		k.MaxWaste, k.HitRate, k.Depth = 1e9, rate, 500
		m, at := used(k)
		m.Request(at, true)
		w := m.Plan(at, 0)
		var v expectation
		m.learned.foresee(&v, m.now, m.workspace)
		if less := v.risk(w.Want - 1); w.Want < 2 || w.Risk > 1-rate || less <= 1-rate {
			t.Errorf("hit_rate %g: %d wanted, the risk is %g, with one less %g", rate, w.Want, w.Risk, less)
		}
		wants[rate] = w.Want
	}
	if wants[0.5] >= wants[0.9] || wants[0.9] >= wants[0.99] {
		t.Errorf("%v", wants)
	}
}

// For any demand and provider, the credit limits the number of expired tokens. Requests earn the
// credit, most of it by hits. No tokens are held beyond the depth, and the run ends.
func TestWasteIsBounded(t *testing.T) {
	long(t)
	rapid.Check(t, func(t *rapid.T) {
		k := drawParams(t)
		k.Adaptive, k.Min = true, 0
		k.Usable = time.Duration(rapid.IntRange(1, 300).Draw(t, "life")) * time.Second
		// FirstPoll is the first guess of the lead time. A tiny guess would cause a decision every
		// 5 ms.
		k.FirstPoll = time.Duration(rapid.IntRange(1, 60).Draw(t, "guess")) * time.Second
		median := time.Duration(rapid.IntRange(1, 100).Draw(t, "median")) * time.Second
		// A silence longer than this causes no further expiries, because all orders have landed.
		longest := (k.Usable + 6*median).Seconds()
		var arrivals []float64
		at := 0.0
		for range rapid.IntRange(1, 30).Draw(t, "bursts") {
			at += min(longest, rapid.SampledFrom([]float64{1, 20, 90, 400}).Draw(t, "gap"))
			for range rapid.IntRange(1, 40).Draw(t, "burst") {
				arrivals = append(arrivals, at)
				at += 0.2
			}
		}
		p := Solves{Median: median, Sigma: 0.5, Least: median / 4, Most: 5 * median, Fail: rapid.Float64Range(0, 1).Draw(t, "fail")}
		r, err := Simulation{Params: k, Solves: p, Concurrency: rapid.IntRange(1, 64).Draw(t, "slots"), Arrivals: arrivals}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := max(creditLeast, creditMisses*k.MaxWaste)
		if bound := start + k.MaxWaste*float64(r.Requests) + float64(k.Depth); float64(r.Expired) > bound {
			t.Fatalf("%d of %d expired for %d requests, more than %.0f", r.Expired, r.Bought, r.Requests, bound)
		}
		// The term +1 allows for held tokens: their number may exceed the credit by the number of
		// recent hits.
		bound := heldTimes * (start + (k.MaxWaste+1)*float64(r.Hits) + 0.05*k.MaxWaste*float64(r.Misses))
		if float64(r.Expired) > math.Ceil(bound) {
			t.Fatalf("%d of %d expired for %d hits and %d misses, more than %.1f", r.Expired, r.Bought, r.Hits, r.Misses, bound)
		}
		if r.PeakHeld > k.Depth || r.StaleServed > 0 {
			t.Fatalf("%+v", r)
		}
	})
}

// Tokens of `min` are kept without demand. For four fifths of the lead times, the replacement of a
// token lands before the token expires.
func TestMinIsKept(t *testing.T) {
	k := usual()
	k.Min, k.MaxWaste = 3, 1
	p := Solves{Median: 20 * time.Second, Sigma: 0.3, Least: 10 * time.Second, Most: 40 * time.Second}
	arrivals := []float64{0}
	at := 0.0
	for i := range 30 { // without a period
		at += 300 + float64(i*i*97%900)
		arrivals = append(arrivals, at, at+0.1, at+0.2)
	}
	r := simulated(t, Simulation{Params: k, Solves: p, Concurrency: 64, Arrivals: arrivals})
	k.Min = 0
	without := simulated(t, Simulation{Params: k, Solves: p, Concurrency: 64, Arrivals: arrivals})
	if r.HitRate < 0.85 || without.HitRate > 0.5 {
		t.Errorf("with min %+v\nwithout %+v", r, without)
	}
}

// A tracker fits in 64 KB after any number of situations.
func TestTrackerIsSmall(t *testing.T) {
	m := NewState(usual())
	for i := range situations {
		m.learned.table.cell(i).After[0].add(0)
	}
	if m.learned.table.known != mostCells {
		t.Errorf("%d cells", m.learned.table.known)
	}
	size := unsafe.Sizeof(Tracker{}) + unsafe.Sizeof(*m) + unsafe.Sizeof(*m.learned.table) + unsafe.Sizeof(*m.workspace) + mostCells*unsafe.Sizeof(cell{})
	size += unsafe.Sizeof(*m.learned)
	t.Logf("%d bytes", size)
	if size > 64<<10 {
		t.Errorf("%d bytes", size)
	}
	if len(save(t, m)) > savedMost {
		t.Error("too long to be saved")
	}
}

// BenchmarkPlan measures the time of a decision, which should be at most 20 µs.
func BenchmarkPlan(b *testing.B) {
	for _, c := range []struct {
		rate  float64
		depth int
	}{{0.2, 200}, {2, 200}, {10, 1000}, {100, 10000}} {
		b.Run(fmt.Sprintf("rate=%g", c.rate), func(b *testing.B) {
			k := usual()
			k.Depth = c.depth
			m := NewState(k)
			at := requests(m, 0, 5000, 1/c.rate)
			s := Stock{Fresh: c.depth / 4, Outliving: c.depth / 8, Orders: 3, NextLook: -1}
			b.ReportAllocs()
			for b.Loop() {
				m.planned = 0
				m.Decide(after(at), m.Plan(after(at), 0), &s)
			}
		})
	}
}

// Expiries that `min` alone causes do not reduce the credit. Further expiries do.
func TestCreditLeavesOutTheFloor(t *testing.T) {
	k := usual()
	k.Min = 4
	m := NewState(k)
	r := newReplay(m, 64, 0)
	dice, p := rand.New(rand.NewPCG(1, 2)), DefaultSolves()
	r.solve = func() (float64, bool) { return p.Draw(dice) }
	for r.step(24 * 3600) {
		continue
	}
	if r.result.Expired < 4000 || m.credit.left < m.credit.start()-5 {
		t.Errorf("after a day of min, with %d expiries: credit %.1f of %.1f", r.result.Expired, m.credit.left, m.credit.start())
	}
	m.Expired(after(24*3600), 40)
	if m.credit.left > m.credit.start()-30 {
		t.Errorf("after 40 more: credit %.1f", m.credit.left)
	}
}
