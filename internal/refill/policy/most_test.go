//go:build !race

package policy

import (
	"math"
	"testing"
	"time"
)

func TestCeiling(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		Ceiling
		want float64
	}{
		"threads":      {Ceiling{Depth: 5000, Waiting: 10010, Threads: 20, Lead: 5 * s, Usable: 250 * s}, 14400},
		"depth":        {Ceiling{Depth: 1, Waiting: 12, Threads: 100, Lead: 13 * s, Usable: 80 * s}, 3600},
		"rate":         {Ceiling{Depth: 5, Waiting: 20, Threads: 100, Lead: 1 * s, Usable: 90 * s, Rate: 1}, 3800},
		"rate is idle": {Ceiling{Depth: 5, Waiting: 20, Threads: 20, Lead: 1 * s, Usable: 90 * s, Rate: 20}, 72000},
		"no lead":      {Ceiling{Depth: 5, Waiting: 20, Threads: 20, Usable: 90 * s}, 0},
	} {
		if got := c.PerHour(); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := ThreadsToKeep(5000, 10*s, 250*s); got != 200 {
		t.Errorf("threads: %v", got)
	}
	if got := ThreadsToKeep(5, 10*s, 0); got != 0 {
		t.Errorf("without a life: %v", got)
	}
}
