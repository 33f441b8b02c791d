package httpapi

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"poold/internal/events"
	"poold/internal/history"
	"poold/internal/httpapi/page"
	"poold/internal/targets"
	"poold/internal/testkit"
)

const asBrowser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// TestFilesOfThePage: the page names the version of its files, so that a browser may keep them.
func TestFilesOfThePage(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	front := d.ask(t, "GET", "/status", asBrowser).body
	for name, kind := range map[string]string{"status.css": "text/css; charset=utf-8",
		"htmx.js": "text/javascript; charset=utf-8", "status.svg": "image/svg+xml"} {
		body, err := os.ReadFile("page/web/" + name)
		testkit.NoError(t, err)
		path := fmt.Sprintf("/%s?%x", name, sha256.Sum256(body))[:len(name)+18]
		if !strings.Contains(front, `"`+path+`"`) {
			t.Errorf("the page does not name %s", path)
		}
		a := d.ask(t, "GET", path)
		testkit.Equal(t, path, a.header.Get("Cache-Control")+a.header.Get("Content-Type")+a.body,
			"public, max-age=31536000, immutable"+kind+string(body))
	}
}

// TestStatusIsHTMLOnlyIfPreferred: GET /status returns HTML only to callers whose Accept header gives it more weight
// than application/json.
func TestStatusIsHTMLOnlyIfPreferred(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	for begins, list := range map[string][]string{
		"<!doctype html>": {
			"text/html", "text/html; charset=utf-8", "TEXT/HTML, */*;q=0.1", "application/json;q=0.5, text/html",
			"text/plain;q=0.9, text/html, application/json;Q=0.5",
		},
		"{": {
			"*/*", "", "application/json", "application/json, text/html, */*", // a widespread library's default
			"text/plain,application/xhtml+xml,*/*;q=0.8", "text/html;q=0.3, application/json;q=0.4",
			"text/htmler, application/text/html, html",
		},
	} {
		for _, accept := range list {
			a := d.ask(t, "GET", "/status", "Accept: "+accept)
			if !strings.HasPrefix(a.body, begins) || a.status != 200 || a.header.Get("Vary") != "Accept" {
				t.Errorf("Accept %q: %d %.60s", accept, a.status, a.body)
			}
		}
	}
	d.ask(t, "GET", "/status.json", asBrowser).check(t, "JSON", 200, `{"version"`)
	a := d.ask(t, "GET", "/status", asBrowser)
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=UTF-8", "Content-Security-Policy": page.Policy, "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY",
	} {
		testkit.Equal(t, name, a.header.Get(name), want)
	}
}

// TestPageIsForItsKey: a key sees its targets and the actions that it may use, on each tab.
func TestPageIsForItsKey(t *testing.T) {
	set := sampleSet(allKeys()...)
	set.Owners = targets.Owners{"qa@example.com": {Budget: targets.Budget{PerHour: 7000}}}
	set.Targets[1].Budget.MoneyPerMonth = 12.5
	d := start(t, set, nil, nil)
	for _, target := range []string{"checkout", "staging-login"} {
		d.events.Note(events.Event{Kind: events.TargetPaused, Subject: target, Target: target, Actor: "key <b>all</b>",
			Text: "Buying for " + target + " was paused."})
		d.writeRecords(t, history.Order{ID: target, Target: target, Owner: "of-" + target, Outcome: history.Solved,
			EndedAt: history.Time{Time: time.Now()}})
	}
	for _, c := range []struct {
		key, query string
		has, lacks []string
	}{
		{keyAll, "?open=checkout", []string{"o-checkout", "o-staging-login", "Flush", "Reload file"}, nil},
		{keyStaging, "?open=staging-login",
			[]string{"o-staging-login", "Flush", "0 of 500 solves in the last 24 hours", "0 of 12.5 in this UTC month"},
			[]string{"checkout", "Reload file", "owner:"}},
		{keyStaging, "?open=checkout&act=flush&of=checkout", []string{"o-staging-login"}, []string{"o-checkout", "Discards"}},
		{keyStatus, "?open=checkout&act=flush&of=checkout", []string{"o-checkout", "$POOLD_KEY"},
			[]string{"Flush", "Discards", "Reload file"}},
		{keyAll, "?tab=events", []string{"Buying for checkout was paused.", "Buying for staging-login was paused.",
			"key &lt;b&gt;all&lt;/b&gt;"}, nil},
		{keyStaging, "?tab=events", []string{"Buying for staging-login was paused."}, []string{"checkout"}},
		{keyStatus, "?tab=money", []string{"of-checkout", "of-staging-login",
			"owner:qa@example.com: 0 of 7000 solves in the last 60 minutes"}, nil},
		{keyStaging, "?tab=money&by=target&per=day", []string{"of-staging-login", "By day", "target:staging-login: 0 of 500"},
			[]string{"checkout", "owner:"}},
		{keyAll, "?tab=money&by=key&days=30", []string{"No order ended in these days."}, nil},
		{keyStaging, "?tab=money&by=key", []string{"This caller may not do that"}, []string{"checkout"}},
		{keyAll, "?q=staging", []string{"2 of 3 targets"}, []string{"o-checkout"}},
	} {
		a := d.ask(t, "GET", "/status"+c.query, asBrowser, basic(c.key))
		a.check(t, c.key, 200, c.has...)
		for _, part := range c.lacks {
			if strings.Contains(a.body, part) {
				t.Errorf("%s %s: %q in\n%s", c.key, c.query, part, a.body)
			}
		}
	}
	a := d.ask(t, "GET", "/status?tab=money&csv=1", asBrowser, basic(keyAll))
	testkit.Equal(t, "the name of the file", a.header.Get("Content-Disposition"),
		`attachment; filename="poold-spend-by-owner.csv"`)
	a.check(t, "the spend as CSV", 200, "of-checkout")
}

// TestFormsOfThePage: a form does what the API's route does for the same key, and then shows the page with its view.
func TestFormsOfThePage(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "checkout", 2)
	for _, c := range []struct {
		key, form string
		status    int
		want      string // a part of the Location, or of the page
	}{
		{keyAll, "act=flush&of=checkout&open=checkout&q=check", 303, "/status?done=flush&open=checkout&q=check"},
		{keyAll, "act=pause&of=checkout&for=2h&reason=tests", 303, "/status?done=pause"},
		{keyAll, "act=resume&of=checkout", 303, "/status?done=resume"},
		{keyAll, "act=probe&of=solver", 303, "/status?done=probe"},
		{keyAll, "act=reload", 303, "/status?done=reload"},
		{keyAll, "act=pause&of=checkout&for=year", 200, "Pause: The request is malformed: &#34;for&#34; must be a duration"},
		{keyAll, "act=flush&of=..%2f..%2f-%2freload", 200, "There is no such target"},
		{keyStaging, "act=flush&of=checkout", 200, "This caller may not do that: this key is limited to other targets"},
		{keyStaging, "act=reload", 200, "this route covers all targets"},
		{keyAll, "act=format&of=checkout", 400, "no known action"},
		{keyStatus, "act=flush&of=checkout", 403, "lacks the scope admin"},
		{"canary-key-wrong", "act=flush&of=checkout", 401, "no such key"},
	} {
		a := d.send(t, "POST", "/status/act", strings.NewReader(c.form), asBrowser, isForm, basic(c.key))
		if !strings.Contains(a.header.Get("Location")+a.body, c.want) || a.status != c.status {
			t.Errorf("%s: %d %s %s", c.form, a.status, a.header.Get("Location"), a.body)
		}
	}
	testkit.Equal(t, "events of flushes, pauses, resumes and probes", len(d.events.all()), 4)
	a := d.send(t, "POST", "/status/act", strings.NewReader("act=reload"), asBrowser, isForm, basic(keyAll),
		"Origin: https://evil.example")
	testkit.Equal(t, "a form of another site", a.status, 403)
	d.ask(t, "GET", "/status?done=flush", asBrowser, basic(keyAll)).check(t, "the result", 200,
		"The ready tokens were flushed.")
}
