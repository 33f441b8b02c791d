package httpapi

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// TestChangesOfATargetShowAtOnce: the status immediately shows a pause, its end, and a flush, which drops the tokens of
// its target alone. The log reports them with the key.
func TestChangesOfATargetShowAtOnce(t *testing.T) {
	set := sampleSet(allKeys()...)
	set.Targets[0].Paused = true // checkout
	d := start(t, set, nil, nil)
	d.fill(t, "checkout", 1)
	d.fill(t, "staging-login", 4)
	change := func(method, path, body string, status int) answer {
		t.Helper()
		a := d.send(t, method, "/pool/"+path, strings.NewReader(body), isJSON, bearer(keyAll))
		a.check(t, body, status)
		return a
	}
	shows := func(target string, parts ...string) {
		t.Helper()
		d.ask(t, "GET", "/pool/"+target, bearer(keyAll)).check(t, "right after it", 200, parts...)
	}
	shows("staging-login", `"state":"ok"`, `"fresh":4`)
	change("POST", "staging-login/pause", "", 204)
	shows("staging-login", `"state":"paused"`)
	change("POST", "staging-login/resume", "", 204)
	shows("staging-login", `"state":"ok"`)
	change("POST", "staging-login/resume", "", 204) // changes nothing
	change("POST", "staging-login/pause", `{"for":"2h","reason":"the page changes"}`, 204)
	change("POST", "staging-login/resume", "", 204)
	// If the orders of a target fail, a resume also lets the target place its next order immediately.
	d.say(t, "staging-login", refill.Status{State: refill.Refused, Reason: "ERROR_GOOGLEKEY"})
	change("POST", "staging-login/resume", "", 204)
	change("DELETE", "staging-login/tokens", "", 204)
	shows("staging-login", `"fresh":0`, `"flushed":4`)
	const login = `","target":"staging-login","key":"all"`
	for line, lines := range map[string]int{
		`"msg":"target paused` + login + `}`:                                                    1, // no zero time
		`"msg":"target paused` + login + `,"until":"\d{4}-[^"]+Z","reason":"the page changes"}`: 1,
		`"msg":"target resumed` + login + `,"tried_at_once":false}`:                             3,
		`"msg":"target resumed` + login + `,"tried_at_once":true}`:                              1,
		`"level":"INFO","msg":"tokens flushed` + login + `,"tokens":4}`:                         1,
	} {
		testkit.Equal(t, line, len(regexp.MustCompile(line).FindAllString(d.logged.String(), -1)), lines)
	}

	change("POST", "checkout/pause", "", 204) // besides the pause of the file
	checkProblem(t, "paused in the file", change("POST", "checkout/resume", "", 409), 409, CodePausedInFile, "checkout")
	shows("checkout", "paused in the configuration file", `"fresh":1`)
	testkit.Equal(t, "the other pause goes on", d.stock.readStock(t, d.target("checkout")).Brake.Paused, "paused by all")
	d.stock.redis.SetDown(true)
	for path, method := range map[string]string{"pause": "POST", "resume": "POST", "tokens": "DELETE"} {
		checkProblem(t, "without redis", change(method, "staging-login/"+path, "", 503), 503, CodeStoreDown, "staging-login")
	}
}

// TestReloadShowsAtOnce: the response to a reload is 204, and the status changes immediately.
// TestSetIsPublishedAfterItWasApplied of package reload has the caller that hangs up.
func TestReloadShowsAtOnce(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.ask(t, "GET", "/status.json", bearer(keyAll))
	d.config.reload = func(context.Context) error {
		set := sampleSet(allKeys()...)
		set.Targets = set.Targets[:1]
		d.config.set.Store(set)
		return nil
	}
	d.ask(t, "POST", "/-/reload", bearer(keyAll)).check(t, "a reload", 204)
	if a := d.ask(t, "GET", "/status.json", bearer(keyAll)); strings.Contains(a.body, "staging-login") {
		t.Errorf("the old targets are shown after a reload: %s", a.body)
	}
	d.config.reload = func(context.Context) error {
		d.config.problems = []targets.Problem{
			{File: "pools.yaml", Line: 4, Text: "depth must be positive"}, {File: "pools.yaml", Line: 9, Text: "unknown key"},
		}
		return fmt.Errorf("reloading: %w", targets.Problems(d.config.problems))
	}
	checkProblem(t, "an invalid file", d.ask(t, "POST", "/-/reload", bearer(keyAll)), 422, CodeInvalidConfig, "",
		`"problems":["pools.yaml:4: depth must be positive","pools.yaml:9: unknown key"]`)
	d.ask(t, "GET", "/status.json", bearer(keyAll)).check(t, "what was wrong is not shown at once", 0,
		"pools.yaml:4: depth")
	d.config.reload = func(context.Context) error { return errors.New("canary-cause") }
	checkProblem(t, "reload", d.ask(t, "POST", "/-/reload", bearer(keyAll)), 500, CodeInternal, "")
}

// TestPauseTakesLengthAndReason: the body of the request sets the length and the reason of a pause.
// An invalid body changes nothing, and the response describes a valid body.
func TestPauseTakesLengthAndReason(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	send := func(body string) answer {
		return d.send(t, "POST", "/pool/checkout/pause", strings.NewReader(body), bearer(keyAll),
			"Content-Type: application/json")
	}
	for body, want := range map[string]string{
		`{"for":"2"}`: `"for" must be`, `{"for":"0s"}`: `"for" must be`, `{"for":"721h"}`: `"for" must be`,
		`{"for":""}`: `"for" must be`, `{"reason":"` + strings.Repeat("x", 201) + `"}`: "at most 200 characters",
		`{"reason":"a\nb"}`:     `"reason" must not hold U+000A: remove the line break, or the invisible character`,
		`{"reason":"a\u202Eb"}`: `"reason" must not hold U+202E: remove the line break, or the invisible character`,
		`{"until":"2h"}`:        "the body must be", `{"for":7200}`: "the body must be",
		`[]`: "the body must be", `{}{}`: "the body must be",
	} {
		a := send(body)
		checkProblem(t, body, a, 400, CodeBadRequest, "checkout")
		a.check(t, body, 400, strings.ReplaceAll(want, `"`, `\"`))
	}
	paused := d.stock.readStock(t, d.target("checkout")).Brake.Paused
	testkit.Equal(t, "a pause by a body that is refused", paused, "")
	send(`{"for":"1s"}`).check(t, "the shortest pause", 204)
	reason := func() string {
		d.Status.Changed()
		target, _ := d.Status.Build(t.Context()).Target("checkout")
		reason, isTold := strings.CutSuffix(target.Reason, "; `poold resume checkout` ends the pause")
		testkit.Equal(t, "the remedy", isTold, true)
		return reason
	}
	for _, c := range []struct{ body, want string }{
		{``, `^paused by all$`}, {`{}`, `^paused by all$`},
		{`{"reason":"הדף משתנה \u200f!"}`, `^paused by all: הדף משתנה \x{200f}!$`},
		{`{"reason":"the page <b>changes</b>"}`, `^paused by all: the page <b>changes</b>$`},
		{`{"for":"720h","reason":"` + strings.Repeat("é", mostReason) + `"}`, `^paused by all until .*: é{200}$`},
		{`{"for":"2h","reason":"release"}`, `^paused by all until \d{4}-\d\d-\d\d \d\d:\d\d UTC: release$`},
	} {
		send(c.body).check(t, c.body, 204)
		if got := reason(); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s: %q, want %s", c.body, got, c.want)
		}
	}
}

// TestProbeAnswersWithTheNewState: an operator gets the state after the probe. A request fails if
// the provider is unknown or if Redis is unreachable.
func TestProbeAnswersWithTheNewState(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	broke := provider.Condition{Kind: provider.StateDown, Reason: "ERROR_ZERO_BALANCE", Remedy: "top up the balance"}
	d.buyer.providers = func(context.Context) []purchase.ProviderStatus {
		return []purchase.ProviderStatus{{Name: "other", State: d.provider.State}, {Name: "main", State: broke}}
	}
	d.buyer.probe = func(name string) error {
		switch name {
		case "main":
			return nil
		case "other":
			return errors.New("probing other: no answer")
		case "away":
			return fmt.Errorf("probing: %w", pool.ErrDown)
		}
		return purchase.ErrUnknownProvider
	}
	testkit.Equal(t, "a probe", d.ask(t, "POST", "/providers/main/probe", bearer(keyAll)).body,
		`{"name":"main","state":"down","reason":"the next order tries it; the last fault was ERROR_ZERO_BALANCE",`+
			`"remedy":""}`+"\n")
	probed := `"msg":"provider probed","provider":"main","key":"all","state":"down"`
	testkit.Equal(t, "lines about who probed", d.logged.Count(probed), 1)
	testkit.Equal(t, "a probe that fails", d.ask(t, "POST", "/providers/other/probe", bearer(keyAll)).body,
		`{"name":"other","state":"down","reason":"probing other: no answer","remedy":""}`+"\n")
	checkProblem(t, "an unknown provider", d.ask(t, "POST", "/providers/unknown/probe", bearer(keyAll)), 404,
		CodeUnknownProvider, "")
	checkProblem(t, "without redis", d.ask(t, "POST", "/providers/away/probe", bearer(keyAll)), 503, CodeStoreDown, "")
	testkit.Equal(t, "probes of the buyer", len(d.buyer.probed.all()), 4)
}
