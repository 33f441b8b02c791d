package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"poold/internal/cli"
	"poold/internal/simulate"
	"poold/internal/testkit"
)

// simulateWith runs `poold simulate` and returns its exit code and output.
func simulateWith(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runCommand(t, nil, append([]string{"simulate"}, args...)...)
}

// A simulation of a target has the same result in each run. Three of its fields are money, and no other field depends
// on the price. In the text, one line is money.
func TestSimulateTarget(t *testing.T) {
	testkit.WithoutRace(t)
	trace := filepath.Join(t.TempDir(), "trace.txt")
	writeFile(t, trace, "0\n10000\n43200\n")
	args := []string{"--config", "testdata/simulated.yaml", "--target", "login", "--refill", "fixed", "--depth", "2",
		"--fail", "0", "--lead", "20s", "--spread", "0", "--trace", trace}
	asJSON := func(more ...string) (text string, got map[string]float64) {
		t.Helper()
		code, text, problems := simulateWith(t, append(append(args, "--json"), more...)...)
		if code != cli.ExitDone || problems != "" {
			t.Fatalf("exit %d: %s", code, problems)
		}
		testkit.NoError(t, json.Unmarshal([]byte(text), &got))
		return text, got
	}
	text, without := asJSON()
	testkit.DeepEqual(t, "fields", slices.Sorted(maps.Keys(without)), []string{"bought", "bought_per_served", "expired",
		"failed", "hit_rate", "hits", "misses", "peak_held", "peak_in_flight", "requests", "waste_per_request"})
	if without["requests"] != 3 || without["hits"] != 2 { // the first request finds an empty pool
		t.Errorf("%v", without)
	}
	again, _ := asJSON()
	testkit.Equal(t, "the second run", again, text)

	_, with := asJSON("--price", "2.99")
	for field, want := range map[string]string{"price_per_1000": "2.99",
		"spent": fmt.Sprintf("%.6g", with["bought"]*0.00299), "spent_per_day": "6.4643"} {
		testkit.Equal(t, field, fmt.Sprintf("%.6g", with[field]), want)
		delete(with, field)
	}
	testkit.DeepEqual(t, "the other fields", with, without)
	_, text, _ = simulateWith(t, append(args, "--price", "2.99")...)
	if line := fmt.Sprintf("\nspent          %.2f (6.46 a day)\n", with["bought"]*0.00299); !strings.Contains(text, line) {
		t.Errorf("no line %q in\n%s", line, text)
	}
	_, text, _ = simulateWith(t, args...)
	testkit.Equal(t, "money without a price: "+text, strings.Contains(text, "spent"), false)
}

// --compare lists fixed depths and the adaptive policy, with what each run spends a day.
func TestSimulateCompare(t *testing.T) {
	testkit.WithoutRace(t)
	args := []string{"--depth", "50", "--demand", "onoff:0.5", "--length", "1h", "--miss-cost", "7", "--price", "2.99",
		"--compare"}
	code, out, problems := simulateWith(t, args...)
	if code != cli.ExitDone || problems != "" {
		t.Fatalf("exit %d: %s", code, problems)
	}
	if strings.Count(out, "fixed ") < 5 || strings.Count(out, "adaptive ") != 4 || strings.Contains(out, "\r") {
		t.Errorf("got:\n%s", out)
	}
	lines := strings.Split(out, "\n")
	testkit.Equal(t, "the header ends in the spend: "+lines[0], strings.HasSuffix(lines[0], " spent/day"), true)
	_, out, _ = simulateWith(t, append(args, "--json")...)
	var all struct{ Runs []simulate.Run }
	testkit.NoError(t, json.Unmarshal([]byte(out), &all))
	if !slices.ContainsFunc(all.Runs,
		func(r simulate.Run) bool { return r.Refill == "adaptive" && r.MissCost == 7 && r.Requests > 0 }) {
		t.Errorf("got %+v", all.Runs)
	}
	for i, r := range all.Runs {
		if r.Cost == nil || r.Price != 2.99 || r.PerDay <= 0 || !strings.HasSuffix(lines[i+1], " "+cli.Amount(r.PerDay)) {
			t.Errorf("%+v, %s", r, lines[i+1])
		}
	}
}

// Flags that simulate cannot use, and targets and traces that it does not find, are errors that name the flag or the
// file.
func TestWrongFlagsOfSimulate(t *testing.T) {
	text, err := os.ReadFile("testdata/badflags.txt") // flags of simulate, and a part of what is said about them
	testkit.NoError(t, err)
	for row := range slices.Chunk(strings.Split(strings.TrimSpace(string(text)), "\n"), 2) {
		args, says := strings.Split(row[0], " "), strings.TrimSpace(row[1])
		if code, _, problems := simulateWith(t, args...); code != cli.ExitUsage || !strings.Contains(problems, says) {
			t.Errorf("%q: exit %d: %s, want %s", args, code, problems, says)
		}
	}
	for args, says := range map[string]string{
		"--depth 1 --trace /dev/null":                                        "no request",
		"--depth 1 --trace /nowhere/trace":                                   "reading the trace",
		"--config testdata/simulated.yaml --target other --demand poisson:1": `no target "other"`,
	} {
		if code, _, problems := simulateWith(t, strings.Fields(args)...); code != cli.ExitFailed ||
			!strings.Contains(problems, says) {
			t.Errorf("%s: exit %d: %s, want %s", args, code, problems, says)
		}
	}
}
