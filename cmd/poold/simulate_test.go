package main

import (
	"encoding/json"
	"fmt"
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
	var out, problems strings.Builder
	none := func(string) (string, bool) { return "", false }
	code = run(t.Context(), append([]string{"simulate"}, args...), none, &out, &problems)
	return code, out.String(), problems.String()
}

// The output for a target has every documented field, and is the same in each run. A flag overrides
// the file.
func TestSimulateTarget(t *testing.T) {
	testkit.WithoutRace(t)
	const file = "testdata/simulated.yaml"
	trace := filepath.Join(t.TempDir(), "trace.txt")
	writeFile(t, trace, strings.Repeat("10.5\n", 3)+strings.Repeat("400\n", 3))
	args := []string{"--config", file, "--target", "login", "--trace", trace, "--json"}
	code, out, problems := simulateWith(t, args...)
	if code != cli.ExitDone || problems != "" {
		t.Fatalf("exit %d: %s", code, problems)
	}
	var got map[string]float64
	testkit.NoError(t, json.Unmarshal([]byte(out), &got))
	for _, field := range []string{"requests", "hits", "hit_rate", "misses", "bought", "expired", "failed",
		"waste_per_request", "bought_per_served", "peak_in_flight", "peak_held"} {
		if _, ok := got[field]; !ok {
			t.Errorf("the answer has no %s", field)
		}
	}
	if got["requests"] != 6 || got["hits"] < 2 || got["bought"] < 10 { // two tokens are ready for a thousand seconds
		t.Errorf("%v", got)
	}
	_, again, _ := simulateWith(t, args...)
	testkit.Equal(t, "the second run", again, out)
	if _, seed, _ := simulateWith(t, append(args, "--seed", "2")...); seed == out {
		t.Error("another seed changes nothing")
	}
	if code, _, problems := simulateWith(t, "--config", file, "--target", "other", "--trace",
		trace); code != cli.ExitFailed || !strings.Contains(problems, `no target "other"`) {
		t.Errorf("exit %d: %s", code, problems)
	}
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

// Flags that simulate cannot use, and traces that it cannot read, are errors that name the flag or the file.
func TestWrongFlagsOfSimulate(t *testing.T) {
	text, err := os.ReadFile("testdata/badflags.txt") // flags of simulate, and a part of what is said about them
	testkit.NoError(t, err)
	for row := range slices.Chunk(strings.Split(strings.TrimSpace(string(text)), "\n"), 2) {
		args, says := strings.Split(row[0], " "), strings.TrimSpace(row[1])
		if code, _, problems := simulateWith(t, args...); code != cli.ExitUsage || !strings.Contains(problems, says) {
			t.Errorf("%q: exit %d: %s, want %s", args, code, problems, says)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	writeFile(t, empty, "")
	if code, _, problems := simulateWith(t, "--depth", "1", "--trace", empty); code != cli.ExitFailed ||
		!strings.Contains(problems, "no request") {
		t.Errorf("exit %d: %s", code, problems)
	}
	if code, _, problems := simulateWith(t, "--depth", "1", "--trace", "/nowhere/trace"); code != cli.ExitFailed ||
		!strings.Contains(problems, "reading the trace") {
		t.Errorf("exit %d: %s", code, problems)
	}
}

// In the JSON output, three fields contain amounts of money, and no other field depends on the
// price. In the text output, only one line contains amounts of money.
func TestSimulatedMoney(t *testing.T) {
	testkit.WithoutRace(t)
	trace := filepath.Join(t.TempDir(), "trace.txt")
	writeFile(t, trace, "0\n10000\n43200\n")
	args := []string{"--fail", "0", "--depth", "2", "--lead", "20s", "--spread", "0", "--trace", trace}
	asJSON := func(more ...string) map[string]any {
		_, out, problems := simulateWith(t, append(append(args, "--json"), more...)...)
		var got map[string]any
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %s", err, problems)
		}
		return got
	}
	without, with := asJSON(), asJSON("--price", "2.99")
	bought := with["bought"].(float64)
	for field, want := range map[string]string{"price_per_1000": "2.99", "spent": fmt.Sprintf("%.6g", bought*0.00299),
		"spent_per_day": "6.4643"} {
		testkit.Equal(t, field, fmt.Sprintf("%.6g", with[field]), want)
		delete(with, field)
	}
	if fmt.Sprint(with) != fmt.Sprint(without) || len(without) != 11 {
		t.Errorf("with a price %v\nwithout %v", with, without)
	}
	_, text, _ := simulateWith(t, append(args, "--price", "2.99")...)
	if line := fmt.Sprintf("\nspent          %.2f (6.46 a day)\n", bought*0.00299); !strings.Contains(text, line) {
		t.Errorf("no line %q in\n%s", line, text)
	}
	_, text, _ = simulateWith(t, args...)
	testkit.Equal(t, "money without a price: "+text, strings.Contains(text, "spent"), false)
}
