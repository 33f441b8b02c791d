//go:build !race

package policy

import (
	"compress/gzip"
	"os"
	"testing"
	"time"
)

func usual() Params {
	return Params{Adaptive: true, Depth: 200, HitRate: 0.97, MissCost: 3, Usable: 80 * time.Second,
		FirstPoll: 15 * time.Second, PollInterval: 5 * time.Second}
}

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

func drawn(t testing.TB, model string, days float64, seed uint64) []float64 {
	t.Helper()
	arrivals, err := Demand(model, days*daySeconds, seed)
	if err != nil {
		t.Fatal(err)
	}
	return arrivals
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
	if r.Requests != r.Hits+r.Waited+r.Misses || r.Served != r.Hits+r.Waited {
		t.Errorf("requests do not add up: %+v", r)
	}
	if s.Params.Adaptive && r.PeakHeld > s.Params.Depth {
		t.Errorf("%d tokens and orders were held with depth %d", r.PeakHeld, s.Params.Depth)
	}
	return r
}
