package simulate

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"poold/internal/cli"
)

// runProviders runs `poold simulate` with --providers and a short demand.
func runProviders(t *testing.T, file string, args ...string) (output string, err error) {
	t.Helper()
	var out, faults bytes.Buffer
	c := &cli.Console{Stdout: &out, Stderr: &faults, Lookup: func(string) (string, bool) { return "", false }}
	command := Command(c)
	command.SetArgs(append([]string{"--providers", file}, args...))
	command.SilenceErrors, command.SilenceUsage = true, true
	err = command.ExecuteContext(t.Context())
	return out.String(), err
}

func scenarioFileOf(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "scenarios.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The table names each way of choosing, and says whether best meets its limits.
func TestProvidersTable(t *testing.T) {
	file := scenarioFileOf(t, "scenarios:\n  - name: two\n    providers: [{name: x, price_per_1000: 1}, {name: y, price_per_1000: 3, solved: 1}]\n")
	out, err := runProviders(t, file, "--seeds", "1", "--length", "3h", "--depth", "5", "--refill", "fixed")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ordered", "cheapest", "best", "only x", "only y", "x 100 %, y 0 %", "best costs at most 5 % more"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	again, err := runProviders(t, file, "--seeds", "1", "--length", "3h", "--depth", "5", "--refill", "fixed")
	if err != nil || again != out {
		t.Errorf("the same seed prints\n%s\nand then\n%s %v", out, again, err)
	}
}

// An invalid file is refused with its name, the scenario and the rule.
func TestInvalidScenarios(t *testing.T) {
	const two = "providers: [{name: a}, {name: b}]"
	for text, want := range map[string]string{
		"":                            "has no scenario",
		"scenarios: [":                "line 1",
		"scenario: []\n":              "field scenario not found",
		"scenarios:\n- {" + two + "}": "needs a name",
		"scenarios:\n- {name: s, providers: [{name: a}]}":                                               "needs at least two providers",
		"scenarios:\n- {name: s, providers: [{name: a}, {name: a}]}":                                    "needs a name that no other provider has",
		"scenarios:\n- {name: s, providers: [{name: a, solved: 0}, {name: b}]}":                         "solved is a share above 0",
		"scenarios:\n- {name: s, providers: [{name: a, accepted: 1.1}, {name: b}]}":                     "accepted is a share above 0",
		"scenarios:\n- {name: s, providers: [{name: a, price_per_1000: -1}, {name: b}]}":                "price_per_1000 is from 0",
		"scenarios:\n- {name: s, providers: [{name: a, lead: soon}, {name: b}]}":                        "lead times are lognormal",
		"scenarios:\n- {name: s, providers: [{name: a, cost: 1}, {name: b}]}":                           "field cost not found",
		"scenarios:\n- {name: s, " + two + ", reported: 2}":                                             "reported is a share",
		"scenarios:\n- {name: s, " + two + ", callers: -1}":                                             "callers is at least 1",
		"scenarios:\n- {name: s, " + two + ", changes: [{provider: c, from: 1h}]}":                      "is not a provider of the scenario",
		"scenarios:\n- {name: s, " + two + ", changes: [{provider: a, from: 2h, to: 1h}]}":              "to is later than from",
		"scenarios:\n- {name: s, " + two + ", changes: [{provider: a, from: 1h, accepted: 0}]}":         "accepted is a share",
		"scenarios:\n- {name: s, " + two + ", changes: [{provider: a, from: soon, price_per_1000: 1}]}": "soon",
	} {
		file := scenarioFileOf(t, text)
		if _, err := runProviders(t, file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "scenarios.yaml") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	good := scenarioFileOf(t, "scenarios:\n- {name: s, "+two+"}")
	for _, args := range [][]string{{"--compare"}, {"--price", "1"}, {"--lead", "x"}, {"--seeds", "0"}, {"--trace", "x"}, {"--demand", "nonsense:1"}} {
		if _, err := runProviders(t, good, args...); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(args[0], "--")) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := runProviders(t, "missing.yaml"); err == nil || !strings.Contains(err.Error(), "missing.yaml") {
		t.Errorf("a missing file: %v", err)
	}
}
