//go:build !race

package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

// steady draws a demand with one request per 100 s on average.
func steady(t *testing.T, length time.Duration, seed uint64) []float64 {
	t.Helper()
	arrivals, err := Demand("poisson:0.01", length.Seconds(), seed)
	if err != nil {
		t.Fatal(err)
	}
	return arrivals
}

// atPrice returns a simulation of the arrivals with this price as max_waste.
func atPrice(t *testing.T, price, wanted float64, arrivals []float64) Simulation {
	t.Helper()
	k := usual()
	k.HitRate, k.MaxWaste = wanted, price
	return Simulation{Params: k, Solves: DefaultSolves(), Concurrency: 64, Arrivals: arrivals, Seed: 1}
}

func needed(t *testing.T, s Simulation) *Need {
	t.Helper()
	need, err := s.Need(t.Context(), simulated(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return need
}

// The max_waste of a Need reaches the wanted hit rate, also on other days with the same demand.
func TestNeedIsEnough(t *testing.T) {
	long(t)
	const wanted = 0.99
	s := atPrice(t, 3, wanted, steady(t, day, 2))
	need := needed(t, s)
	if need == nil || need.MaxWaste == nil || need.HitRateNow < 0.75 || need.HitRateNow > 0.85 {
		t.Fatalf("%+v", need)
	}
	t.Log(need.Text)
	if r := simulated(t, atPrice(t, *need.MaxWaste, wanted, s.Arrivals)); r.HitRate < wanted || r.HitRate > wanted+0.005 {
		t.Errorf("followed, %.2f %% hits", 100*r.HitRate)
	}
	if r := simulated(t, atPrice(t, *need.MaxWaste, wanted, steady(t, 3*day, 10))); math.Abs(r.HitRate-wanted) > 0.005 {
		t.Errorf("on other days %.2f %% hits", 100*r.HitRate)
	}
}

// At each price, a shadow and the simulator have similar hit rates.
func TestShadowPrices(t *testing.T) {
	long(t)
	const wanted = 0.96
	k := usual()
	k.HitRate = wanted
	arrivals := steady(t, day, 1)
	m := NewTracker(k, nil)
	m.looked = epoch
	m.shadow = newShadow(m, 64, epoch, NewState)
	// A second replay simulates the real purchases. The counts of the stock come from this replay.
	state := m.state.follower(k)
	real := newReplay(state, 64, 0)
	random, solves := rand.New(rand.NewPCG(3, 4)), DefaultSolves()
	var leads []time.Duration // newest first
	real.solve = func(*replay) (lead float64, fails bool) {
		if lead, fails = solves.Draw(random); !fails {
			leads = slices.Insert(leads, 0, inSeconds(lead))
		}
		return lead, fails
	}
	real.windows = new(calendar)
	for at, next := 0.0, 0; at < day.Seconds(); {
		at += 10 // about as often as the daemon looks while nothing happens
		asks := next < len(arrivals) && arrivals[next] <= at
		if asks {
			at = arrivals[next]
			next++
		}
		real.pass(at)
		if asks {
			real.request(at, false)
		}
		r := &real.result
		m.Learn(after(at), &Stock{Leads: slices.Clone(leads[:min(len(leads), leadsKept)]), Figures: Figures{Requests: int64(r.Requests), Hits: int64(r.Hits),
			Misses: int64(r.Misses), Solved: int64(r.Bought), Failed: int64(r.Failed), Expired: int64(r.Expired)}}, 64)
	}
	told := m.Shadow()
	if told == nil || told.Need == nil || told.Need.MaxWaste == nil {
		t.Fatalf("%+v", told)
	}
	t.Log(told.Need.Text)
	simulates := func(price float64) float64 {
		s := atPrice(t, price, wanted, arrivals)
		one := simulated(t, s).HitRate
		s.Seed++
		return (one + simulated(t, s).HitRate) / 2
	}
	const chance = 0.025
	for i, r := range m.shadow.runs[len(ladder) : len(ladder)+2] {
		got, want := m.shadow.hitRate(len(ladder)+i), simulates(r.state.params.MaxWaste)
		t.Logf("max_waste %.0f: %.4f hits, the simulator %.4f", r.state.params.MaxWaste, got, want)
		if math.Abs(got-want) > chance {
			t.Errorf("max_waste %.0f: %.4f hits, the simulator %.4f", r.state.params.MaxWaste, got, want)
		}
	}
	if rate := simulates(*told.Need.MaxWaste); math.Abs(rate-wanted) > chance {
		t.Errorf("followed, %.2f %% hits", 100*rate)
	}
}

// Need returns nil in three cases: the hit rate is reached, the depth is fixed, or there are too
// few requests. If no price reaches the rate, the Need says so.
func TestNeedOrNot(t *testing.T) {
	arrivals := steady(t, 3*time.Hour, 1)
	for text, s := range map[string]Simulation{
		"reached":      atPrice(t, 12, 0.5, arrivals),
		"fixed":        {Params: usualFixed(1), Solves: DefaultSolves(), Concurrency: 64, Arrivals: arrivals},
		"few requests": atPrice(t, 3, 0.99, arrivals[:fewRequests-1]),
	} {
		if need := needed(t, s); need != nil {
			t.Errorf("%s: %+v", text, need)
		}
	}
	// The first requests of an unexpected burst miss at any price. At depth 1, one of two
	// simultaneous requests also misses at any price.
	bursts := atPrice(t, 3, 0.97, nil)
	for n := range 8 {
		for range 10 {
			bursts.Arrivals = append(bursts.Arrivals, float64(n*n)*700)
		}
	}
	shallow := atPrice(t, 3, 0.97, arrivals)
	shallow.Params.Depth = 1
	for _, s := range []Simulation{bursts, shallow, atPrice(t, 1000, 0.9999, arrivals)} {
		need := needed(t, s)
		if need == nil || need.MaxWaste != nil || !strings.Contains(need.Text, " % is not reached by any max_waste up to 1000 here (now ") {
			t.Errorf("%+v", need)
		}
	}
}

// A shadow has a Need only below the wanted hit rate. The price of the Need is interpolated between
// two tried prices.
func TestShadowNeed(t *testing.T) {
	k := usual()
	k.HitRate = 0.99
	m := NewTracker(k, nil)
	m.looked = epoch
	m.shadow = newShadow(m, 64, epoch, NewState)
	m.shadow.warmedUp = true
	rungs := func(hits ...int) {
		for i, n := range hits {
			m.shadow.newer.runs[len(ladder)+i] = tally{requests: 10000, hits: n}
		}
	}
	tell := func(hits int64) string {
		m.shadow.newer.real = Figures{Requests: 10000, Hits: hits, Misses: 10000 - hits, Solved: 9000}
		told := m.Shadow()
		if told == nil {
			t.Fatal("nothing is told")
		}
		if told.Need == nil {
			return ""
		}
		return told.Need.Text
	}
	rungs(9000, 9800, 9950, 10000) // hit rates at the prices 13, 55, 234 and 1000
	for hits, want := range map[int64]string{
		9900: "", 9901: "",
		9899: "99 % needs max_waste of about 120 here (now 3): 98.9 %", // halfway between two prices on a logarithmic scale, because the misses are halved twice
		8000: "99 % needs max_waste of about 120 here (now 3): 80.0 %",
	} {
		if got := tell(hits); got != want {
			t.Errorf("%d hits: %q, want %q", hits, got, want)
		}
	}
	rungs(9950, 9800, 9950, 10000)
	if got, want := tell(9800), "99 % needs max_waste of about 6.3 here (now 3): 98.0 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	rungs(8100, 8200, 8150, 8200)
	if got, want := tell(8000), "99 % is not reached by any max_waste up to 1000 here (now 3): 80.0 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	m.shadow.target.MaxWaste, m.shadow.runs = 1000, m.shadow.runs[:len(ladder)]
	if got, want := tell(8000), "99 % is not reached by any max_waste up to 1000 here (now 1000): 80.0 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A follower does not change the State that it follows.
func TestFollowerTeachesNothing(t *testing.T) {
	m := NewState(usual())
	at := 0.0
	for _, at = range steady(t, 6*time.Hour, 1) {
		m.Request(after(at), true)
	}
	at += 30
	plan := m.Plan(after(at), 0)
	before := save(t, m)
	k := usual()
	k.HitRate, k.MaxWaste = 0.9999, 1000
	f := m.follower(k)
	f.Request(after(at), false)
	f.Placed(after(at))
	f.Landed(after(at), time.Second)
	f.Failed(after(at))
	f.Expired(after(at), 7)
	if dear := f.Plan(after(at), 0); dear.Want <= plan.Want {
		t.Errorf("follower wants %d, it %d", dear.Want, plan.Want)
	}
	if string(save(t, m)) != string(before) || m.Plan(after(at), 0) != plan {
		t.Error("it has learned something")
	}
}
