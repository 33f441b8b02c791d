package httpapi

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// TestPauseAndResumeShowAtOnce: the status immediately shows a pause and its end. The log reports
// both.
func TestPauseAndResumeShowAtOnce(t *testing.T) {
	set := sampleSet(allKeys()...)
	set.Targets[0].Paused = true
	d := start(t, set, nil, nil)
	state := func(name string) string { return d.ask(t, "GET", "/pool/"+name, bearer(keyAll)).body }

	if a := d.ask(t, "POST", "/pool/staging-login/pause", bearer(keyAll)); a.status != 204 || a.body != "" {
		t.Fatalf("pause: %d %s", a.status, a.body)
	}
	if s := state("staging-login"); !strings.Contains(s, `"state":"paused"`) {
		t.Errorf("right after a pause: %s", s)
	}
	d.ask(t, "POST", "/pool/staging-login/resume", bearer(keyAll)).check(t, "resume", 204)
	if s := state("staging-login"); !strings.Contains(s, `"state":"ok"`) {
		t.Errorf("right after a resume: %s", s)
	}
	d.ask(t, "POST", "/pool/staging-login/resume", bearer(keyAll)).check(t, "a second resume", 204)
	d.send(t, "POST", "/pool/staging-login/pause", strings.NewReader(`{"for":"2h","reason":"the page changes"}`), isJSON,
		bearer(keyAll)).check(t, "a limited pause", 204)
	for _, line := range []string{
		`"msg":"target paused","target":"staging-login","key":"all"}`, // no zero time
		`"msg":"target paused","target":"staging-login","key":"all","until":"\d{4}-[^"]+Z","reason":"the page changes"}`,
	} {
		if !regexp.MustCompile(line).MatchString(d.logged.String()) {
			t.Errorf("no %s in %s", line, d.logged)
		}
	}
	d.ask(t, "POST", "/pool/staging-login/resume", bearer(keyAll)).check(t, "resume", 204)
	// If the orders of a target fail, a resume also lets the target place its next order immediately.
	d.say(t, "staging-login", refill.Status{State: refill.Refused, Reason: "ERROR_GOOGLEKEY"})
	d.ask(t, "POST", "/pool/staging-login/resume", bearer(keyAll)).check(t, "resume", 204)
	if d.logged.Count(`"msg":"target resumed"`, `"tried_at_once":false`) != 3 ||
		d.logged.Count(`"msg":"target resumed"`, `"tried_at_once":true`) != 1 {
		t.Errorf("one of 4 resumes tries at once: %s", d.logged)
	}
	d.ask(t, "POST", "/pool/checkout/pause", bearer(keyAll)).check(t, "a pause besides that of the file", 204)
	a := d.ask(t, "POST", "/pool/checkout/resume", bearer(keyAll))
	checkProblem(t, "paused in the file", a, 409, CodePausedInFile, "checkout")
	if s := state("checkout"); !strings.Contains(s, "paused in the configuration file") ||
		d.stock.readStock(t, d.target("checkout")).Brake.Paused == "" {
		t.Errorf("after a resume of a target paused in the file: %s", s)
	}
	d.stock.redis.SetDown(true)
	for _, what := range []string{"pause", "resume"} {
		checkProblem(t, what+" without redis", d.ask(t, "POST", "/pool/staging-login/"+what, bearer(keyAll)), 503,
			CodeStoreDown, "staging-login")
	}
}

// TestFlushDropsTokensAtOnce: a flush drops the tokens and immediately updates the status.
func TestFlushDropsTokensAtOnce(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "checkout", 1)
	d.fill(t, "staging-login", 4)
	state := func() string { return d.ask(t, "GET", "/pool/staging-login", bearer(keyAll)).body }
	if s := state(); !strings.Contains(s, `"fresh":4`) {
		t.Fatal(s)
	}
	if a := d.ask(t, "DELETE", "/pool/staging-login/tokens", bearer(keyAll)); a.status != 204 || a.body != "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if s := state(); !strings.Contains(s, `"fresh":0`) || !strings.Contains(s, `"flushed":4`) {
		t.Errorf("right after: %s", s)
	}
	lost := `"level":"INFO","msg":"tokens flushed","target":"staging-login","key":"all","tokens":4`
	testkit.Equal(t, "lines about the lost tokens", d.logged.Count(lost), 1)
	testkit.Equal(t, "another target has", d.stock.readStock(t, d.target("checkout")).Fresh, 1)
	d.stock.redis.SetDown(true)
	checkProblem(t, "without redis", d.ask(t, "DELETE", "/pool/staging-login/tokens", bearer(keyAll)), 503, CodeStoreDown,
		"staging-login")
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
	if a := d.ask(t, "POST", "/-/reload", bearer(keyAll)); a.status != 204 || a.body != "" {
		t.Errorf("%d %s", a.status, a.body)
	}
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

// TestHealthAndReadiness: a replica without Redis is healthy, and not ready; a starved target changes neither.
func TestHealthAndReadiness(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.stock.redis.SetDown(true)
	testkit.Within(t, 20*time.Second, "it is noticed", func() bool { return !d.stock.Health().Up })
	if a := d.ask(t, "GET", "/healthz"); a.status != 200 || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("healthz falls with redis: %d", a.status)
	}
	a := d.ask(t, "GET", "/readyz")
	checkProblem(t, "readyz", a, 503, CodeStoreDown, "", "redis does not answer (embedded:6379)")
	testkit.Equal(t, "a Retry-After", a.header.Get("Retry-After") != "", true)
	d.stock.redis.SetDown(false)
	testkit.Within(t, 20*time.Second, "it is back", func() bool { return d.stock.Health().Up })
	if a := d.ask(t, "GET", "/readyz"); a.status != 200 || strings.TrimSpace(a.body) != `{"ready":true}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	d.say(t, "checkout", refill.Status{State: refill.Starved})
	d.ask(t, "GET", "/readyz").check(t, "one starved target makes the replica unready", 200)
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
// the provider is unknown, if the key lacks the scope, or if Redis is unreachable.
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
	a := d.ask(t, "POST", "/providers/main/probe", bearer(keyAll))
	if want := `{"name":"main","state":"down","reason":"the next order tries it; ` +
		`the last fault was ERROR_ZERO_BALANCE","remedy":""}`; a.status != 200 || strings.TrimSpace(a.body) != want {
		t.Errorf("%d %s", a.status, a.body)
	}
	probed := `"msg":"provider probed","provider":"main","key":"all","state":"down"`
	testkit.Equal(t, "lines about who probed", d.logged.Count(probed), 1)
	testkit.Equal(t, "a probe that fails", d.ask(t, "POST", "/providers/other/probe", bearer(keyAll)).body,
		`{"name":"other","state":"down","reason":"probing other: no answer","remedy":""}`+"\n")
	checkProblem(t, "an unknown provider", d.ask(t, "POST", "/providers/unknown/probe", bearer(keyAll)), 404,
		CodeUnknownProvider, "")
	checkProblem(t, "without redis", d.ask(t, "POST", "/providers/away/probe", bearer(keyAll)), 503, CodeStoreDown, "")
	for _, key := range []string{keyStatus, keyStaging} {
		d.ask(t, "POST", "/providers/main/probe", bearer(key)).check(t, "another key", 403)
	}
	testkit.Equal(t, "probes of the buyer", len(d.buyer.probed), 4)
}
