package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"poold/internal/cli"
	"poold/internal/testkit"
)

// simulateWith runs `poold simulate` and returns its exit code and output.
func simulateWith(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems strings.Builder
	none := func(string) (string, bool) { return "", false }
	code = run(t.Context(), append([]string{"simulate"}, args...), none, &out, &problems)
	return code, out.String(), problems.String()
}

const simulatedFile = `providers: [{name: s, protocol: simulated}]
targets:
  login:
    type: recaptcha_v2
    sitekey: k
    pageurl: https://staging.example.com/login
    owner: qa@example.com
    refill: adaptive
    depth: 40
    min: 2
`

// The output for a target has every documented field, and is the same in each run. A flag overrides
// the file.
func TestSimulateTarget(t *testing.T) {
	testkit.WithoutRace(t)
	dir := t.TempDir()
	file, trace := filepath.Join(dir, "pools.yaml"), filepath.Join(dir, "trace.txt")
	arrivals := strings.Repeat("10.5\n", 3) + strings.Repeat("400\n", 3)
	if err := errors.Join(os.WriteFile(file, []byte(simulatedFile), 0o600), os.WriteFile(trace, []byte(arrivals), 0o600)); err != nil {
		t.Fatal(err)
	}
	args := []string{"--config", file, "--target", "login", "--trace", trace, "--json"}
	code, out, problems := simulateWith(t, args...)
	if code != cli.ExitDone || problems != "" {
		t.Fatalf("exit %d: %s", code, problems)
	}
	var got map[string]float64
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"requests", "hits", "hit_rate", "misses", "waited", "wait_p50_s", "wait_p95_s", "wait_p99_s", "bought", "served",
		"expired", "failed", "waste_per_request", "bought_per_served", "peak_in_flight", "peak_stock", "stale_served"} {
		if _, ok := got[field]; !ok {
			t.Errorf("the answer has no %s", field)
		}
	}
	if got["requests"] != 6 || got["hits"] < 2 || got["bought"] < 10 { // two tokens are ready for a thousand seconds
		t.Errorf("%v", got)
	}
	if _, again, _ := simulateWith(t, args...); again != out {
		t.Error("the second run differs")
	}
	if _, seed, _ := simulateWith(t, append(args, "--seed", "2")...); seed == out {
		t.Error("another seed changes nothing")
	}
	_, out, _ = simulateWith(t, append(args, "--min", "0", "--refill", "fixed", "--depth", "0", "--wait", "30s")...)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got["hits"] != 0 || got["waited"] < 5 || got["wait_p50_s"] < 5 {
		t.Errorf("depth 0, with waiting: %v", got)
	}
	if code, _, problems := simulateWith(t, "--config", file, "--target", "other", "--trace", trace); code != cli.ExitFailed || !strings.Contains(problems, `no target "other"`) {
		t.Errorf("exit %d: %s", code, problems)
	}
}

// A target's warm windows are part of its policy. Second 0 is a Monday at 00:00.
func TestSimulateWarmWindows(t *testing.T) {
	testkit.WithoutRace(t)
	dir := t.TempDir()
	file, trace := filepath.Join(dir, "pools.yaml"), filepath.Join(dir, "trace.txt")
	slow := strings.Replace(simulatedFile, "simulated}", "simulated, first_poll: 17s}", 1)
	text := strings.Replace(slow, "min: 2\n", "warm: [{cron: \"10 0 * * 1\", tokens: 4, for: 1m}]\n", 1)
	arrivals := strings.Repeat("610\n", 4) + strings.Repeat("87010\n", 4) // ten past midnight on Monday and on Tuesday
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(trace, []byte(arrivals), 0o600)); err != nil {
		t.Fatal(err)
	}
	code, out, problems := simulateWith(t, "--config", file, "--target", "login", "--trace", trace, "--fail", "0", "--lead", "lognormal:18s,0,18s,18s", "--json")
	if code != cli.ExitDone || problems != "" {
		t.Fatalf("exit %d: %s", code, problems)
	}
	var got map[string]float64
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got["hits"] != 4 || got["requests"] != 8 {
		t.Errorf("%v", got)
	}
}

// Without a target the command reads no file.
func TestSimulateWithoutFile(t *testing.T) {
	testkit.WithoutRace(t)
	code, out, problems := simulateWith(t, "--depth", "50", "--refill", "adaptive", "--demand", "poisson:0.2", "--length", "2h", "--config", "/nowhere")
	if code != cli.ExitDone || problems != "" || !strings.Contains(out, "handed out stale  0") {
		t.Errorf("exit %d: %s%s", code, out, problems)
	}
}

func TestSimulateUsage(t *testing.T) {
	for says, args := range map[string][]string{
		"needs --target":               {"--demand", "poisson:1"},
		"one of --trace and --demand,": {"--depth", "1"},
		"--demand, and only one":       {"--depth", "1", "--demand", "poisson:1", "--trace", "x"},
		"--length is above 0s":         {"--depth", "1", "--trace", "x", "--length", "0s"},
		"up to a year, 8784h":          {"--depth", "1", "--demand", "poisson:1", "--length", "8785h"},
		"--demand":                     {"--depth", "1", "--demand", "often"},
		"--lead: lead times are":       {"--depth", "1", "--demand", "poisson:1", "--lead", "18s"},
		"--fail":                       {"--depth", "1", "--demand", "poisson:1", "--fail", "7"},
		"--refill is":                  {"--depth", "1", "--demand", "poisson:1", "--refill", "clever"},
		"--min":                        {"--depth", "1", "--demand", "poisson:1", "--min", "2"},
		"--margin is":                  {"--depth", "1", "--demand", "poisson:1", "--margin", "2m"},
		"--hit-rate":                   {"--depth", "1", "--demand", "poisson:1", "--hit-rate", "97"},
		"--miss-cost":                  {"--depth", "1", "--demand", "poisson:1", "--miss-cost", "0"},
		"--concurrency":                {"--depth", "1", "--demand", "poisson:1", "--concurrency", "0"},
		"--wait":                       {"--depth", "1", "--demand", "poisson:1", "--wait", "2h"},
		"--depth is":                   {"--depth", "-1", "--demand", "poisson:1"},
		"--lifetime":                   {"--depth", "1", "--demand", "poisson:1", "--lifetime", "1ms"},
		"--idle-after":                 {"--depth", "1", "--demand", "poisson:1", "--idle-after", "-1s"},
		"unknown command":              {"--depth", "1", "--demand", "poisson:1", "more"},
	} {
		if code, _, problems := simulateWith(t, args...); code != cli.ExitUsage || !strings.Contains(problems, says) {
			t.Errorf("%v: exit %d: %s", args, code, problems)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, problems := simulateWith(t, "--depth", "1", "--trace", empty); code != cli.ExitFailed || !strings.Contains(problems, "no request") {
		t.Errorf("exit %d: %s", code, problems)
	}
	if code, _, problems := simulateWith(t, "--depth", "1", "--trace", "/nowhere/trace"); code != cli.ExitFailed || !strings.Contains(problems, "reading the trace") {
		t.Errorf("exit %d: %s", code, problems)
	}
}
