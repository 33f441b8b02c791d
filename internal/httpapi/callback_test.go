package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/spool"
	"poold/internal/testkit"
)

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
		got := d.buyer.callbacks.last()
		if got.Provider != "solver" || got.Order != c.order || got.Secret != c.secret || got.Query.Encode() != c.query ||
			(string(got.Body) == c.body) == c.oversized || len(got.Body) > 65536 || got.Oversized != c.oversized {
			t.Errorf("%s: the buyer got %+v", c.name, got)
		}
		if got.At.Before(before) || got.At.After(time.Now()) {
			t.Errorf("%s: arrived at %s", c.name, got.At)
		}
	}
	n := len(d.buyer.callbacks.all())
	d.Stopping()
	if a := d.ask(t, "POST", "/callback/solver/o-1/s1"); a.status != 200 || !a.closing ||
		len(d.buyer.callbacks.all()) != n+1 {
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

// TestDeadLettersAreListedAndReplayed: dead letters are listed without their tokens, and replayed on request. The
// status tells their number at once.
func TestDeadLettersAreListedAndReplayed(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	lists := func(want string) {
		t.Helper()
		testkit.Equal(t, "the list", strings.TrimSpace(d.ask(t, "GET", "/dead-letters", bearer(keyAll)).body), want)
	}
	lists(`{"letters":[]}`)
	d.buyer.letters = []spool.Summary{{Order: "o-1", Provider: "solver", Kind: "token"},
		{Order: "o-2", Provider: "solver", Kind: "error"}}
	lists(asJSON(t, map[string]any{"letters": d.buyer.letters}))
	d.buyer.letters, d.buyer.unread = d.buyer.letters[:1], errors.New("x.json: permission denied")
	lists(asJSON(t, map[string]any{"letters": d.buyer.letters}))
	testkit.Equal(t, "lines about a letter that cannot be read", d.logged.Count("permission denied"), 1)
	for _, c := range []struct {
		before, left int // numbers of letters
		outcomes     map[string]int
		err          error
		want         string // "" = 503
	}{
		{2, 0, map[string]int{purchase.DeadLetterReplayed: 3, purchase.DeadLetterDropped: 1}, nil,
			`{"replayed":3,"dropped":1,"expired":0,"left":0}`},
		{2, 1, map[string]int{purchase.DeadLetterExpired: 1}, pool.ErrDown, ""},
		{2, 1, map[string]int{purchase.DeadLetterReplayed: 2}, pool.ErrDown,
			`{"replayed":2,"dropped":0,"expired":0,"left":1,"reason":"redis does not take the others now"}`},
	} {
		d.buyer.letters = make([]spool.Summary, c.before)
		d.Status.Changed()
		testkit.Equal(t, "letters in the status", d.Status.Build(t.Context()).DeadLetters, c.before)
		d.buyer.replay = func(context.Context) (map[string]int, error) {
			d.buyer.letters = d.buyer.letters[:c.left]
			return c.outcomes, c.err
		}
		a := d.ask(t, "POST", "/dead-letters/replay", bearer(keyAll))
		if c.want == "" {
			checkProblem(t, "nothing was replayed", a, 503, CodeStoreDown, "")
		} else {
			testkit.Equal(t, "a replay", strings.TrimSpace(a.body), c.want)
		}
		testkit.Equal(t, "letters in the status right after it", d.Status.Build(t.Context()).DeadLetters, c.left)
	}
}
