package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
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
	set.Providers[0].Price[0] = 2.99   // recaptcha_v2
	set.Providers[0].Price[3] = 0.0004 // turnstile
	return set
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
// response, and each counted report. This test has the values of each column.
func TestAuditNotesEachTokenOnce(t *testing.T) {
	set := withPrices(solvingSet(t, allKeys()...))
	set.Targets[2].OnEmpty = targets.OnEmptySolve
	d := start(t, set, nil, nil)
	var want []history.Handout
	noted := func(what string, h history.Handout, id string) {
		t.Helper()
		h.Order, _, _ = strings.Cut(id, ".")
		want = append(want, h)
		got := d.noted(t)
		if len(got) != len(want) {
			t.Fatalf("%s: %+v", what, got)
		}
		last := got[len(got)-1]
		if age := time.Since(last.At.Time); last.ID == "" || age < -time.Second || age > time.Minute {
			t.Errorf("%s: %+v", what, last)
		}
		last.ID, last.At = "", history.Time{}
		testkit.Equal(t, what, last, h)
	}
	const login = "/pool/staging-login/token"

	d.fill(t, "staging-login", 2)
	id := idIn(t, d.ask(t, "GET", login, bearer(keyStaging)))
	noted("from the stock", history.Handout{Key: "staging", Action: history.Taken, Target: "staging-login", Source: "pool",
		Price: history.MoneyUnknown}, id)
	again := "Idempotency-Key: canary"
	text := d.ask(t, "GET", login, bearer(keyAll), again, "Accept: text/plain")
	replay := d.ask(t, "GET", login, bearer(keyAll), again)
	id2 := idIn(t, replay) // it gets no second entry
	if same := parseAnswer[tokenAnswer](t, replay).Token; text.status != 200 || text.body != same || id2 == id {
		t.Errorf("%d %s, and then %s with the id %s", text.status, text.body, same, id2)
	}
	noted("as text", history.Handout{Key: "all", Action: history.Taken, Target: "staging-login", Source: "pool",
		Price: history.MoneyUnknown}, id2)

	got := make(chan answer, 1)
	go func() { got <- d.ask(t, "GET", "/pool/staging-signup/token", bearer(keyAll)) }() // which waits for a solve
	testkit.Within(t, 20*time.Second, "it waits",
		func() bool { return d.stock.readStock(t, d.target("staging-signup")).Waiting == 1 })
	d.fill(t, "staging-signup", 1)
	noted("for which its caller waited", history.Handout{
		Key: "all", Action: history.Bought, Target: "staging-signup", Source: "solve", Price: history.MoneyUnknown,
	}, idIn(t, <-got))

	of := "." + string(d.target("staging-login").ID)
	for _, c := range []struct {
		key, path, outcome string
		want               int
		by                 string // the key in the audit; "" = no entry
	}{
		{keyStaging, login + "/" + id + "/report", "accepted", 204, "staging"},
		{keyStaging, login + "/" + id + "/report", "rejected", 409, ""},
		{keyAll, "/solve/" + id2 + of + ".canary-type/report", "rejected", 404, ""},
		{keyAll, "/solve/" + id2 + of + ".recaptcha_v2/report", "rejected", 204, "all"},
	} {
		what := fmt.Sprintf("%+v", c)
		testkit.Equal(t, what, d.report(t, c.path, `{"outcome":"`+c.outcome+`"}`, bearer(c.key)).status, c.want)
		if c.by != "" {
			about := map[string]string{"staging": id, "all": id2}[c.by]
			noted(what, history.Handout{Key: c.by, Action: history.Action(c.outcome), Target: "staging-login"}, about)
		}
	}

	picture := []byte("a picture, canary-picture")
	sum := sha256.Sum256(picture)
	image := "sha256:" + hex.EncodeToString(sum[:]) + ", 25 bytes"
	imageBody := `{"type":"image","image":"` + base64.StdEncoding.EncodeToString(picture) + `"%s}`
	for _, c := range []struct {
		body   string
		source pool.Source
		row    history.Ask      // that the take gets
		want   *history.Handout // of a shared token; nil = the take has the row
	}{
		{fmt.Sprintf(guestBody, ""), pool.FromSolve, history.Ask{Target: "/solve"}, nil},
		{fmt.Sprintf(targetBody, "checkout"), pool.FromSolve, history.Ask{Target: "checkout"}, nil},
		{fmt.Sprintf(imageBody, ""), pool.FromSolve, history.Ask{Target: "/solve", Image: image}, nil},
		{fmt.Sprintf(imageBody, `,"dedup":"identity"`), solve.FromShared, history.Ask{Target: "/solve", Image: image},
			&history.Handout{Key: "all", Action: history.Taken, Target: "/solve", Image: image, Source: "shared"}},
		{fmt.Sprintf(guestBody, `,"dedup":"identity"`), pool.FromSolve, history.Ask{Target: "/solve"},
			&history.Handout{Key: "all", Action: history.Bought, Target: "/solve", Source: "solve", Price: 400}},
	} {
		d.solver.token = pool.Token{Order: "tok1", Value: "canary-token", Born: day, Dies: day.Add(time.Minute),
			TTL: time.Minute, Source: c.source, Price: 400}
		id := idIn(t, d.solve(t, c.body, bearer(keyAll)))
		call := d.solver.last().Call
		hash, _ := pool.IdentityOf(call.ID)
		testkit.Equal(t, "the id", id, d.idOf(t, "tok1", "key\x00all\x00")+"."+string(hash)+"."+
			id[strings.LastIndex(id, ".")+1:])
		c.row.Key, c.row.Buys = "all", true
		testkit.Equal(t, c.body, call.Row, c.row.Row())
		for field, value := range reflect.ValueOf(c.row).Fields() {
			if c.row.Image != "" && value.IsZero() { // the request has all properties
				t.Errorf("%s of history.Ask is empty: fill it in Server.Row (token.go), and here", field.Name)
			}
		}
		if c.want != nil { // it is noted after the answer has left
			testkit.Within(t, 20*time.Second, "it is noted", func() bool { return len(d.noted(t)) > len(want) })
			noted(c.body, *c.want, "tok1")
		}
	}
	d.solver.err = &pool.EmptyError{}
	d.solve(t, fmt.Sprintf(guestBody, ""), bearer(keyAll))
	if all := fmt.Sprint(d.noted(t)); strings.Contains(all, "canary") {
		t.Error(all)
	}
}

// TestKeyRequestsCountByOutcome: each request for a token, a solve or a report counts for its
// key, by outcome.
func TestKeyRequestsCountByOutcome(t *testing.T) {
	keys := append(allKeys(), targets.Key{Name: "slow", SHA256: sha256.Sum256([]byte("canary-key-slow")),
		Scopes: allKeys()[0].Scopes, Rate: targets.Rate{Count: 1, Per: time.Hour}})
	d := start(t, solvingSet(t, keys...), nil, nil)
	d.solver.token = pool.Token{Order: "tok1", Value: "canary-token", Source: pool.FromSolve}
	const login = "/pool/staging-login/token"
	d.fill(t, "staging-login", 1)
	id := d.takeOne(t, bearer(keyAll))
	d.ask(t, "GET", login, bearer(keyAll))
	d.ask(t, "GET", login+"?canary-query=1", bearer(keyAll))
	d.ask(t, "GET", "/pool/checkout/token", bearer(keyStaging))
	d.ask(t, "GET", "/pool/staging-canary/token", bearer(keyStaging))
	d.ask(t, "GET", login, bearer(keyStatus))
	d.report(t, login+"/"+id+"/report", `{"outcome":"accepted"}`, bearer(keyAll))
	d.report(t, login+"/"+id+"/report", `{"outcome":"rejected"}`, bearer(keyAll))
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
		`{key="all",outcome="already_reported"} 1`, `{key="all",outcome="bad_request"} 1`, `{key="all",outcome="internal"} 1`,
		`{key="all",outcome="ok"} 3`, `{key="all",outcome="pool_empty"} 1`, `{key="looker",outcome="forbidden"} 1`,
		`{key="slow",outcome="ok"} 1`, `{key="slow",outcome="rate_limited"} 1`, `{key="staging",outcome="forbidden"} 2`,
		`{key="staging",outcome="unknown_target"} 1`,
	}
	var got []string
	// A request is counted after its response is sent.
	testkit.Within(t, 20*time.Second, "all are counted", func() bool { got = series(); return len(got) >= len(want) })
	testkit.DeepEqual(t, "series", got, want)
}
