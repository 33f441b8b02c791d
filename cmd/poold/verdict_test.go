package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"poold/internal/cli"
	"poold/internal/simulate"
	"poold/internal/testkit"
)

// lastLine runs `poold simulate` and returns the last line of its output.
func lastLine(t *testing.T, args ...string) string {
	t.Helper()
	code, out, problems := simulateWith(t, args...)
	if code != exitDone || problems != "" {
		t.Fatalf("%v: exit %d: %s", args, code, problems)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	return lines[len(lines)-1]
}

// The last line is a verdict. It describes the results of the run and of the other policy.
func TestVerdicts(t *testing.T) {
	testkit.WithoutRace(t)
	trace := filepath.Join(t.TempDir(), "trace.txt")
	writeFile(t, trace, "0\n43200\n86400\n")
	// Each solve takes 20 s, no solve fails, and tokens are usable for 80 s. A depth of one buys 1080
	// tokens a day, and two of the three requests find a token. The adaptive policy wastes the tokens
	// that it buys after each request.
	sure := func(args ...string) []string {
		return append([]string{"--fail", "0", "--lead", "lognormal:20s,0,20s,20s", "--trace", trace}, args...)
	}
	adaptive := func(demand string, args ...string) []string {
		return append([]string{"--refill", "adaptive", "--depth", "60", "--demand", demand}, args...)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"fixed": {sure("--depth", "1", "--price", "1000"),
			"fixed, depth 1: 66.7 % hits, 544.00 bought each, 1080.00 spent a day; adaptive, max_waste 3: 0.0 % hits, none served, 2.00 spent a day"},
		"fixed, a tenth of a cent": {sure("--depth", "1", "--price", "0.001"),
			"fixed, depth 1: 66.7 % hits, 544.00 bought each, 0.0011 spent a day; adaptive, max_waste 3: 0.0 % hits, none served, 0.0000020 spent a day"},
		"fixed, without a price": {sure("--depth", "1"),
			"fixed, depth 1: 66.7 % hits, 544.00 bought each; adaptive, max_waste 3: 0.0 % hits, none served"},
		"nothing is kept": {sure("--depth", "0", "--price", "1000", "--max-waste", "7"),
			"fixed, depth 0: 0.0 % hits, none served, 0.00 spent a day; adaptive, max_waste 7: 0.0 % hits, none served, 4.00 spent a day"},
		"callers wait": {sure("--depth", "0", "--price", "0", "--wait", "30s"),
			"fixed, depth 0: 0.0 % hits, 1.00 bought each; adaptive, max_waste 3: 0.0 % hits, 1.67 bought each"},
		"no hit": {sure("--refill", "adaptive", "--depth", "60", "--price", "1000"),
			"adaptive, max_waste 3: 0.0 % hits, none served, 2.00 spent a day; the nearest fixed depth is 0: 0.0 % hits, none served, 0.00 spent a day"},
		// A fixed depth buys as many tokens at night as in the daytime.
		"office": {adaptive("office:0.2", "--price", "2.99"), "adaptive, max_waste 3: 99.6 % hits, 1.02 bought each, 17.57 spent a day; " +
			"the nearest fixed depth is 11: 99.7 % hits, 2.31 bought each, 39.90 spent a day"},
		"office, fixed": {[]string{"--depth", "11", "--demand", "office:0.2", "--price", "2.99"}, "fixed, depth 11: 99.7 % hits, 2.31 bought each, " +
			"39.90 spent a day; adaptive, max_waste 3: 99.6 % hits, 1.02 bought each, 17.57 spent a day"},
		"bursts": {adaptive("onoff:0.5", "--price", "2.99", "--max-waste", "10", "--length", "6h"), "adaptive, max_waste 10: 93.9 % hits, 1.45 bought each, 31.48 spent a day; " +
			"the nearest fixed depth is 15: 95.6 % hits, 2.64 bought each, 58.35 spent a day"},
		"checks": {adaptive("timer:300s", "--price", "2.99"), "adaptive, max_waste 3: 98.6 % hits, 1.02 bought each, 0.86 spent a day; " +
			"the nearest fixed depth is 2: 99.7 % hits, 7.42 bought each, 6.35 spent a day"},
		"steady, without a price": {adaptive("poisson:0.2", "--length", "6h"),
			"adaptive, max_waste 3: 99.7 % hits, 1.02 bought each; the nearest fixed depth is 12: 99.8 % hits, 1.03 bought each"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := lastLine(t, c.args...); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// The example of docs/refill.md equals the output of the command.
func TestRefillPageHasAVerdict(t *testing.T) {
	testkit.WithoutRace(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "refill.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "poold simulate --depth")
	command, rest, _ := strings.Cut("--depth"+example, "\n")
	_, rest, _ = strings.Cut(rest, "```text\n")
	said, _, _ := strings.Cut(rest, "\n```")
	if got := lastLine(t, strings.Fields(command)...); got != said {
		t.Errorf("got  %s\nsaid %s", got, said)
	}
}

// In the JSON output, three fields contain amounts of money, and no other field depends on the
// price. In the text output, only one line contains amounts of money.
func TestSimulatedMoney(t *testing.T) {
	testkit.WithoutRace(t)
	trace := filepath.Join(t.TempDir(), "trace.txt")
	writeFile(t, trace, "0\n10000\n43200\n")
	args := []string{"--fail", "0", "--depth", "2", "--lead", "lognormal:20s,0,20s,20s", "--trace", trace}
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
	for field, want := range map[string]string{"price_per_1000": "2.99", "spent": fmt.Sprintf("%.6g", bought*0.00299), "spent_per_day": "6.4584"} {
		if got := fmt.Sprintf("%.6g", with[field]); got != want {
			t.Errorf("%s: %s, want %s", field, got, want)
		}
		delete(with, field)
	}
	if fmt.Sprint(with) != fmt.Sprint(without) || len(without) < 15 {
		t.Errorf("with a price %v\nwithout %v", with, without)
	}
	_, text, _ := simulateWith(t, append(args, "--price", "2.99")...)
	if line := fmt.Sprintf("\nspent              %.2f (6.46 a day)\n", bought*0.00299); !strings.Contains(text, line) {
		t.Errorf("no line %q in\n%s", line, text)
	}
	_, text, _ = simulateWith(t, args...)
	if strings.Contains(text, "spent") {
		t.Errorf("money without a price:\n%s", text)
	}
}

// The price is the provider's price for the target's type, unless a flag sets another price.
func TestSimulatedPriceOfTheFile(t *testing.T) {
	testkit.WithoutRace(t)
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace.txt")
	writeFile(t, trace, "0\n1000\n")
	for name, c := range map[string]struct {
		price string // price of the first of two providers in the file
		args  []string
		want  float64
	}{
		"one":          {", price_per_1000: 2.99", nil, 2.99},
		"by type":      {", price_per_1000: {turnstile: 7, recaptcha_v2: 1.1}", nil, 1.1},
		"another type": {", price_per_1000: {turnstile: 7}", nil, 0},
		"none":         {"", nil, 0},
		"a flag":       {", price_per_1000: 2.99", []string{"--price", "5"}, 5},
		"none wanted":  {", price_per_1000: 2.99", []string{"--price", "0"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pools.yaml")
			const one, other = "{name: s, url: \"https://a.example.com\", key: 0123456789abcdef0123456789abcdef",
				", {name: o, url: \"https://b.example.com\", key: 1123456789abcdef0123456789abcdef, price_per_1000: 9}"
			writeFile(t, file, strings.Replace(simulatedFile, "{name: s, api: simulated}", one+c.price+"}"+other, 1))
			code, out, problems := simulateWith(t, append([]string{"--config", file, "--target", "login", "--trace", trace, "--json"}, c.args...)...)
			var got struct {
				Price *float64 `json:"price_per_1000"`
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("exit %d: %s", code, problems)
			}
			if (got.Price != nil) != (c.want > 0) || got.Price != nil && *got.Price != c.want {
				t.Errorf("got:\n%s", out)
			}
		})
	}
}

// If a price is known, a comparison shows how much each run spends a day.
func TestComparedMoney(t *testing.T) {
	testkit.WithoutRace(t)
	args := []string{"--depth", "50", "--demand", "onoff:0.5", "--length", "1h", "--compare"}
	_, with, _ := simulateWith(t, append(args, "--price", "2.99")...)
	_, without, _ := simulateWith(t, args...)
	if heads := strings.Fields(strings.SplitN(with, "\n", 2)[0]); heads[len(heads)-1] != "spent/day" || strings.Contains(without, "spent") {
		t.Errorf("got:\n%s%s", with, without)
	}
	_, out, _ := simulateWith(t, append(args, "--price", "2.99", "--json")...)
	var all struct{ Runs []simulate.Row }
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Runs) < 5 {
		t.Fatalf("%v:\n%s", err, out)
	}
	lines := strings.Split(with, "\n")[1:]
	for i, r := range all.Runs {
		if r.Money == nil || r.Price != 2.99 || r.PerDay <= 0 || !strings.HasSuffix(lines[i], " "+cli.Amount(r.PerDay)) {
			t.Errorf("%+v, %s", r, lines[i])
		}
	}
}
