package policy

import (
	"reflect"
	"testing"
	"time"

	"poold/internal/refill/policy/worth"
)

// providersOf returns a simulation of 6 hours with two providers. The second one costs 1.2.
func providersOf(t *testing.T, first func(second float64) ProviderModel) ProviderSimulation {
	t.Helper()
	arrivals, err := Demand("poisson:0.2", 6*3600, 1)
	if err != nil {
		t.Fatal(err)
	}
	params := Params{Depth: 12, HitRate: 0.97, MaxWaste: 3, Usable: 80 * time.Second, FirstPoll: 15 * time.Second, PollInterval: 5 * time.Second}
	return ProviderSimulation{
		Simulation: Simulation{Params: params, Concurrency: 64, Arrivals: arrivals, Length: 6 * 3600, Seed: 1},
		Providers: []SimulatedProvider{{"first", first}, {"second", func(float64) ProviderModel {
			return ProviderModel{Price: 1.2, Accepted: 0.95, Solves: DefaultSolves()}
		}}},
		Policy: worth.Best, Fixed: -1, Reported: 0.6, Callers: 3,
	}
}

func good(float64) ProviderModel {
	return ProviderModel{Price: 1, Accepted: 0.95, Solves: DefaultSolves()}
}

func (s ProviderSimulation) mustRun(t *testing.T) ProviderResult {
	t.Helper()
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Best leaves a provider that turns bad after 2 hours and returns to it after 4 hours.
func TestBestFollowsTheProviders(t *testing.T) {
	s := providersOf(t, func(second float64) ProviderModel {
		m := good(second)
		if second >= 2*3600 && second < 4*3600 {
			m.Accepted = 0.2
		}
		return m
	})
	r := s.mustRun(t)
	var fixed [2]ProviderResult
	for i := range fixed {
		s.Fixed = i
		fixed[i] = s.mustRun(t)
		if fixed[i].Orders[1-i] != 0 || fixed[i].Explored != 0 {
			t.Errorf("a fixed choice of %d orders %v", i, fixed[i].Orders)
		}
	}
	for hour, h := range r.Hours {
		best := min(fixed[0].Hours[hour].PerToken(), fixed[1].Hours[hour].PerToken())
		if learning := hour == 0 || hour == 2 || hour == 4; !learning && h.PerToken() > 1.1*best {
			t.Errorf("hour %d costs %.3f, with the better provider %.3f", hour, h.PerToken(), best)
		}
	}
	if all := r.Orders[0] + r.Orders[1]; r.Explored == 0 || float64(r.Explored) > exploredMost*float64(all) {
		t.Errorf("%d of %d orders explored", r.Explored, all)
	}
}

// exploredMost is the greatest share of orders that may explore.
const exploredMost = 0.03

// Equal simulations have equal results, and another seed has others.
func TestProviderSimulationsRepeat(t *testing.T) {
	s := providersOf(t, good)
	one, two := s.mustRun(t), s.mustRun(t)
	if !reflect.DeepEqual(one, two) {
		t.Error("two runs differ")
	}
	if s.Seed = 2; reflect.DeepEqual(one, s.mustRun(t)) {
		t.Error("the seed changes nothing")
	}
}

// With one provider every policy orders the same.
func TestOneProviderHasNoChoice(t *testing.T) {
	s := providersOf(t, good)
	s.Providers = s.Providers[:1]
	s.Fixed = 0
	want := s.mustRun(t)
	s.Fixed = -1
	for _, p := range []worth.Policy{worth.Ordered, worth.Cheapest, worth.Best} {
		s.Policy = p
		if got := s.mustRun(t); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", p, got.Result, want.Result)
		}
	}
}
