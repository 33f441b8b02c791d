package httpapi

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"poold/internal/testkit"
)

func basic(key string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("anyone:"+key))
}

func (d *daemon) forgetWrongKeys() {
	d.wrongKeys, d.wrongLogged = perSender(triesAMinute, RetryWrong), perSender(1, time.Minute)
}

// TestChallengeOffersBasicForPagesOnly: only routes that change nothing offer Basic, because Basic
// makes a browser prompt for a password. A response 403 has no challenge.
func TestChallengeOffersBasicForPagesOnly(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	for path, want := range map[string][]string{
		"/status":                   {`Basic realm="poold", charset="UTF-8"`, `Bearer realm="poold"`},
		"/metrics":                  {`Basic realm="poold", charset="UTF-8"`, `Bearer realm="poold"`},
		"/pool/staging-login/token": {`Bearer realm="poold"`}, // a picture in a page must not open a password dialogue
	} {
		a := d.ask(t, "GET", path)
		checkProblem(t, path, a, 401, CodeUnauthorized, "")
		testkit.DeepEqual(t, path+": WWW-Authenticate", a.header.Values("WWW-Authenticate"), want)
	}
	a := d.ask(t, "POST", "/pool/staging-login/pause", bearer(keyStatus))
	checkProblem(t, "a key without the scope", a, 403, CodeForbidden, "")
	testkit.Equal(t, "its challenge", a.header.Get("WWW-Authenticate"), "")
}

// untilRefused repeats a request until it is refused for its rate, and checks the answers before.
func untilRefused(t *testing.T, status int, send func(i int) answer) {
	t.Helper()
	const least = 19 // one may have been sent before
	for i := range 100 {
		a := send(i)
		if a.status == status {
			continue
		}
		checkProblem(t, a.asked, a, 429, CodeRateLimited, "")
		if i < least || a.header.Get("Retry-After") != "3" {
			t.Errorf("%d requests were allowed; Retry-After %q", i, a.header.Get("Retry-After"))
		}
		return
	}
	t.Error("100 requests were allowed")
}

// TestWrongKeysAreSlowedByAddress: after twenty wrong keys, an address may send one more each three
// seconds. A right key from this address is always served. A request without a key does not count.
// They are logged once a minute and address, on all routes.
func TestWrongKeysAreSlowedByAddress(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "staging-login", 3)
	const path = "/pool/staging-login/token"
	for range 30 {
		checkProblem(t, "no key", d.ask(t, "GET", path), 401, CodeUnauthorized, "")
		checkProblem(t, "an empty one", d.ask(t, "GET", path, bearer("")), 401, CodeUnauthorized, "")
	}
	lines := func() int { return d.logged.Count(`"level":"WARN"`, `"address":"127.0.0.1"`, "a caller's key") }
	testkit.Equal(t, "lines about missing keys", lines(), 0)
	d.callInPHP(t, inPHPSubmit("canary-key-wrong", "checkout"))
	untilRefused(t, 401, func(i int) answer {
		if i == 10 {
			d.takeOne(t, bearer(keyAll))
		}
		// Any client can set the headers of a proxy.
		return d.ask(t, "GET", path, []string{bearer("wrong"), basic("wrong")}[i%2],
			fmt.Sprint("X-Forwarded-For: 192.0.2.", i), "X-Real-IP: 192.0.2.1")
	})
	testkit.Equal(t, "lines in the log", lines(), 1)
	d.takeOne(t, bearer(keyAll))
	d.takeOne(t, basic(keyAll))
	d.ask(t, "GET", "/status", bearer(keyStatus)).check(t, "another right key", 200)
	checkProblem(t, "no key", d.ask(t, "GET", path), 401, CodeUnauthorized, "")
	for _, open := range []string{"/healthz", "/status.css"} {
		d.ask(t, "GET", open, bearer("wrong")).check(t, open+" needs no key", 200)
	}
}
