package httpapi

import (
	"fmt"
	"strconv"
	"testing"

	"poold/internal/httpapi/kernel"
)

// TestGuessing: after twenty wrong keys in a minute their address is told to wait;
// a right key from there is served all the time, and no key at all is no guess.
func TestGuessing(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "staging-login", 3)
	const path = "/pool/staging-login/token"
	for range 30 {
		checkProblem(t, "no key", d.ask(t, "GET", path), 401, kernel.CodeUnauthorized, "")
		checkProblem(t, "an empty one", d.ask(t, "GET", path, bearer("")), 401, kernel.CodeUnauthorized, "")
	}
	for i := range triesAMinute {
		header := []string{bearer(fmt.Sprint("wrong", i)), basic(fmt.Sprint("wrong", i))}[i%2]
		checkProblem(t, "wrong", d.ask(t, "GET", path, header), 401, kernel.CodeUnauthorized, "")
		if i == 10 {
			d.takeOne(t, bearer(keyAll))
		}
	}
	for _, headers := range [][]string{
		{bearer("wrong")}, {basic("wrong")},
		{bearer("wrong"), "X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1", "X-Real-IP: 192.0.2.1"}, // anybody can write that
	} {
		a := d.ask(t, "GET", path, headers...)
		checkProblem(t, "one more", a, 429, kernel.CodeRateLimited, "")
		if retry, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || retry < 30 || retry > 60 {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
	}
	d.takeOne(t, bearer(keyAll))
	d.takeOne(t, basic(keyAll))
	if a := d.ask(t, "GET", "/status", bearer(keyStatus)); a.status != 200 {
		t.Errorf("another right key: %d", a.status)
	}
	checkProblem(t, "no key", d.ask(t, "GET", path), 401, kernel.CodeUnauthorized, "")
	for _, open := range []string{"/healthz", "/status.css"} {
		if a := d.ask(t, "GET", open, bearer("wrong")); a.status != 200 {
			t.Errorf("%s needs no key: %d", open, a.status)
		}
	}
}
