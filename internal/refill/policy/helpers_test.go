//go:build !race

package policy

import (
	"compress/gzip"
	"os"
	"testing"
	"time"

	"poold/internal/testkit"
)

func usual() Params {
	return Params{Adaptive: true, Depth: 200, HitRate: 0.97, MissCost: 3, Usable: 80 * time.Second,
		FirstPoll: 15 * time.Second, PollInterval: 5 * time.Second}
}

// trace reads one of the demand traces. Each trace covers a day.
func trace(t testing.TB, name string) []float64 {
	t.Helper()
	file, err := os.Open("testdata/traces/" + name + ".txt.gz")
	testkit.NoError(t, err)
	defer func() { _ = file.Close() }()
	text, err := gzip.NewReader(file)
	testkit.NoError(t, err)
	arrivals, err := ReadTrace(text)
	testkit.NoError(t, err)
	return arrivals
}

func drawn(t testing.TB, model string, days float64, seed uint64) []float64 {
	t.Helper()
	arrivals, err := Demand(model, days*daySeconds, seed)
	testkit.NoError(t, err)
	return arrivals
}

func simulated(t testing.TB, s Simulation) Result {
	t.Helper()
	if s.Concurrency == 0 {
		s.Concurrency, s.Solves = 64, DefaultSolves()
	}
	r, err := s.Run(t.Context())
	testkit.NoError(t, err)
	testkit.Equal(t, "requests", r.Requests, r.Hits+r.Misses)
	testkit.AtMost(t, "orders in flight", r.PeakInFlight, s.Concurrency)
	if s.Params.Adaptive && r.PeakHeld > s.Params.Depth {
		t.Errorf("%d tokens and orders were held with depth %d", r.PeakHeld, s.Params.Depth)
	}
	return r
}
