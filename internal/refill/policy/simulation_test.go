//go:build !race

package policy

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"
)

// trace reads one of the demand traces. Each trace covers a day.
func trace(t testing.TB, name string) []float64 {
	t.Helper()
	file, err := os.Open("testdata/traces/" + name + ".txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	arrivals, err := ReadTrace(text)
	if err != nil {
		t.Fatal(err)
	}
	return arrivals
}

// long begins a simulation of several virtual days.
func long(t *testing.T) {
	t.Helper()
	t.Parallel() // time is virtual, so a busy machine changes nothing
}

func simulated(t testing.TB, s Simulation) Result {
	t.Helper()
	if s.Concurrency == 0 {
		s.Concurrency, s.Solves = 64, DefaultSolves()
	}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.StaleServed != 0 {
		t.Errorf("%d tokens were handed out stale", r.StaleServed)
	}
	if r.Requests != r.Hits+r.Waited+r.Misses || r.Served != r.Hits+r.Waited {
		t.Errorf("requests do not add up: %+v", r)
	}
	if s.Params.Adaptive && r.PeakHeld > s.Params.Depth {
		t.Errorf("%d tokens and orders were held with depth %d", r.PeakHeld, s.Params.Depth)
	}
	return r
}

// reference contains, for a max_waste of 3 and of 10, the hit rate and the waste per request of the
// reference implementation.
var reference = []struct {
	trace string
	at    map[float64][2]float64
}{
	{"steady-mid", map[float64][2]float64{3: {0.9992, 0.022}, 10: {0.9992, 0.022}}},
	{"diurnal", map[float64][2]float64{3: {0.9909, 0.049}, 10: {0.9956, 0.068}}},
	{"office", map[float64][2]float64{3: {0.9953, 0.063}, 10: {0.9975, 0.070}}},
	{"onoff", map[float64][2]float64{3: {0.9408, 0.280}, 10: {0.9477, 0.378}}},
	{"cron10", map[float64][2]float64{3: {0.9834, 0.609}, 10: {0.9907, 0.707}}},
	{"sessions", map[float64][2]float64{3: {0.7708, 0.687}, 10: {0.8737, 1.057}}},
}

// ratio returns waste + price x misses per request over all traces, relative to the reference.
func ratio(t testing.TB, price float64, seeds int) float64 {
	ours, theirs := 0.0, 0.0
	for _, c := range reference {
		hits, waste := 0.0, 0.0
		k := usual()
		k.MaxWaste = price
		for seed := range seeds {
			r := simulated(t, Simulation{Params: k, Arrivals: trace(t, c.trace), Seed: uint64(seed)})
			hits += r.HitRate / float64(seeds)
			waste += r.WastePerRequest / float64(seeds)
		}
		ref := c.at[price]
		t.Logf("max_waste %g, %-10s: hits %.2f %%, waste %.3f; reference %.2f %%, %.3f", price, c.trace, 100*hits, waste, 100*ref[0], ref[1])
		ours += waste + price*(1-hits)
		theirs += ref[1] + price*(1-ref[0])
	}
	return ours / theirs
}

// The policy is better than the reference on the traces of six days. BenchmarkTraces makes the same
// comparison with more draws of the lead times.
func TestTraces(t *testing.T) {
	long(t)
	for price, most := range map[float64]float64{3: 0.86, 10: 0.93} {
		t.Run(fmt.Sprintf("max_waste %g", price), func(t *testing.T) {
			t.Parallel()
			if got := ratio(t, price, 1); got > most {
				t.Errorf("waste and misses are %.3f times the reference's", got)
			}
		})
	}
}

// The full comparison: go test -run none -bench Traces -benchtime 1x -v
func BenchmarkTraces(b *testing.B) {
	for _, price := range []float64{3, 10} {
		b.Run(fmt.Sprintf("max_waste=%g", price), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(ratio(b, price, 16), "of-reference")
			}
		})
	}
}

// If lead times, token lives and demand are all ten times as fast, the policy is as good as before,
// because its constants are scaled.
func TestQuickProvider(t *testing.T) {
	const quick = 0.1
	for _, name := range []string{"cron10", "onoff"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrivals := trace(t, name)
			as := simulated(t, Simulation{Params: usual(), Arrivals: arrivals})
			short := make([]float64, len(arrivals))
			for i, a := range arrivals {
				short[i] = a * quick
			}
			k := usual()
			k.Usable = 8 * time.Second
			p := Solves{Median: 1800 * time.Millisecond, Sigma: 0.45, Least: 600 * time.Millisecond, Most: 12 * time.Second, Fail: 0.07}
			r := simulated(t, Simulation{Params: k, Solves: p, Concurrency: 64, Arrivals: short})
			t.Logf("hits %.4f and %.4f, waste %.3f and %.3f", as.HitRate, r.HitRate, as.WastePerRequest, r.WastePerRequest)
			if math.Abs(as.HitRate-r.HitRate) > 0.015 || math.Abs(as.WastePerRequest-r.WastePerRequest) > 0.06 {
				t.Errorf("%+v\nwant about\n%+v", r, as)
			}
		})
	}
}

// Waiting requests get the next tokens in the order of their arrival. A request stops waiting after
// the time Wait.
func TestSimulationWaits(t *testing.T) {
	p := Solves{Median: 10 * time.Second, Least: 10 * time.Second, Most: 10 * time.Second}
	k := Params{Depth: 1, Usable: 80 * time.Second, FirstPoll: 10 * time.Second}
	s := Simulation{Params: k, Solves: p, Concurrency: 1, Wait: 15 * time.Second, Arrivals: []float64{0, 1, 2}}
	r := simulated(t, s)
	// With one slot, tokens land at 10 and 20. The third caller has left before second 30.
	if r.Waited != 1 || r.Misses != 2 || r.Hits != 0 || r.WaitP50 != 10 {
		t.Errorf("%+v", r)
	}
	s.Concurrency = 3
	if r = simulated(t, s); r.Waited != 3 || r.WaitP50 != 9 {
		t.Errorf("with three slots: %+v", r)
	}
}

// A simulation of a fixed depth uses the same State as the daemon, and follows the rule of
// docs/configuration.md.
func TestSimulationOfFixed(t *testing.T) {
	k := usual()
	k.Adaptive, k.Depth = false, 15
	r := simulated(t, Simulation{Params: k, Arrivals: trace(t, "steady-mid")})
	if r.HitRate < 0.999 || r.WastePerRequest > 0.1 {
		t.Errorf("%+v", r)
	}
	k.IdleAfter = 2 * time.Minute
	on := trace(t, "onoff")
	always, idle := simulated(t, Simulation{Params: usualFixed(15), Arrivals: on}), simulated(t, Simulation{Params: k, Arrivals: on})
	if idle.Bought > always.Bought/2 {
		t.Errorf("with idle_after %d were bought, without it %d", idle.Bought, always.Bought)
	}
}

func usualFixed(depth int) Params {
	k := usual()
	k.Adaptive, k.Depth = false, depth
	return k
}

func TestSimulationEnds(t *testing.T) {
	if r, err := (Simulation{}).Run(t.Context()); err != nil || r != (Result{}) {
		t.Errorf("without demand: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := Simulation{Params: usual(), Solves: DefaultSolves(), Concurrency: 64, Arrivals: trace(t, "sessions")}
	s.Progress = func(float64) { cancel() }
	if _, err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestParseLead(t *testing.T) {
	var p Solves
	if err := p.ParseLead("lognormal:18s,0.45,6s,2m"); err != nil || p.Median != 18*time.Second || p.Sigma != 0.45 ||
		p.Least != 6*time.Second || p.Most != 2*time.Minute {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "lognormal:", "normal:18s,0.45,6s,2m", "lognormal:18,0.45,6s,2m", "lognormal:18s,-1,6s,2m",
		"lognormal:18s,0.45,20s,2m", "lognormal:18s,0.45,6s,10s", "lognormal:18s,0.45,0s,2m", "lognormal:18s,NaN,6s,2m", "lognormal:1s,1,1s,1s,1s"} {
		if err := p.ParseLead(bad); !errors.Is(err, ErrLead) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A simulated day with one request per second should take two seconds.
func BenchmarkSimulatedDay(b *testing.B) {
	arrivals, err := Demand("poisson:1", daySeconds, 1)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		simulated(b, Simulation{Params: usual(), Arrivals: arrivals})
	}
}
