package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/solve"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func idIn(t *testing.T, a answer) string {
	t.Helper()
	var token struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &token); a.status != 200 || err != nil || token.ID == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return token.ID
}

// TestAuditNotesEachTokenOnce: the audit contains each handed-out token once, with the order of the id in the response,
// and each counted report. testdata/audit.txt has the rows, without their ids and times. For POST /solve, package pool
// makes the row of what the call has; only a shared token gets its own row.
func TestAuditNotesEachTokenOnce(t *testing.T) {
	set := solvingSet(t, allKeys()...)
	set.Targets[2].OnEmpty = targets.OnEmptySolve // staging-signup
	d := start(t, set, nil, nil)
	var text strings.Builder
	known := 0
	noted := func(what, id string, rows int) {
		t.Helper()
		var list []history.Handout
		// a shared token is noted after the answer has left
		testkit.Within(t, 20*time.Second, what, func() bool { list = d.noted(t); return len(list) >= known+rows })
		if order, _, _ := strings.Cut(id, "."); order != "" {
			what += ": " + order
		}
		text.WriteString(what + "\n")
		for _, h := range list[known:] {
			if age := time.Since(h.At.Time); h.ID == "" || age < -time.Second || age > time.Minute {
				t.Errorf("%s: %+v", what, h)
			}
			h.ID, h.At = "", history.Time{}
			_, _ = fmt.Fprintf(&text, "\t%s\n", asJSON(t, h))
		}
		known = len(list)
	}
	const login, again = "/pool/staging-login/token", "Idempotency-Key: canary"
	d.fill(t, "staging-login", 2)
	first := d.takeOne(t, bearer(keyStaging))
	noted("from the stock", first, 1)
	plain := d.ask(t, "GET", login, bearer(keyAll), again, "Accept: text/plain")
	noted("as text", "", 1)
	replay := d.ask(t, "GET", login, bearer(keyAll), again)
	second := idIn(t, replay)
	noted("again with the same Idempotency-Key", second, 0)
	testkit.Equal(t, "the answer as text", plain.body, parseAnswer[tokenAnswer](t, replay).Token)

	got := make(chan answer, 1)
	go func() { got <- d.ask(t, "GET", "/pool/staging-signup/token", bearer(keyAll)) }() // which waits for a solve
	testkit.Within(t, 20*time.Second, "it waits",
		func() bool { return d.stock.readStock(t, d.target("staging-signup")).Waiting == 1 })
	d.fill(t, "staging-signup", 1)
	noted("for which its caller waited", idIn(t, <-got), 1)

	of := second + "." + string(d.target("staging-login").ID)
	for _, c := range []struct {
		key, path, outcome string
		want, rows         int
	}{
		{keyStaging, login + "/" + first, "accepted", 204, 1}, {keyStaging, login + "/" + first, "rejected", 409, 0},
		{keyAll, "/solve/" + of + ".canary-type", "rejected", 404, 0},
		{keyAll, "/solve/" + of + ".recaptcha_v2", "rejected", 204, 1},
	} {
		d.report(t, c.path+"/report", `{"outcome":"`+c.outcome+`"}`, bearer(c.key)).check(t, c.path, c.want)
		noted("a report, "+c.outcome+", answered "+fmt.Sprint(c.want), "", c.rows)
	}

	image := `{"type":"image","image":"` + base64.StdEncoding.EncodeToString([]byte("a picture, canary-picture")) + `"%s}`
	const shared = `,"dedup":"identity"`
	for _, c := range []struct {
		what, body string
		source     pool.Source
		rows       int
	}{
		{"a guest's solve", fmt.Sprintf(guestBody, ""), pool.FromSolve, 0},
		{"a solve for a target", fmt.Sprintf(targetBody, "checkout"), pool.FromSolve, 0},
		{"a picture's solve", fmt.Sprintf(image, ""), pool.FromSolve, 0},
		{"a picture that another caller pays", fmt.Sprintf(image, shared), solve.FromShared, 1},
		{"a solve that others may share", fmt.Sprintf(guestBody, shared), pool.FromSolve, 1},
	} {
		d.solver.token = pool.Token{Order: "tok1", Source: c.source, Price: 400}
		id := idIn(t, d.solve(t, c.body, bearer(keyAll)))
		call := d.solver.asked.last().Call
		hash, _ := pool.IdentityOf(call.ID)
		testkit.Equal(t, "the id", id, d.idOf(t, "tok1", "key\x00all\x00")+"."+string(hash)+"."+
			id[strings.LastIndex(id, ".")+1:])
		noted(c.what+", with the call "+call.Row, id, c.rows)
		var row history.Ask
		testkit.NoError(t, json.Unmarshal([]byte(call.Row), &row))
		for field, value := range reflect.ValueOf(row).Fields() {
			if row.Image != "" && value.IsZero() { // the request has all properties
				t.Errorf("%s of history.Ask is empty: fill it in Server.Row (token.go)", field.Name)
			}
		}
	}
	d.solver.err = &pool.EmptyError{}
	d.solve(t, fmt.Sprintf(guestBody, ""), bearer(keyAll))
	noted("a solve without a token", "", 0)
	testkit.Equal(t, "a token or a key in the audit", strings.Contains(text.String(), "canary"), false)
	testkit.Published(t, "testdata/audit.txt", text.String())
}

// TestKeyRequestsCountByOutcome: each request for a token, a solve or a report counts for its key, by outcome. In
// testdata/keyrequests.txt, the outcome stands below a key, the request and its body; requests without a valid key, or
// for other routes, do not count.
func TestKeyRequestsCountByOutcome(t *testing.T) {
	keys := append(allKeys(), targets.Key{Name: "slow", SHA256: sha256.Sum256([]byte("canary-key-slow")),
		Scopes: allKeys()[0].Scopes, Rate: targets.Rate{Count: 1, Per: time.Hour}})
	d := start(t, solvingSet(t, keys...), nil, nil)
	d.fill(t, "staging-login", 1)
	want := map[string]int{}
	count := func(key, outcome string) { want[fmt.Sprintf("{key=%q,outcome=%q}", key, outcome)]++ }
	id := d.takeOne(t, bearer(keyAll))
	count("all", "ok")
	secrets := map[string]string{"all": keyAll, "staging": keyStaging, "looker": keyStatus, "slow": "canary-key-slow",
		"wrong": "canary-key-wrong"}
	eachCase(t, "keyrequests.txt", func(request, outcome string) {
		parts := strings.SplitN(strings.ReplaceAll(request, "{id}", id)+" ", " ", 4)
		d.send(t, parts[1], parts[2], strings.NewReader(strings.TrimSpace(parts[3])), bearer(secrets[parts[0]]), isJSON)
		if outcome != "does not count" {
			count(parts[0], outcome)
		}
	})
	d.stock.before = func(_ context.Context, call string) error {
		if call == "take" {
			panic("canary")
		}
		return nil
	}
	d.ask(t, "GET", "/pool/staging-login/token", bearer(keyAll))
	count("all", "internal")
	series := regexp.MustCompile(`(?m)^poold_key_requests_total({.*}) (\d+)$`)
	var got map[string]int
	// A request is counted after its response is sent.
	testkit.Within(t, 20*time.Second, "all are counted", func() bool {
		got = map[string]int{}
		for _, line := range series.FindAllStringSubmatch(d.ask(t, "GET", "/metrics", bearer(keyAll)).body, -1) {
			got[line[1]], _ = strconv.Atoi(line[2])
		}
		return len(got) >= len(want)
	})
	testkit.DeepEqual(t, "series", got, want)
}
