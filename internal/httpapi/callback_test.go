package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/spool"
	"poold/internal/testkit"
)

func (f *fakeBuyer) receivedCallbacks() []purchase.Callback {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.callbacks)
}

// TestCallbackReachesTheBuyerUnchanged: the buyer gets a callback as the service sent it, and the
// service gets an empty 200.
func TestCallbackReachesTheBuyerUnchanged(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	for i, c := range []struct {
		name, method, path, body string
		headers                  []string
		order, secret, query     string // the fields that the buyer must get
		oversized                bool   // the body is too large for a token, and is not read to its end
	}{
		{name: "a query", method: "GET", path: "/callback/solver/o-1/s1?id=7&code=OK", order: "o-1", secret: "s1",
			query: "code=OK&id=7"},
		{name: "a form", method: "POST", path: "/callback/solver/o-1/s1", body: "id=7&code=03AF", headers: []string{isForm},
			order: "o-1", secret: "s1"},
		{name: "JSON", method: "POST", path: "/callback/solver/o-1/s1?x=1", body: `{"taskId":7}`, headers: []string{isJSON},
			order: "o-1", secret: "s1", query: "x=1"},
		{name: "no type", method: "POST", path: "/callback/solver/o-1/s1", body: "\x00\xff", order: "o-1", secret: "s1"},
		{name: "a browser of another site", method: "POST", path: "/callback/solver/o-1/s1", order: "o-1", secret: "s1",
			headers: []string{"Host: poold.example.com", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site",
				"X-Forwarded-For: 192.0.2.1"}},
		{name: "a path with escapes", method: "GET", path: "/callback/sol%76er/o%2F1/s%2525%20+?%zz&id=7;8", order: "o/1",
			secret: "s%25 +"},
		{name: "a path whose escapes net/http takes away", method: "GET", path: "/callback/solver/a%20b/%C3%A4", order: "a b",
			secret: "ä"},
		{name: "a path of rubbish", method: "GET", path: "/callback/solver/%00%0A%ff/..%2f..%2f", order: "\x00\n\xff",
			secret: "../../"},
		{name: "a path with a tail", method: "GET", path: "/callback/solver/o-1/s1/more/", order: "o-1", secret: "s1/more/"},
		{name: "the largest body", method: "POST", path: "/callback/solver/o-1/s1", order: "o-1", secret: "s1",
			body: strings.Repeat("x", 65536)},
		{name: "a body too large", method: "POST", path: "/callback/solver/o-1/s1", order: "o-1", secret: "s1",
			body: strings.Repeat("x", 65537), oversized: true},
		{name: "a long path", method: "GET", path: "/callback/solver/" + strings.Repeat("o", 4000) + "/s1",
			order: strings.Repeat("o", 4000), secret: "s1"},
	} {
		before := time.Now()
		var body io.Reader = strings.NewReader(c.body)
		if i%2 == 0 {
			body = io.MultiReader(body) // a body of unknown length
		}
		a := d.send(t, c.method, c.path, body, c.headers...)
		if a.status != 200 || a.body != "" || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") ||
			a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v %q", c.name, a.status, a.header, a.body)
		}
		all := d.buyer.receivedCallbacks()
		got := all[len(all)-1]
		if got.Provider != "solver" || got.Order != c.order || got.Secret != c.secret || got.Query.Encode() != c.query ||
			(string(got.Body) == c.body) == c.oversized || len(got.Body) > 65536 || got.Oversized != c.oversized {
			t.Errorf("%s: the buyer got %+v", c.name, got)
		}
		if got.At.Before(before) || got.At.After(time.Now()) {
			t.Errorf("%s: arrived at %s", c.name, got.At)
		}
	}
	n := len(d.buyer.receivedCallbacks())
	d.Stopping()
	if a := d.ask(t, "POST", "/callback/solver/o-1/s1"); a.status != 200 || !a.closing ||
		len(d.buyer.receivedCallbacks()) != n+1 {
		t.Errorf("while stopping: %d, closing %v", a.status, a.closing)
	}
}

// TestCallbackIsRefusedOnlyIfNotKept: the service is asked to retry only if the callback could
// not be stored.
func TestCallbackIsRefusedOnlyIfNotKept(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.buyer.callback = func() error { return fmt.Errorf("x: %w", purchase.ErrNotKept) }
	a := d.ask(t, "POST", "/callback/solver/o-1/s1")
	checkProblem(t, "not kept", a, 503, CodeStoreDown, "")
	a.checkRetry(t, "not kept", 1, 3)
	d.buyer.callback = func() error { return errors.New("canary-cause") }
	checkProblem(t, "a bug", d.ask(t, "POST", "/callback/solver/o-1/s1"), 500, CodeInternal, "")
	d.buyer.callback = func() error { panic("a bug") }
	checkProblem(t, "a panic", d.ask(t, "POST", "/callback/solver/o-1/canary-query"), 500, CodeInternal, "")
}

// TestDeadLettersAreListedAndReplayed: dead letters are listed without their tokens, and replayed
// on request.
func TestDeadLettersAreListedAndReplayed(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	if a := d.ask(t, "GET", "/dead-letters", bearer(keyAll)); a.status != 200 ||
		strings.TrimSpace(a.body) != `{"letters":[]}` {
		t.Errorf("none: %d %s", a.status, a.body)
	}
	d.buyer.letters = []spool.Summary{{Order: "o-1", Provider: "solver", Kind: "token"},
		{Order: "o-2", Provider: "solver", Kind: "error"}}
	a := d.ask(t, "GET", "/dead-letters", bearer(keyAll))
	if want := asJSON(t, map[string]any{"letters": d.buyer.letters}); strings.TrimSpace(a.body) != want ||
		a.header.Get("Content-Type") != "application/json" {
		t.Errorf("two: %d %s", a.status, a.body)
	}
	d.buyer.letters, d.buyer.unread = d.buyer.letters[:1], errors.New("x.json: permission denied")
	a = d.ask(t, "GET", "/dead-letters", bearer(keyAll))
	if a.status != 200 || !strings.Contains(a.body, `"order":"o-1"`) ||
		!strings.Contains(d.logged.String(), "permission denied") {
		t.Errorf("one cannot be read: %d %s", a.status, a.body)
	}
	d.buyer.letters, d.buyer.unread = d.buyer.letters[:2], nil
	count := func() int { return d.Status.Build(t.Context()).DeadLetters }
	testkit.Equal(t, "the status tells", count(), 2)
	d.buyer.replay = func(context.Context) (map[string]int, error) {
		d.buyer.letters = nil
		return map[string]int{purchase.DeadLetterReplayed: 3, purchase.DeadLetterDropped: 1}, nil
	}
	if a := d.ask(t, "POST", "/dead-letters/replay", bearer(keyAll)); a.status != 200 ||
		strings.TrimSpace(a.body) != `{"replayed":3,"dropped":1,"expired":0,"left":0}` {
		t.Errorf("replay: %d %s", a.status, a.body)
	}
	testkit.Equal(t, "the status does not tell at once", count(), 0)
	outcomes := map[string]int{purchase.DeadLetterExpired: 1}
	d.buyer.replay = func(context.Context) (map[string]int, error) {
		d.buyer.letters = make([]spool.Summary, 1) // the failed replay removed one of two letters
		return outcomes, fmt.Errorf("replaying: %w", pool.ErrDown)
	}
	d.buyer.letters = make([]spool.Summary, 2)
	d.Status.Changed()
	testkit.Equal(t, "the status before a replay that fails", count(), 2)
	checkProblem(t, "without redis", d.ask(t, "POST", "/dead-letters/replay", bearer(keyAll)), 503, CodeStoreDown, "")
	testkit.Equal(t, "the status right after it", count(), 1)
	outcomes = map[string]int{purchase.DeadLetterReplayed: 2}
	testkit.Equal(t, "redis goes away meanwhile", d.ask(t, "POST", "/dead-letters/replay", bearer(keyAll)).body,
		`{"replayed":2,"dropped":0,"expired":0,"left":1,"reason":"redis does not take the others now"}`+"\n")
}
