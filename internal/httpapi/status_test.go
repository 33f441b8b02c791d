package httpapi

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/spool"
	"poold/internal/status"
	"poold/internal/targets"
	"poold/internal/testkit"
)

var update = flag.Bool("update", false, "write the golden files anew")

// busyDay fills the stock of a daemon so that every field of the status has a value. The tokens and
// orders come from real calls. Large counters are written directly in the format of the store.
func busyDay(t *testing.T, d *daemon) {
	t.Helper()
	d.config.problems = []targets.Problem{{File: "pools.yaml", Line: 12, Text: "server.listen changed: it needs a restart"}}
	balance := 12.5
	d.provider.State = provider.State{Kind: provider.StateBusy, Reason: "no slot", Balance: &balance}
	d.say(t, "staging-login", refill.Status{Want: 4, State: refill.Starved, Reason: "provider solver is busy", Lead: 18 * time.Second,
		Forecast: 3.21449, Risk: 0.0124, Limit: policy.LimitCredit, Credit: -2.50051})
	d.say(t, "checkout", refill.Status{Want: 5, Warm: 5, State: refill.OK, Lead: 18 * time.Second, Credit: 7})
	d.say(t, "staging-signup", refill.Status{State: refill.Refused, Reason: "ERROR_GOOGLEKEY", Until: day})
	set := *d.config.Current()
	set.Budget.PerDay = 20000
	set.Solve = &targets.Solve{Owner: "ops@example.com", Budget: targets.Budget{PerHour: 30, PerDay: 300}}
	d.config.set.Store(&set)
	d.savings.days = []pool.SavingsDay{
		{Date: "2026-01-02", BySource: map[pool.SavingsSource]int64{pool.SavedSolve: 40, pool.SavedWaiting: 19, pool.SavedAfter: 1}},
		{Date: "2026-01-01", BySource: map[pool.SavingsSource]int64{}},
	}
	d.buyer.letters = make([]spool.Summary, 2)
	checkout, login, signup := d.target("checkout"), d.target("staging-login"), d.target("staging-signup")
	testkit.NoError(t, d.stock.Pool.Pause(t.Context(), checkout.ID, "paused by ops", 0))
	for _, left := range []time.Duration{71500 * time.Millisecond, 90 * time.Second, 100 * time.Second} {
		d.stock.landToken(t, d.stock.order(t, login), 120*time.Second-left)
	}
	for _, task := range []string{"t", ""} {
		_, err := d.stock.Bought(t.Context(), d.stock.order(t, login), task, "")
		testkit.NoError(t, err)
	}
	d.stock.order(t, login)
	d.stock.order(t, login)
	for _, n := range []string{"1", "2"} { // two callers that require more lifetime than any token has
		must(d.stock.redis.ZAdd(key("tickets", login), 1, "600000|r1|"+n))
	}
	d.stock.redis.Del(key("brake", login))
	d.stock.setCounters(login.ID, map[string]int{
		"hits": 97, "waited": 2, "missed": 1, "replays": 4, "bought": 115, "solved": 110, "expired": 5, "failed": 2, "lost": 1,
		"returned": 3, "discarded": 6, "accepted": 9, "rejected": 7, "spent": 105_123_499,
	})
	d.stock.redis.HSet(key("stats", login), "leads", "28000,26000,24000,22000,20000,18000,16000,14000,12000,10000", "verdicts", "0,0,1,1,0")
	guest := targets.Target{ID: pool.Guest(login.ID), Margin: time.Second}
	for range 2 {
		d.stock.landToken(t, d.stock.order(t, &guest), 0)
	}
	for range 4 {
		d.stock.bought(t, &guest)
	}
	d.stock.order(t, &guest)
	for _, n := range []string{"1", "2", "3"} {
		must(d.stock.redis.ZAdd(key("tickets", &guest), 1, "600000|r1|"+n))
	}
	d.stock.setCounters(pool.Guests, map[string]int{
		"hits": 20, "waited": 60, "missed": 6, "declined": 1, "replays": 11, "bought": 96, "solved": 84, "expired": 3, "failed": 7, "spent": 250_000_000,
	})
	spend := func(scope string, n int, ago time.Duration) {
		for i := range n {
			must(d.stock.redis.ZAdd("{captcha}:spend:"+scope, float64(time.Now().Add(-ago).UnixMilli()), fmt.Sprintf("%s%d", ago, i)))
		}
	}
	spend(string(login.ID), 8, 10*time.Minute)
	spend(string(login.ID), 69, 2*time.Hour)
	spend(string(signup.ID), 20, 2*time.Hour)
	spend(pool.ScopeAll, 1234, 2*time.Hour)
	spend(pool.ScopeSolve, 9, 10*time.Minute)
	spend(pool.ScopeSolve, 24, 2*time.Hour)
}

func must(_ any, err error) {
	if err != nil {
		panic(err)
	}
}

// setCounters writes the counters of an identity, as if all was counted today and more than an hour ago.
func (w *watchedStock) setCounters(id captcha.ID, counters map[string]int) {
	stats := "{captcha}:stats:" + string(id)
	for name, n := range counters {
		w.redis.HSet(stats, name, strconv.Itoa(n))
	}
	w.redis.Del("{captcha}:periods:" + string(id))
	w.redis.HSet("{captcha}:periods:"+string(id), "days", fmt.Sprint(time.Now().Unix()/86400*24)+strings.Repeat("|0", 10))
	for _, key := range w.redis.Keys() {
		if strings.HasPrefix(key, "{captcha}:minutes:"+string(id)) {
			w.redis.Del(key)
		}
	}
}

// TestStatusDocumentIsGolden compares the whole document with a golden file, because the names and
// types of the fields must never change.
func TestStatusDocumentIsGolden(t *testing.T) {
	began := time.Now()
	set := sampleSet()
	set.Warnings = []targets.Problem{{File: "pools.yaml", Line: 3, Text: "a poll each 100ms is unusual"}}
	d := start(t, set, nil, nil)
	busyDay(t, d)
	a := d.ask(t, "GET", "/status.json")
	if a.status != 200 || a.header.Get("Content-Type") != "application/json" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", a.status, a.header)
	}
	document := parseAnswer[any](t, a)
	login := document.(map[string]any)["targets"].([]any)[1].(map[string]any)
	if left, _ := login["next_expiry_s"].(float64); left > 31.5 || left < 26.5 {
		t.Errorf("the next one expires in %v, of 31.5 s when it landed", left)
	}
	still := regexp.MustCompile(`"next_expiry_s":[0-9.]+`).ReplaceAllString(a.body, `"next_expiry_s":31.5`)
	still = regexp.MustCompile(`"as_of":"[^"]+Z"`).ReplaceAllString(still, `"as_of":"2026-01-02T03:04:06.789Z"`)
	for _, day := range []time.Time{began, time.Now()} {
		still = strings.ReplaceAll(still, day.UTC().Format(time.DateOnly), "2026-01-02")
	}
	pretty, err := json.MarshalIndent(json.RawMessage(still), "", "  ")
	testkit.NoError(t, err)
	golden(t, "status.json", append(pretty, '\n'))

	one := parseAnswer[map[string]any](t, d.ask(t, "GET", "/pool/staging-login"))
	delete(login, "next_expiry_s")
	delete(one, "next_expiry_s")
	if day := asJSON(t, one["last_day"]); day != `{"bought":0,"hit_rate":0,"hits":0,"hours":[],"misses":0,"requests":0,"solved":0,"waited":0}` {
		t.Errorf("last_day: %s", day)
	}
	delete(one, "last_day")
	if hour := one["hour"].(map[string]any); hour["minutes"] == nil {
		t.Error("no minutes")
	} else {
		delete(hour, "minutes")
	}
	if got, want := asJSON(t, one), asJSON(t, login); got != want {
		t.Errorf("GET /pool/staging-login: %s\nin /status.json: %s", got, want)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	testkit.NoError(t, err)
	return string(b)
}

// golden compares a text with a file in testdata. With -update, golden writes the file instead.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		testkit.NoError(t, os.WriteFile(file, got, 0o600))
	}
	want, err := os.ReadFile(file)
	testkit.NoError(t, err)
	equal(t, name+" (-update writes it anew)", string(got), string(want))
}

// TestStatusWithoutRedisAnswersWithinASecond: the page shows an outage of Redis within a second,
// even if Redis hangs.
func TestStatusWithoutRedisAnswersWithinASecond(t *testing.T) {
	for name, fault := range map[string]func(d *daemon){
		"down": func(d *daemon) { d.stock.redis.SetDown(true) },
		"hangs": func(d *daemon) {
			d.stock.before = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
		},
	} {
		d := start(t, sampleSet(), nil, nil)
		busyDay(t, d)
		fault(d)
		if name == "hangs" { // a provider's status contains counts from Redis, so it hangs too
			d.buyer.providers = func(ctx context.Context) []purchase.Status {
				<-ctx.Done()
				return []purchase.Status{d.provider}
			}
		}
		var a answer
		testkit.InASecond(t, func() { a = d.ask(t, "GET", "/status.json") })
		document := parseAnswer[status.Document](t, a)
		if document.Redis.OK || document.Ready || len(document.Targets) != 3 || len(document.Providers) != 1 {
			t.Errorf("%s: %s", name, a.body)
		}
		if login := document.Targets[1]; login.State != "starved" || login.Fresh != 0 || login.NextExpiry != nil || login.Depth != 5 {
			t.Errorf("%s: %+v", name, login)
		}
		d.ask(t, "GET", "/status", "Accept: text/html").check(t, name, 200, "edis does not answer", ": no token is handed out and nothing is bought")
	}
}

// TestFullRedisKeepsReadiness: if Redis is out of memory, this replica stays ready, because it hands out the
// tokens in stock. /readyz and /status contain the reason.
func TestFullRedisKeepsReadiness(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.stock.ill.Store(&redisdb.Health{Full: true, Reason: "redis is out of memory"})
	equal(t, "readyz", d.ask(t, "GET", "/readyz").body, `{"ready":true,"reasons":["redis is out of memory"]}`+"\n")
	d.ask(t, "GET", "/status.json").check(t, "status", 200, `"redis":{"mode":"single","ok":false,"reason":"redis is out of memory"}`, `"ready":true`)
}
