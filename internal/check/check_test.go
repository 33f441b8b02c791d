package check

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"poold/internal/cli"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// runCheck runs `poold check` on a file with this text. In the output it replaces the file's path by
// FILE.
func runCheck(t *testing.T, text string, flags ...string) (printed string, err error) {
	t.Helper()
	path, out := filepath.Join(t.TempDir(), "pools.yaml"), new(strings.Builder)
	err = runCheckOf(t, path, text, out, flags...)
	return strings.ReplaceAll(out.String(), path, "FILE"), err
}

func runCheckOf(t *testing.T, path, text string, out io.Writer, flags ...string) error {
	t.Helper()
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	command := Command(&cli.Console{Lookup: func(string) (string, bool) { return "", false }, Stdout: out, Stderr: out})
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(append(flags, "--config", path))
	return command.ExecuteContext(t.Context())
}

// full is a writer that fails in the same way as a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A check that cannot print its result fails, even if the file is valid.
func TestCheckFailsIfItCannotPrint(t *testing.T) {
	const valid = "redis: {url: embedded}\nproviders: [{name: own, protocol: simulated}]\n" +
		"targets:\n  a: {type: turnstile, sitekey: x, pageurl: 'https://example.com/', owner: q, depth: 0, paused: true}\n"
	for name, text := range map[string]string{"valid": valid, "invalid": "budget: 5\n" + valid} {
		testkit.ErrorIs(t, name, runCheckOf(t, filepath.Join(t.TempDir(), "pools.yaml"), text, full{}), syscall.ENOSPC)
	}
}

// With --json each line is an object.
func TestCheckInJSON(t *testing.T) {
	printed, _ := runCheck(t, "targets: {}\n", "--json")
	const want = `{"class":"error","file":"FILE","line":1,"text":"targets: has no target: add at least one, with paused: true to buy nothing"}`
	testkit.Equal(t, "printed", strings.TrimSpace(printed), want)
}

// Each line of the output is an error, a warning or a fact.
func TestCheckLabelsErrorsAndWarnings(t *testing.T) {
	const (
		redis     = "redis: {url: 'redis://h'}\n"
		provider  = "providers: [{name: acme, url: 'https://s.example.com', key: k1, price_per_1000: 1}]\n"
		simulated = "providers: [{name: own, protocol: simulated}]\n"
		target    = "targets:\n  a: {type: turnstile, sitekey: x, pageurl: 'https://example.com/', owner: q, depth: 0, paused: true}\n"
		warning   = "targets.a.lifetime: is unusually long: turnstile tokens expire after 5m0s\n"
		valid     = "note: FILE is valid; targets: 1, providers: 1\n"
	)
	for name, c := range map[string]struct{ file, printed, err string }{
		"errors": {"budget: 5\ntargets: {}\n", "FILE:1: error: budget: must be a mapping: lines of `key: value`, indented\n" +
			"FILE:2: error: targets: has no target: add at least one, with paused: true to buy nothing\n", "problems in "},
		"a warning": {redis + provider + strings.Replace(target, "depth: 0", "depth: 0, lifetime: 1h", 1),
			"FILE:4: warning: " + warning + valid +
				"note: a: turnstile, fixed, depth 0; nothing is bought: paused in the configuration file\n", ""},
		"no price": {redis + strings.Replace(provider, ", price_per_1000: 1", "", 1) + strings.Replace(target,
			"paused: true", "budget: {per_day: 5}", 1), valid +
			"note: a: turnstile, fixed, depth 0; idle 0 solves a day; at most 5 solves a day; some provider has no price_per_1000 for this type\n", ""},
		"no budget": {redis + provider + strings.Replace(target, "depth: 0, paused: true", "depth: 5", 1), valid +
			"warning: a: turnstile, fixed, depth 5; idle 1728 solves a day for 1.73; no budget limits it\n", ""},
		// With a real provider, nothing is bought for a simulated_only target. The output reports
		// this as a fact, not as a problem.
		"simulated_only": {redis + provider + strings.Replace(target, "paused: true", "simulated_only: true", 1),
			"note: a: turnstile, fixed, depth 0; nothing is bought: `simulated_only: true` in the configuration file forbids purchases from a real provider\n", ""},
		"certificate": {"server: {tls: {cert: /none.pem, key: /none.key}}\n" + redis + provider + target,
			"FILE:1: error: server.tls.cert: the file /none.pem does not exist: create it, or correct the path\n", "problems in "},
		"simulated": {redis + simulated + strings.Replace(target, "depth: 0, paused: true", "depth: 5", 1),
			"FILE:2: warning: providers.own: tokens are simulated; no site accepts them\n" + valid +
				"note: a: turnstile, fixed, depth 5; idle 1728 solves a day\n", ""},
	} {
		printed, err := runCheck(t, c.file)
		for line := range strings.Lines(printed) {
			if !regexp.MustCompile(`^(FILE:\d+: )?(error|warning|note): `).MatchString(line) {
				t.Errorf("%s: a line without a label: %s", name, line)
			}
		}
		if !strings.Contains(printed, c.printed) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v\n%s", name, err, printed)
		}
	}
}

// One line describes a target, its cost without requests and its limit. Missing budgets and prices
// are warnings, unless the provider is simulated.
func TestTargetLine(t *testing.T) {
	const (
		acme      = "{name: acme, url: 'https://s.example.com', key: k1, price_per_1000: {turnstile: 1.2}}"
		other     = ", {name: other, url: 'https://o.example.com', key: k2"
		head      = "currency: EUR\nproviders: [" + acme + other + ", price_per_1000: 1}]\n"
		unpriced  = "providers: [" + acme + other + "}]\n"
		simulated = "providers: [{name: own, protocol: simulated}]\n"
	)
	for _, c := range []struct{ head, keys, want string }{
		{head, "depth: 2, budget: {per_hour: 40, per_day: 1000}",
			"note: a: turnstile, fixed, depth 2; idle 691 solves a day for 0.83 EUR; at most 960 solves a day for 1.15 EUR"},
		{head, "depth: 2, budget: {per_hour: 20}",
			"warning: a: turnstile, fixed, depth 2; idle 691 solves a day for 0.83 EUR; the budget of 480 solves a day for 0.58 EUR is too small for that"},
		{head, "depth: 2, budget: {money_per_day: 1}",
			"note: a: turnstile, fixed, depth 2; idle 691 solves a day for 0.83 EUR; at most 833 solves a day for 1.00 EUR"},
		{head + "budget: {per_day: 800}\n", "depth: 2",
			"note: a: turnstile, fixed, depth 2; idle 691 solves a day for 0.83 EUR; at most 800 solves a day for 0.96 EUR"},
		{head, "depth: 2", "warning: a: turnstile, fixed, depth 2; idle 691 solves a day for 0.83 EUR; no budget limits it"},
		{head, "depth: 2, idle_after: 1h, budget: {per_day: 10}",
			"note: a: turnstile, fixed, depth 2; idle 0 solves a day for 0.00 EUR; at most 10 solves a day for 0.012 EUR"},
		{head, "depth: 9, refill: adaptive, min: 1, budget: {per_day: 400}",
			"note: a: turnstile, adaptive, depth 9; idle 346 solves a day for 0.41 EUR; at most 400 solves a day for 0.48 EUR"},
		{head, "depth: 2, paused: true", "note: a: turnstile, fixed, depth 2; nothing is bought: paused in the configuration file"},
		{unpriced, "depth: 2, budget: {per_day: 1000}",
			"note: a: turnstile, fixed, depth 2; idle 691 solves a day; at most 1000 solves a day; some provider has no price_per_1000 for this type"},
		{simulated, "depth: 2", "note: a: turnstile, fixed, depth 2; idle 691 solves a day"},
	} {
		set, err := targets.Parse("pools.yaml", []byte("redis: {url: 'redis://h'}\n"+c.head+
			"targets:\n  a: {type: turnstile, sitekey: x, pageurl: 'https://e.com/', owner: q, "+c.keys+"}\n"), targets.References{})
		testkit.NoError(t, err)
		class, text := targetLine(set, &set.Targets[0])
		testkit.Equal(t, strings.TrimSpace(c.keys), class+": "+text, c.want)
	}
}
