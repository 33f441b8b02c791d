//go:build !race

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// Every model draws about as many requests as the number after its name requires. The times are
// ascending and within the length.
func TestDemand(t *testing.T) {
	for model, want := range map[string][2]int{
		"poisson:0.2":  {16500, 18100},
		"diurnal:0.2":  {16500, 18100},
		"office:0.2":   {5300, 6300},
		"onoff:0.2":    {2300, 4700},
		"sessions:0.2": {9000, 26000},
		"flash:0.2":    {3000, 9000},
		"cron:600":     {4000, 4600},
		"cron:10m":     {4000, 4600},
		"timer:300s":   {287, 287},
		"timer:300":    {287, 287},
		"timer:2s":     {43199, 43199},
		"clusters:20":  {20, 240},
		"mixed:0.2":    {12500, 18000},
	} {
		t.Run(model, func(t *testing.T) {
			got, err := Demand(model, daySeconds, 3)
			testkit.NoError(t, err)
			if len(got) < want[0] || len(got) > want[1] {
				t.Errorf("%d requests, want %v", len(got), want)
			}
			if !slices.IsSorted(got) || got[0] < 0 || got[len(got)-1] >= daySeconds {
				t.Error("not ascending within the day")
			}
			again, _ := Demand(model, daySeconds, 3)
			testkit.Equal(t, "the same seed draws the same demand", slices.Equal(again, got), true)
			name, _, _ := strings.Cut(model, ":")
			testkit.Equal(t, "the help lists it", strings.Contains(DemandHelp, name+":"), true)
		})
	}
}

// The models of a day have few requests at night.
func TestFewRequestsAtNight(t *testing.T) {
	for model, until := range map[string]float64{"diurnal:0.2": 2 * 3600, "office:0.2": 9.25 * 3600} {
		got, err := Demand(model, daySeconds, 3)
		testkit.NoError(t, err)
		n, _ := slices.BinarySearch(got, until)
		testkit.AtMost(t, model+": requests", n, 70)
	}
}

// A timer is late by some seconds, but never by more than a quarter of its period. The requests of
// a cluster come within a short time.
func TestTimersAndClusters(t *testing.T) {
	for period, late := range map[float64]float64{300: 8, 10: 2.5} {
		got, err := Demand(fmt.Sprintf("timer:%gs", period), daySeconds, 1)
		testkit.NoError(t, err)
		latest := 0.0
		for i, at := range got {
			latest = max(latest, at-float64(i+1)*period)
			if at < float64(i+1)*period {
				t.Fatalf("request %d of the timer of %g s at %.2f", i, period, at)
			}
		}
		if latest > late || latest < 0.9*late {
			t.Errorf("a timer of %g s is up to %.2f s late", period, latest)
		}
	}
	got, err := Demand("clusters:20", 30*daySeconds, 1)
	if err != nil || len(got) < 20*100 || len(got) > 20*200 {
		t.Fatalf("%d requests in a month, %v", len(got), err)
	}
	for i := 0; i+19 < len(got); i += 20 {
		if got[i+19]-got[i] > 0.5 {
			t.Fatalf("a cluster takes %.2f s", got[i+19]-got[i])
		}
	}
}

// A demand of an unknown form or of an odd size is an error, and no empty demand.
func TestBadDemand(t *testing.T) {
	for _, model := range []string{"", "poisson", "poisson:", "poisson:0", "poisson:-1", "poisson:NaN", "poisson:1001",
		"cron:1e9", "cron:25h", "cron:0.1", "cron:1e-9", "timer", "timer:", "timer:0", "timer:-5s", "timer:25h", "timer:5x",
		"timer:NaN", "timer:1ns", "clusters:0", "clusters:1001", "clusters:5s", "weekly:1", "poisson:1:2"} {
		_, err := Demand(model, daySeconds, 1)
		testkit.ErrorIs(t, model, err, ErrDemand)
	}
	for _, length := range []float64{0, -1, 1e9} {
		_, err := Demand("poisson:1", length, 1)
		testkit.ErrorIs(t, fmt.Sprintf("length %g", length), err, ErrDemand)
	}
	_, err := Demand("poisson:1000", longestDay, 1)
	testkit.ErrorIs(t, "too many", err, ErrDemand)
}

// A trace is a list of ascending times with comments; an error names the line.
func TestReadTrace(t *testing.T) {
	got, err := ReadTrace(strings.NewReader("# comment\n0.5\n\n1.25 # one\n1.25\r\n7\n"))
	if err != nil || !slices.Equal(got, []float64{0.5, 1.25, 1.25, 7}) {
		t.Errorf("%v, %v", got, err)
	}
	for bad, says := range map[string]string{
		"1\nx\n": "line 2", "2\n1\n": "line 2 is before", "-1\n": "line 1", "NaN\n": "line 1", "1 2\n": "line 1",
		strings.Repeat("1", 70_000): "reading",
	} {
		if _, err := ReadTrace(strings.NewReader(bad)); !errors.Is(err, ErrDemand) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
}
