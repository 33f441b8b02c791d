package httpapi

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

const warmPath = "/pool/staging-login/warm"

func (d *daemon) warm(t *testing.T, body string, headers ...string) answer {
	t.Helper()
	return d.send(t, "POST", warmPath, strings.NewReader(body), append(headers, isJSON)...)
}

// shifted adds the given duration to the current time, and formats the sum in another time zone.
func shifted(by time.Duration) string {
	return time.Now().Add(by).In(time.FixedZone("", 90*60)).Format(time.RFC3339Nano)
}

// TestWarmMakesAWindow: the stock gets the requested window, with times relative to the current
// time.
func TestWarmMakesAWindow(t *testing.T) {
	set := sampleSet()
	set.Targets[1].Paused = true // a window may be made during a pause
	d := start(t, set, nil, nil)
	const m = time.Minute
	var asked []string
	for _, c := range []struct {
		body string
		want pool.Window
	}{
		{`{"tokens":5,"for":"5m"}`, pool.Window{Tokens: 5, Left: 5 * m}},
		{" {\n \"for\" : \"1h30m\" , \"tokens\" : 10000 }\n", pool.Window{Tokens: 10000, Left: 90 * m}},
		{`{"tokens":1,"for":"1s"}`, pool.Window{Tokens: 1, Left: time.Second}},
		{`{"tokens":1,"for":"24h"}`, pool.Window{Tokens: 1, Left: 24 * time.Hour}},
		{`{"tokens":7,"at":"` + shifted(10*m) + `","for":"5m"}`, pool.Window{Tokens: 7, In: 10 * m, Left: 15 * m}},
		{`{"at":"` + shifted(30*24*time.Hour) + `","\u0074okens":7,"for":"24h"}`, pool.Window{Tokens: 7, In: 30 * 24 * time.Hour, Left: 31 * 24 * time.Hour}},
		{`{"tokens":7,"at":"` + shifted(-2*m) + `","for":"5m"}`, pool.Window{Tokens: 7, Left: 3 * m}}, // the rest of a window that has begun
		{`{"tokens":0}`, pool.Window{}},
	} {
		began := time.Now()
		a := d.warm(t, c.body)
		took := time.Since(began)
		asked = append(asked, c.body)
		windows := d.stock.readStock(t, &set.Targets[1]).Windows
		if a.status != 204 || a.body != "" || len(windows) != min(1, c.want.Tokens) {
			t.Fatalf("%s: %d %s; the stock has %+v", c.body, a.status, a.body, windows)
		}
		if len(windows) == 0 {
			continue
		}
		// The times above were computed when the table was made.
		near := func(got, want time.Duration) bool { return got <= want && got >= want-took-5*time.Second }
		if got := windows[0]; got.Tokens != c.want.Tokens || !near(got.In, c.want.In) || !near(got.Left, c.want.Left) {
			t.Errorf("%s: %+v, want %+v", c.body, got, c.want)
		}
		noError(t, d.stock.Store.Warm(t.Context(), set.Targets[1].ID, pool.Window{}, pool.WindowLimit{}))
	}
	if n := len(d.refill.kicked); n != len(asked) || d.refill.kicked[0] != set.Targets[1].ID {
		t.Errorf("refill was told of %q", d.refill.kicked)
	}
	for _, line := range []string{
		`"level":"INFO","msg":"warm window made","target":"staging-login","key":"","tokens":5,"from":"\d{4}[^"]+Z","until":"\d{4}[^"]+Z"`,
		`"level":"INFO","msg":"warm windows ended","target":"staging-login","key":""}`,
	} {
		if !regexp.MustCompile(line).MatchString(d.logged.String()) {
			t.Errorf("the log does not say who did what: no %s in %s", line, d.logged)
		}
	}
	for i, body := range []string{`{"tokens":5,"for":"5m"}`, `{"tokens":0}`} {
		d.status.Snapshot(t.Context()) // this snapshot stays valid for a while
		d.warm(t, body)
		equal(t, body, len(d.status.Snapshot(t.Context()).Document.Targets[1].Windows), 1-i)
	}
}

// TestMalformedWarmIsRefused: a malformed body changes nothing, and the response describes a valid
// body.
func TestMalformedWarmIsRefused(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	check := func(want string, bodies ...string) {
		t.Helper()
		for _, body := range bodies {
			a := d.warm(t, body)
			checkProblem(t, body, a, 400, kernel.CodeBadRequest, "staging-login")
			if !strings.Contains(strings.ReplaceAll(a.body, `\"`, `"`), want) {
				t.Errorf("%s: no %q in %s", body, want, a.body)
			}
		}
	}
	check(`the body must be one JSON object like {"tokens":5,"at":"2026-01-02T15:04:05Z","for":"5m"}`,
		"", "null", "{}", `{"for":"5m"}`, `{"at":"`+shifted(0)+`","for":"5m"}`, `{"tokens":5,"for":"5m"}{"tokens":5,"for":"5m"}`,
		`{"tokens":5,"for":"5m","tokens":5}`, `{"tokens":5,"for":"5m","for":"5m"}`, `{"tokens":5,"for":"5m","\u0066or":"6m"}`, `{"tokens":0,"tokens":5}`,
		`{"tokens":5,"for":"5m","why":""}`, `{"why":{},"tokens":5,"for":"5m"}`, `{"Tokens":5,"for":"5m"}`, `{"tokens":5,"For":"5m"}`, `{"tokens":5,"for":"5m","":""}`,
		`{"tokens":05,"for":"5m"}`, `{"tokens":.5,"for":"5m"}`, `{"tokens":+5,"for":"5m"}`, `{"tokens":NaN,"for":"5m"}`)
	check(`"tokens" must be a whole number from 0 to 10000`,
		`{"tokens":-1,"for":"5m"}`, `{"tokens":10001,"for":"5m"}`, `{"tokens":18446744073709551617,"for":"5m"}`, `{"tokens":2.5,"for":"5m"}`, `{"tokens":5.0,"for":"5m"}`,
		`{"tokens":1e1,"for":"5m"}`, `{"tokens":"5","for":"5m"}`, `{"tokens":true,"for":"5m"}`, `{"tokens":null,"for":"5m"}`, `{"tokens":[5],"for":"5m"}`, `{"tokens":{},"for":"5m"}`)
	check(`"for" must be a duration with a unit from 1s to 24h`,
		`{"tokens":5}`, `{"tokens":5,"at":"`+shifted(0)+`"}`, `{"tokens":5,"for":""}`, `{"tokens":5,"for":"5"}`, `{"tokens":5,"for":"0"}`, `{"tokens":5,"for":300}`, `{"tokens":5,"for":null}`,
		`{"tokens":5,"for":"999ms"}`, `{"tokens":5,"for":"24h0m1s"}`, `{"tokens":5,"for":"-5m"}`, `{"tokens":5,"for":"5 m"}`, `{"tokens":5,"for":"1d"}`, `{"tokens":5,"for":["5m"]}`)
	check(`"at" must be a time in RFC 3339 with its zone`,
		`{"tokens":5,"for":"5m","at":""}`, `{"tokens":5,"for":"5m","at":null}`, `{"tokens":5,"for":"5m","at":1767366245}`, `{"tokens":5,"for":"5m","at":"now"}`, `{"tokens":5,"for":"5m","at":"08:55"}`,
		`{"tokens":5,"for":"5m","at":"2026-01-02"}`, `{"tokens":5,"for":"5m","at":"2026-01-02T15:04:05"}`, `{"tokens":5,"for":"5m","at":"2026-01-02 15:04:05Z"}`,
		`{"tokens":5,"for":"5m","at":"2026-01-02T5:04:05Z"}`, `{"tokens":5,"for":"5m","at":"2026-01-02T15:04:05,5Z"}`, `{"tokens":5,"for":"5m","at":"2026-01-02T15:04:05+24:00"}`, `{"tokens":5,"for":"5m","at":"2026-02-30T15:04:05Z"}`, `{"tokens":5,"for":"5m","at":"2026-01-02T15:04:05+0100"}`, `{"tokens":5,"for":"5m","at":{}}`)
	check(`"at" must be at most 30 days ahead`,
		`{"tokens":5,"for":"5m","at":"`+shifted(30*24*time.Hour+time.Minute)+`"}`, `{"tokens":5,"for":"5m","at":"9999-12-31T23:59:59Z"}`)
	check(`the window is over`,
		`{"tokens":5,"for":"5m","at":"`+shifted(-5*time.Minute)+`"}`, `{"tokens":5,"for":"24h","at":"0000-01-01T00:00:00Z"}`, `{"tokens":5,"for":"1s","at":"1970-01-01T00:00:00Z"}`)
	check(`{"tokens":0} ends all windows at once`,
		`{"tokens":0,"for":"5m"}`, `{"tokens":0,"at":"`+shifted(0)+`"}`, `{"for":"5m","tokens":0}`)

	if d.stock.countCalls("warm") > 0 {
		t.Error("a window was made")
	}
	for _, c := range []struct {
		err    error
		status int
		code   kernel.Code
	}{
		{fmt.Errorf("x: %w", pool.ErrWindows), 409, kernel.CodeWindows}, {redisdb.ErrDown, 503, kernel.CodeStoreDown},
	} {
		d.stock.failCalls("warm", c.err)
		checkProblem(t, c.err.Error(), d.warm(t, `{"tokens":0}`), c.status, c.code, "staging-login")
	}
	if len(d.refill.kicked) > 0 || strings.Contains(d.logged.String(), "warm window") {
		t.Errorf("as if a window had been made: %q %s", d.refill.kicked, d.logged)
	}
}

// TestTokenScopeWarmsUpToTheDepth: a key with the scope admin can make any window. A key with only
// the scope token can make windows up to the depth of the target, but cannot end windows.
func TestTokenScopeWarmsUpToTheDepth(t *testing.T) {
	const keyTaker, keyAdmin, keyBoth, keyOther, keyLook = "canary-key-taker", "canary-key-admin", "canary-key-both", "canary-key-other", "canary-key-look"
	key := func(name, text string, globs []string, scopes ...targets.Scope) targets.Key {
		return targets.Key{Name: name, SHA256: sha256.Sum256([]byte(text)), Scopes: scopes, Targets: globs}
	}
	d := start(t, sampleSet(
		key("taker", keyTaker, nil, targets.ScopeToken), key("admin", keyAdmin, nil, targets.ScopeAdmin),
		key("both", keyBoth, []string{"staging-*"}, targets.ScopeToken, targets.ScopeAdmin),
		key("other", keyOther, []string{"checkout"}, targets.ScopeToken, targets.ScopeAdmin),
		key("look", keyLook, nil, targets.ScopeStatus, targets.ScopeSolve),
	), nil, nil)
	for _, c := range []struct {
		key  string
		want map[int]int // key: number of tokens; the target's depth is 5
	}{
		{keyTaker, map[int]int{0: 403, 1: 204, 5: 204, 6: 403, 10000: 403, -1: 400}},
		{keyAdmin, map[int]int{0: 204, 1: 204, 5: 204, 6: 204, 10000: 204, -1: 400}},
		{keyBoth, map[int]int{0: 204, 5: 204, 6: 204}},
		{keyOther, map[int]int{0: 403, 1: 403, 6: 403}},
		{keyLook, map[int]int{0: 403, 1: 403, 6: 403}},
		{"canary-key-wrong", map[int]int{0: 401, 1: 401}},
	} {
		for tokens, want := range c.want {
			body := fmt.Sprintf(`{"tokens":%d,"for":"5m"}`, tokens)
			if tokens == 0 {
				body = `{"tokens":0}`
			}
			for _, header := range []string{bearer(c.key), basic(c.key)} {
				before := d.stock.countCalls("warm")
				a := d.warm(t, body, header)
				if a.status != want || (d.stock.countCalls("warm") > before) != (want == 204) {
					t.Errorf("%s, %d tokens: %d, want %d: %s", c.key, tokens, a.status, want, a.body)
				}
				if want != 403 {
					continue
				}
				checkProblem(t, c.key, a, 403, kernel.CodeForbidden, map[bool]string{true: "staging-login"}[c.key == keyTaker])
				if c.key == keyTaker && !strings.Contains(a.body, "the scope token suffices for 1 to 5 tokens, the target's depth") {
					t.Errorf("%d tokens: the text does not say so: %s", tokens, a.body)
				}
			}
		}
	}
	d.ask(t, "POST", "/pool/staging-login/pause", bearer(keyTaker)).check(t, "token suffices for a pause", 403)
	if !strings.Contains(d.logged.String(), `"msg":"warm window made","target":"staging-login","key":"taker","tokens":5`) {
		t.Error("the log does not name the key")
	}
}

// TestTokenScopeHasTenWindows: a key with only the scope token can make at most ten windows of a
// target. A key with the scope admin has only the limit of the target.
func TestTokenScopeHasTenWindows(t *testing.T) {
	keys := []targets.Key{{Name: "admin", SHA256: sha256.Sum256([]byte(keyAll)), Scopes: []targets.Scope{targets.ScopeToken, targets.ScopeAdmin}}}
	for i := range 2 {
		keys = append(keys, targets.Key{Name: fmt.Sprintf("taker%d", i), SHA256: sha256.Sum256(fmt.Appendf(nil, "canary-key-taker-%d", i)), Scopes: []targets.Scope{targets.ScopeToken}})
	}
	d := start(t, sampleSet(keys...), nil, nil)
	n := 0
	warm := func(key string, want int) answer {
		t.Helper()
		n++
		body := fmt.Sprintf(`{"tokens":1,"at":%q,"for":"5m"}`, shifted(time.Duration(n)*10*time.Minute))
		a := d.warm(t, body, bearer(key))
		for a.status == 503 { // a busy machine may need retries; a repeated request makes the same window
			a = d.warm(t, body, bearer(key))
		}
		a.check(t, fmt.Sprint("window ", n), want)
		return a
	}
	for i := range 2 {
		for range 10 {
			warm(fmt.Sprintf("canary-key-taker-%d", i), 204)
		}
		checkProblem(t, "the eleventh", warm(fmt.Sprintf("canary-key-taker-%d", i), 409), 409, kernel.CodeWindows, "staging-login", "10 warm windows")
	}
	for range 11 {
		warm(keyAll, 204)
	}
	d.send(t, "POST", "/pool/checkout/warm", strings.NewReader(`{"tokens":1,"for":"5m"}`), isJSON, bearer("canary-key-taker-0")).check(t, "another target", 204)
}
