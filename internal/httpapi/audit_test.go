package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/solve"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func withPrices(set *targets.Set) *targets.Set {
	set.Providers[0].Price = targets.Prices{RecaptchaV2: targets.Costs(2.99), Turnstile: targets.Costs(0.0004)}
	return set
}

// nextEntry waits for entry n of the audit, and checks the common fields of all entries.
func (d *daemon) nextEntry(t *testing.T, n int) history.Entry {
	t.Helper()
	testkit.Within(t, 20*time.Second, "it is noted", func() bool { return len(d.audit.noted()) > n })
	e := d.audit.noted()[n]
	if age := time.Since(e.At); age < 0 || age > time.Minute || e.At.Location() != time.UTC || e.At.Nanosecond()%1e6 != 0 {
		t.Errorf("entry %d is of %v", n, e.At)
	}
	if !regexp.MustCompile(`^[A-Z2-7]{26}$`).MatchString(e.ID) {
		t.Errorf("entry %d has the id %q", n, e.ID)
	}
	for _, other := range d.audit.noted()[:n] {
		if other.ID == e.ID {
			t.Errorf("entry %d has the id of another", n)
		}
	}
	e.ID, e.At = "", time.Time{}
	return e
}

func idIn(t *testing.T, a answer) string {
	t.Helper()
	var token struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &token); a.status != 200 || err != nil || token.ID == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return token.ID
}

// TestAuditNotesEachTokenOnce: the audit contains each handed-out token once, with the id in the
// response, and each counted report.
func TestAuditNotesEachTokenOnce(t *testing.T) {
	set := withPrices(solvingSet(t, allKeys()...))
	set.Targets[2].OnEmpty = targets.OnEmptySolve
	d := start(t, set, nil, nil)
	n := 0
	noted := func(what string, want history.Entry) {
		t.Helper()
		equal(t, what, d.nextEntry(t, n), want)
		n++
	}
	const login = "/pool/staging-login/token"

	d.fill(t, "staging-login", 2)
	id := idIn(t, d.ask(t, "GET", login, bearer(keyStaging)))
	noted("from the stock", history.Entry{Key: "staging", Action: history.Taken, Target: "staging-login", Token: id, Source: "pool"})
	again := "Idempotency-Key: canary"
	text := d.ask(t, "GET", login, bearer(keyAll), again, "Accept: text/plain")
	id2 := idIn(t, d.ask(t, "GET", login, bearer(keyAll), again)) // a replay gets no second entry
	if text.status != 200 || id2 == id {
		t.Errorf("%d, %s", text.status, id2)
	}
	noted("as text", history.Entry{Key: "all", Action: history.Taken, Target: "staging-login", Token: id2, Source: "pool"})

	for _, c := range []struct {
		target, query string
		want          history.Entry
	}{
		{"staging-login", "?wait=20s", history.Entry{Key: "all", Action: history.Taken, Source: "wait"}},
		{"staging-signup", "", history.Entry{Key: "all", Action: history.Bought, Source: "solve", Price: 2_990_000}},
	} {
		got := make(chan answer, 1)
		go func() { got <- d.ask(t, "GET", "/pool/"+c.target+"/token"+c.query, bearer(keyAll)) }()
		testkit.Within(t, 20*time.Second, "it waits", func() bool { return d.stock.readStock(t, d.target(c.target)).Waiting == 1 })
		d.fill(t, c.target, 1)
		c.want.Target, c.want.Token = c.target, idIn(t, <-got)
		noted("for which its caller waited", c.want)
	}

	report := func(key, path, outcome string) int {
		t.Helper()
		return d.report(t, path, `{"outcome":"`+outcome+`"}`, bearer(key)).status
	}
	for _, c := range []struct {
		key, path, outcome string
		want               int
	}{
		{keyAll, login + "/" + id + "/report", "accepted", 404},     // another caller took the token
		{keyStaging, login + "/" + id + "/report", "perhaps", 400},  //
		{keyStaging, login + "/" + id + "/report", "accepted", 204}, // the audit gets an entry
		{keyStaging, login + "/" + id + "/report", "rejected", 409},
		{keyAll, "/solve/" + id2 + "." + string(d.target("staging-login").ID) + ".canary-type/report", "rejected", 404},
		{keyAll, "/solve/" + id2 + "." + string(d.target("staging-login").ID) + ".recaptcha_v2/report", "rejected", 204}, // the audit gets an entry
	} {
		equal(t, fmt.Sprintf("%+v", c), report(c.key, c.path, c.outcome), c.want)
	}
	noted("a report", history.Entry{Key: "staging", Action: history.Accepted, Target: "staging-login", Token: id})
	noted("another", history.Entry{Key: "all", Action: history.Rejected, Target: "staging-login", Token: id2 + "." + string(d.target("staging-login").ID) + ".recaptcha_v2"})

	picture := []byte("a picture, canary-picture")
	sum := sha256.Sum256(picture)
	image := "sha256:" + hex.EncodeToString(sum[:]) + ", 25 bytes"
	imageBody := `{"type":"image","image":"` + base64.StdEncoding.EncodeToString(picture) + `"%s}`
	for _, c := range []struct {
		body     string
		source   pool.Source
		provider string
		want     history.Entry
	}{
		{fmt.Sprintf(guestBody, ""), solve.FromSolve, "solver", history.Entry{Action: history.Bought, Target: "/solve", Price: 400}},
		{fmt.Sprintf(guestBody, ""), solve.FromSolve, "former", history.Entry{Action: history.Bought, Target: "/solve", Price: -1}}, // no price is known
		{fmt.Sprintf(guestBody, ""), pool.FromPool, "solver", history.Entry{Action: history.Taken, Target: "/solve"}},
		{fmt.Sprintf(targetBody, "checkout"), solve.FromSolve, "solver", history.Entry{Action: history.Bought, Target: "checkout", Price: 2_990_000}},
		{fmt.Sprintf(imageBody, ""), solve.FromSolve, "solver", history.Entry{Action: history.Bought, Target: "/solve", Image: image, Price: -1}},
		{fmt.Sprintf(imageBody, `,"dedup":"identity"`), solve.FromShared, "solver", history.Entry{Action: history.Taken, Target: "/solve", Image: image}},
		{fmt.Sprintf(imageBody, `,"dedup":"identity"`), solve.FromShared, "solver", history.Entry{Action: history.Taken, Target: "/solve", Image: image}},
	} {
		d.solver.token = pool.Token{Order: "tok1", Value: "canary-token", Provider: c.provider, Born: day, Dies: day.Add(time.Minute), TTL: time.Minute, Source: c.source}
		c.want.Key, c.want.Source, c.want.Token = "all", string(c.source), idIn(t, d.solve(t, c.body, bearer(keyAll)))
		noted(c.body, c.want)
		hash, _ := pool.Hash(d.solver.last().Call.ID)
		equal(t, "the id", c.want.Token, d.idOf(t, "tok1", "key\x00all\x00")+"."+string(hash)+"."+c.want.Token[strings.LastIndex(c.want.Token, ".")+1:])
	}
	d.solver.token.Source = pool.FromReplay
	d.solve(t, fmt.Sprintf(guestBody, ""), bearer(keyAll), again).check(t, "the answer", 200)
	d.solver.err = &pool.EmptyError{}
	d.solve(t, fmt.Sprintf(guestBody, ""), bearer(keyAll))
	testkit.Within(t, 20*time.Second, "all requests are over", func() bool { return strings.Count(d.logged.String(), `"msg":"request"`) == 20 })
	if all := d.audit.noted(); len(all) != n || strings.Contains(fmt.Sprint(all), "canary") {
		t.Errorf("%d entries, want %d: %+v", len(all), n, all)
	}
}

// TestKeyRequestsCountByOutcome: each request for a token, a solve or a report counts for its
// key, by outcome.
func TestKeyRequestsCountByOutcome(t *testing.T) {
	keys := append(allKeys(), targets.Key{Name: "slow", SHA256: sha256.Sum256([]byte("canary-key-slow")), Scopes: allKeys()[0].Scopes, Rate: targets.Rate{Count: 1, Per: time.Hour}})
	d := start(t, solvingSet(t, keys...), nil, nil)
	d.solver.token = pool.Token{Order: "tok1", Value: "canary-token", Source: solve.FromSolve}
	const login = "/pool/staging-login/token"
	d.fill(t, "staging-login", 1)
	id := d.takeOne(t, bearer(keyAll))
	d.ask(t, "GET", login, bearer(keyAll))
	d.ask(t, "GET", login+"?canary-query=1", bearer(keyAll))
	d.ask(t, "GET", "/pool/checkout/token", bearer(keyStaging))
	d.ask(t, "GET", "/pool/staging-canary/token", bearer(keyStaging))
	d.ask(t, "GET", login, bearer(keyStatus))
	d.report(t, login+"/"+id+"/report", `{"outcome":"accepted"}`, bearer(keyAll))
	d.report(t, login+"/"+id+"/report", `{"outcome":"accepted"}`, bearer(keyAll))
	d.solve(t, fmt.Sprintf(guestBody, ""), bearer(keyStaging))
	d.solve(t, fmt.Sprintf(guestBody, ""), bearer(keyAll))
	for range 2 {
		d.solve(t, fmt.Sprintf(guestBody, ""), "Authorization: Bearer canary-key-slow")
	}
	d.stock.before = func(_ context.Context, call string) error {
		if call == "take" {
			panic("canary")
		}
		return nil
	}
	d.ask(t, "GET", login, bearer(keyAll))
	// These requests do not count: they have no valid key, or are for other routes.
	d.ask(t, "GET", login, "Authorization: Bearer canary-key-wrong")
	d.ask(t, "GET", login)
	d.ask(t, "HEAD", login, bearer(keyAll))
	d.ask(t, "GET", "/status.json", bearer(keyAll))
	d.ask(t, "GET", "/status.json", bearer(keyStatus))
	d.send(t, "POST", "/pool/staging-login/pause", strings.NewReader(`{"for":"1s"}`), bearer(keyAll), isJSON)

	series := func() (lines []string) {
		for line := range strings.Lines(d.ask(t, "GET", "/metrics", bearer(keyAll)).body) {
			if strings.HasPrefix(line, "poold_key_requests_total{") {
				lines = append(lines, strings.TrimSpace(strings.TrimPrefix(line, "poold_key_requests_total")))
			}
		}
		return lines
	}
	want := []string{
		`{key="all",outcome="already_reported"} 1`, `{key="all",outcome="bad_request"} 1`, `{key="all",outcome="internal"} 1`, `{key="all",outcome="ok"} 3`,
		`{key="all",outcome="pool_empty"} 1`, `{key="looker",outcome="forbidden"} 1`, `{key="slow",outcome="ok"} 1`, `{key="slow",outcome="rate_limited"} 1`,
		`{key="staging",outcome="forbidden"} 2`, `{key="staging",outcome="unknown_target"} 1`,
	}
	var got []string
	// A request is counted after its response is sent.
	testkit.Within(t, 20*time.Second, "all are counted", func() bool { got = series(); return len(got) >= len(want) })
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	d.config.set.Store(sampleSet(allKeys()[:1]...))
	if got := series(); !slices.Equal(got, want[:5]) {
		t.Errorf("of keys that are gone: %q", got)
	}
	d.config.set.Store(sampleSet())
	d.ask(t, "GET", "/pool/checkout/token?x")
	testkit.Within(t, 20*time.Second, "it is counted", func() bool { return slices.Equal(series(), []string{`{key="-",outcome="bad_request"} 1`}) })
	d.config.set.Store(sampleSet(allKeys()...))
	equal(t, "of callers without a key, where all need one", len(series()), 0)
}
