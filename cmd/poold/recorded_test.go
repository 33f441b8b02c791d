package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/pool"
	"poold/internal/simulate"
	"poold/internal/testkit"
)

// The simulation of a recorded hour has the same figures as the simulation of a trace with the same
// requests.
func TestSimulateFromHistory(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	w := newWorld(t, quick(), terms{depth: 3, provider: ", price_per_1000: 2.5", target: ", refill: adaptive"})
	stock, err := pool.Open(pool.Options{Addresses: w.redis, Prefix: "world", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stock.Close() })
	login := captcha.Identity{Type: captcha.Turnstile, Sitekey: "1x00000000000000000000AA", Pageurl: "https://example.com/"}.ID()
	var trace strings.Builder
	from := time.Now().UTC().Truncate(time.Minute).Add(-2 * time.Hour)
	random := rand.New(rand.NewPCG(1, 2))
	var replicas []*history.Arrivals
	for range 2 {
		a := history.NewArrivals(redisstore.NewArrivals(stock.DB), slog.New(slog.DiscardHandler))
		a.SetTargets(map[captcha.ID]string{login: "login"})
		replicas = append(replicas, a)
	}
	requests := 0
	for tenth := 13; tenth < 12000; tenth += int(random.ExpFloat64() * 200) {
		requests++
		// Each minute goes to only one of the two recorders, because a later write for the same
		// minute replaces earlier writes.
		replicas[tenth/600%2].Note(login, from.Add(time.Duration(tenth)*100*time.Millisecond+time.Duration(random.IntN(100))*time.Millisecond))
		fmt.Fprintf(&trace, "%d.%d\n", tenth/10, tenth%10)
	}
	over, end := context.WithCancel(t.Context())
	end()
	for _, a := range replicas {
		if err := a.Run(over); err != nil { // Run writes when it ends
			t.Fatal(err)
		}
	}
	p := w.start(t)
	file := filepath.Join(t.TempDir(), "trace")
	writeFile(t, file, trace.String())
	simulated := func(args ...string) string {
		t.Helper()
		code, out, problems := runCommand(t, map[string]string{"POOLD_URL": p.url}, append([]string{"simulate", "--config", w.config}, args...)...)
		if code != 0 || problems != "" || !strings.Contains(out, strconv.Itoa(requests)) {
			t.Fatalf("%v: exit %d: %s%s", args, code, out, problems)
		}
		return out
	}
	part := []string{"--from-history", "login", "--from", from.Format(time.RFC3339), "--to", from.Add(20 * time.Minute).Format(time.RFC3339)}
	for name, more := range map[string][]string{
		"as JSON": {"--json"}, "as text": nil, "another policy": {"--refill", "fixed", "--depth", "5", "--json"}, "side by side": {"--compare", "--json"},
	} {
		got := simulated(append(part, more...)...)
		if want := simulated(append([]string{"--target", "login", "--trace", file, "--length", "20m"}, more...)...); got != want {
			t.Errorf("%s:\n%s\nof the trace:\n%s", name, got, want)
		}
	}
	if got, want := simulated("--from-history", "login", "--price", "0", "--json"), simulated("--target", "login", "--trace", file, "--price", "0", "--json"); got != want {
		t.Errorf("all that is known:\n%s\nof the trace:\n%s", got, want)
	}
	for says, args := range map[string][]string{
		"unknown_target":                 {"--from-history", "other", "--target", "login"},
		`has no target "other"`:          {"--from-history", "other"},
		"such as 2026-01-02":             {"--from-history", "login", "--from", "yesterday"},
		"arrivals are kept for 24 hours": {"--from-history", "login", "--from", "2020-01-01"},
		"the demand has no request":      {"--from-history", "login", "--to", from.Format(time.RFC3339)},
	} {
		code, out, problems := runCommand(t, map[string]string{"POOLD_URL": p.url}, append([]string{"simulate", "--config", w.config}, args...)...)
		if code != 1 || out != "" || !strings.Contains(problems, says) {
			t.Errorf("%v: exit %d: %s%s", args, code, out, problems)
		}
	}

	// Once the daemon has stopped, the history contains all requests that the daemon got.
	asked := time.Now()
	for range 3 {
		if _, status, err := p.take(t.Context(), http.DefaultClient, "login", "?wait=0s"); err != nil || status != 200 && status != 503 {
			t.Fatal(status, err)
		}
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	found, err := replicas[0].Read(t.Context(), "login", asked.Add(-history.ArrivalStep), time.Now())
	n := 0
	for _, a := range found {
		n += a.Count
	}
	if err != nil || n != 3 {
		t.Errorf("%d requests were recorded, %v: %v", n, err, found)
	}
}

// The simulation begins at the start of the recorded period. The target's windows are the windows
// of the recorded day. The amount spent per day is an average over the whole period.
func TestSimulateReplaysTheAnswerOfADaemon(t *testing.T) {
	testkit.WithoutRace(t)
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/history/arrivals/login" || r.Header.Get("Authorization") != "Bearer the key" {
			t.Errorf("asked for %s with %v", r.URL, r.Header)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "pools.yaml")
	text := strings.Replace(simulatedFile, "simulated}", "simulated, first_poll: 17s}", 1)
	writeFile(t, file, strings.Replace(text, "min: 2\n", "warm: [{cron: \"10 14 * * 2\", tokens: 4, for: 1m}]\n", 1))
	tell := func(from string, args ...string) (int, string, string) {
		answer = `{"target":"login","from":"` + from + `","to":"2026-01-07T13:59:00Z","requests":8,"arrivals":[{"at":610,"n":4},{"at":4210.5,"n":4}]}`
		return runCommand(t, map[string]string{"POOLD_URL": server.URL, "POOLD_KEY": "the key"},
			append([]string{"simulate", "--config", file, "--from-history", "login", "--fail", "0", "--lead", "lognormal:18s,0,18s,18s", "--json"}, args...)...)
	}
	if code, out, problems := tell("2026-01-06T14:00:00.000Z"); code != 0 || problems != "" || !strings.Contains(out, `"requests": 8`) || !strings.Contains(out, `"hits": 4,`) {
		t.Errorf("on a Tuesday: exit %d: %s%s", code, out, problems)
	}
	if code, out, _ := tell("2026-01-05T14:00:00.000Z"); code != 0 || !strings.Contains(out, `"hits": 0,`) {
		t.Errorf("on a Monday: exit %d: %s", code, out)
	}
	// A fixed depth also buys during hours without requests. The first run lasts the recorded 12
	// hours, and the next runs last as long as --length says.
	perDay := func(args ...string) float64 {
		_, out, _ := tell("2026-01-07T01:59:00.000Z", append(args, "--price", "1000", "--refill", "fixed", "--depth", "1")...)
		var of simulate.Money
		if err := json.Unmarshal([]byte(out), &of); err != nil {
			t.Fatal(err)
		}
		return of.PerDay
	}
	if half, day := perDay(), perDay("--length", "24h"); math.Abs(half-day) > 0.02*day || half < 800 || half == day {
		t.Errorf("spent a day: %g over the time that was recorded, %g over 24 h", half, day)
	}
	for says, from := range map[string]string{"from: parsing time": "today", "reading the daemon's answer: ": `"`} {
		if code, out, problems := tell(from); code != 1 || out != "" || !strings.Contains(problems, says) {
			t.Errorf("%s: exit %d: %s%s", from, code, out, problems)
		}
	}
}
