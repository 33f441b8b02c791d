package simulate

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/refill/policy"
	"poold/internal/testkit"
)

// baseOf returns the simulation and the text of the price that a command line describes.
func baseOf(t *testing.T, args ...string) (policy.Simulation, string) {
	t.Helper()
	console := consoleTo(io.Discard)
	command := &cobra.Command{Use: "simulate"}
	s := simulationFlags(command, console)
	testkit.NoError(t, command.ParseFlags(args))
	base, err := s.base(t.Context(), console, command.Flags())
	testkit.NoError(t, err)
	return base, s.text(s.price)
}

// A simulation has every setting of its target. Flags override these settings.
func TestFlagsOverrideTheTarget(t *testing.T) {
	target := []string{"--config", "testdata/pools.yaml", "--target", "login", "--demand", "poisson:0.1"}
	params := policy.Params{
		Adaptive: true, Depth: 40, Min: 2, HitRate: 0.9, MissCost: 7, IdleAfter: time.Hour, Usable: 70 * time.Second,
		FirstPoll: 7 * time.Second, PollInterval: 2 * time.Second,
	}
	usual := policy.Simulation{Params: params, Solves: policy.DefaultSolves(), Concurrency: defaultConcurrency,
		Length: modelLength.Seconds(), Seed: 1}
	for name, x := range map[string]struct {
		args   []string
		change func(s *policy.Simulation)
		price  float64
	}{
		"the target": {nil, func(*policy.Simulation) {}, 3},
		"the policy": {[]string{"--refill", "fixed", "--depth", "41", "--min", "3", "--hit-rate", "0.8", "--miss-cost", "6",
			"--idle-after", "2h"}, func(s *policy.Simulation) {
			p := &s.Params
			p.Adaptive, p.Depth, p.Min, p.HitRate, p.MissCost, p.IdleAfter = false, 41, 3, 0.8, 6, 2*time.Hour
		}, 3},
		"the tokens": {[]string{"--lifetime", "200s", "--margin", "50s", "--price", "5"},
			func(s *policy.Simulation) { s.Params.Usable = 150 * time.Second }, 5},
		"the lifetime alone": {[]string{"--lifetime", "200s"},
			func(s *policy.Simulation) { s.Params.Usable = 170 * time.Second }, 3},
		"the provider": {[]string{"--lead", "20s", "--spread", "0.1", "--fail", "0.2", "--concurrency", "9"},
			func(s *policy.Simulation) {
				s.Concurrency = 9
				s.Solves = policy.Solves{Median: 20 * time.Second, Sigma: 0.1, Fail: 0.2}
			}, 3},
		"the run": {[]string{"--length", "2h", "--seed", "4"}, func(s *policy.Simulation) {
			s.Length, s.Seed = 7200, 4
		}, 3},
	} {
		got, cost := baseOf(t, append(target, x.args...)...)
		want := usual
		x.change(&want)
		if len(got.Params.Warm) != 1 || got.Params.Warm[0].Tokens != 6 || len(got.Arrivals) < 400 {
			t.Errorf("%s: %d windows, %d arrivals", name, len(got.Params.Warm), len(got.Arrivals))
		}
		if got.Arrivals, got.Params.Warm = nil, nil; !reflect.DeepEqual(got, want) ||
			cost != fmt.Sprintf("%.2f USD", x.price) {
			t.Errorf("%s: %s, %+v\nwant %g USD, %+v", name, cost, got, x.price, want)
		}
	}
}

// Before its first solve, a simulated target expects the same lead time as the daemon does. This
// lead time comes from the poll times of the file's first provider, or from the defaults of the
// target's type.
func TestSimulateBeginsAsTheDaemon(t *testing.T) {
	const real = `url: "https://solver.example.com", key: 0123456789abcdef0123456789abcdef`
	for provider, want := range map[string][2]time.Duration{
		"":                               {15 * time.Second, 5 * time.Second},
		"protocol: simulated":            {2 * time.Second, time.Second},
		"protocol: create_task, " + real: {10 * time.Second, 3 * time.Second},
		"first_poll: 7s, poll_interval: 2s, " + real: {7 * time.Second, 2 * time.Second},
	} {
		args := []string{"--depth", "1", "--demand", "poisson:0.1", "--length", "10m"}
		if provider != "" {
			file := filepath.Join(t.TempDir(), "pools.yaml")
			text := "providers: [{name: s, " + provider + "}]\n" +
				"targets: {login: {type: recaptcha_v2, sitekey: k, pageurl: 'https://example.com/', owner: qa@example.com}}\n"
			testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			args = append(args, "--config", file, "--target", "login")
		}
		base, _ := baseOf(t, args...)
		testkit.Equal(t, provider+": first poll and interval",
			[2]time.Duration{base.Params.FirstPoll, base.Params.PollInterval}, want)
	}
}

// A comparison contains each value of miss_cost once, including the target's own value.
func TestComparisonHasEachPriceOnce(t *testing.T) {
	base, _ := baseOf(t, "--refill", "adaptive", "--depth", "20", "--demand", "poisson:0.1", "--length", "1h")
	base.Progress = func(float64) {}
	for own, want := range map[float64][]float64{3: {1, 3, 10}, 5: {1, 3, 5, 10}} {
		base.Params.MissCost = own
		rows, err := compare(t.Context(), base, 0)
		testkit.NoError(t, err)
		var prices []float64
		for _, r := range rows {
			if r.Refill == "adaptive" {
				prices = append(prices, r.MissCost)
			} else {
				testkit.Equal(t, "miss_cost of a fixed depth", r.MissCost, 0)
			}
		}
		testkit.DeepEqual(t, "prices of adaptive targets", prices, want)
	}
}
