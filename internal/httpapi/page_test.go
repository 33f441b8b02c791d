package httpapi

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/events"
	"poold/internal/history"
	"poold/internal/httpapi/page"
	"poold/internal/targets"
	"poold/internal/testkit"
)

const (
	asBrowser  = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

// shown returns the text of a page.
func (a answer) shown() string {
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(a.body, "")
	return strings.Join(strings.Fields(html.UnescapeString(text)), " ")
}

func TestPageShowsTheDocument(t *testing.T) {
	set := sampleSet()
	set.Warnings = []targets.Problem{{File: "pools.yaml", Line: 3, Text: "a poll each 100ms is unusual"}}
	set.Providers[0].Protocol = targets.ProtocolSimulated
	d := start(t, set, nil, nil)
	busyDay(t, d)
	a := d.ask(t, "GET", "/status?open=staging-login", asBrowser)
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=UTF-8", "Content-Security-Policy": pagePolicy,
		"Cache-Control": "no-store", "Vary": "Accept", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY",
	} {
		equal(t, name, a.header.Get(name), want)
	}
	text := a.shown()
	for _, part := range []string{
		"poold 1.2.3, started 2026-01-02 03:04:05 UTC. Redis: single", "The provider is simulated", "pools.yaml:12: server.listen changed", "pools.yaml:3: a poll each",
		"Healthy targets1 of 31 paused, 1 refused, 1 starved", "Budget used1,234of 20,000 solves a day", "2 callbacks could not be stored",
		"solver busyno slot 3 of 20", "by callback", "refusedthe provider refuses this target: ERROR_GOOGLEKEY", "starvedprovider solver is busy; most tokens are rejected",
		"3 of 4, 4 on order, 2 waiting", "pausedpaused by ops", "about 3.21 requests until a new order lands, so 4 tokens wanted; 1.2 % of requests would find none", "Held back bycredit",
		"18 s (median), 26 s (90 of 100)", "102 requests: 97 hits, 2 waited, 1 missed", "Bought115: 96 handed out, 5 expired, 2 failed, 1 lost, 6 flushed, 3 ready, 2 on order", "Returned3 tokens",
		"8 of 10 an hour, 77 of 500 a day", "9 accepted, 7 rejected", "On-demand solves 1 identities", "20 of 60 tokens of on-demand solves", "curl -X POST $POOLD_URL/pool/staging-login/token",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
	if strings.Contains(text, "Not ready") || strings.Contains(text, "was not applied") || strings.Contains(text, "%!") {
		t.Errorf("alarms without cause:\n%s", text)
	}
	// The page contains nothing that its policy forbids.
	equal(t, "the page holds", regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|style=|\son\w+=|javascript:|https?://[^,<]*"`).FindString(a.body), "")
	d.config.refused = true
	d.Stopping()
	d.ask(t, "GET", "/status", asBrowser).check(t, "a bad file", 200, "The configuration file was not applied", "not ready")
}

// TestFilesOfThePage: the page names the version of its files, so that a browser may keep them.
func TestFilesOfThePage(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	front := d.ask(t, "GET", "/status", asBrowser).body
	for name, kind := range map[string]string{"status.css": "text/css; charset=utf-8", "htmx.js": "text/javascript; charset=utf-8", "status.svg": "image/svg+xml"} {
		path := "/" + name + "?" + page.Version(name)
		if !strings.Contains(front, `"`+path+`"`) {
			t.Errorf("the page does not name %s", path)
		}
		for address, keep := range map[string]string{path: "public, max-age=31536000, immutable", "/" + name: "no-cache"} {
			a := d.ask(t, "GET", address)
			equal(t, address, a.header.Get("Cache-Control")+a.header.Get("Content-Type")+a.body, keep+kind+string(page.Files[name]))
		}
	}
}

// TestStatusIsHTMLOnlyIfPreferred: GET /status returns HTML only to callers that prefer HTML. GET
// /status.json never returns HTML.
func TestStatusIsHTMLOnlyIfPreferred(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	for accept, begins := range map[string]string{"text/html, */*;q=0.5": "<!doctype html>", "application/json, text/html": "{"} {
		if a := d.ask(t, "GET", "/status", "Accept: "+accept); !strings.HasPrefix(a.body, begins) || a.status != 200 || a.header.Get("Vary") != "Accept" {
			t.Errorf("Accept %q: %d %.60s", accept, a.status, a.body)
		}
		if a := d.ask(t, "GET", "/status.json", "Accept: "+accept); !strings.HasPrefix(a.body, "{") {
			t.Errorf("/status.json, Accept %q: %.60s", accept, a.body)
		}
	}
}

// TestPageIsForItsKey: a key sees its targets and the actions that it may use, on each tab.
func TestPageIsForItsKey(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	for _, target := range []string{"checkout", "staging-login"} {
		d.events.Note(events.Event{Kind: events.TargetPaused, Subject: target, Target: target, Actor: "key <b>all</b>", Text: "Buying for " + target + " was paused."})
		d.writeRecords(t, history.Order{ID: target, Target: target, Owner: "of-" + target, Outcome: history.Solved, EndedAt: history.Time{Time: time.Now()}})
	}
	for _, c := range []struct {
		key, query string
		has, lacks []string
	}{
		{keyAll, "?open=checkout", []string{"o-checkout", "o-staging-login", "Flush", "Reload configuration"}, nil},
		{keyStaging, "?open=staging-login", []string{"o-staging-login", "Flush"}, []string{"checkout", "Reload configuration"}},
		{keyStaging, "?open=checkout&act=flush&of=checkout", []string{"o-staging-login"}, []string{"o-checkout", "Discards"}},
		{keyStatus, "?open=checkout&act=flush&of=checkout", []string{"o-checkout", "$POOLD_KEY"}, []string{"Flush", "Discards", "Reload configuration"}},
		{keyAll, "?tab=events", []string{"Buying for checkout was paused.", "Buying for staging-login was paused.", "key &lt;b&gt;all&lt;/b&gt;"}, nil},
		{keyStaging, "?tab=events", []string{"Buying for staging-login was paused."}, []string{"checkout"}},
		{keyStatus, "?tab=money", []string{"of-checkout", "of-staging-login"}, nil},
		{keyStaging, "?tab=money&by=target&per=day", []string{"of-staging-login", "By day"}, []string{"checkout"}},
		{keyAll, "?tab=money&by=key&days=30", []string{"No order ended in these days."}, nil},
		{keyStaging, "?tab=money&by=key", []string{"This caller may not do that"}, []string{"checkout"}},
		{keyAll, "?tab=events&before=nothing", []string{"before must be the"}, nil},
		{keyAll, "?q=staging", []string{"2 of 3 targets"}, []string{"o-checkout"}},
	} {
		body := d.ask(t, "GET", "/status"+c.query, asBrowser, basic(c.key)).body
		for _, part := range c.has {
			if !strings.Contains(body, part) {
				t.Errorf("%s %s: no %q in\n%s", c.key, c.query, part, body)
			}
		}
		for _, part := range c.lacks {
			if strings.Contains(body, part) {
				t.Errorf("%s %s: %q in\n%s", c.key, c.query, part, body)
			}
		}
	}
	a := d.ask(t, "GET", "/status?tab=money&csv=1", asBrowser, basic(keyAll))
	equal(t, "the name of the file", a.header.Get("Content-Disposition"), `attachment; filename="poold-spend-by-owner.csv"`)
	a.check(t, "the spend as CSV", 200, "of-checkout")
}

// TestFormsOfThePage: a form does what the route of the API does for the same key, and then shows the page with its view.
func TestFormsOfThePage(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "checkout", 2)
	form := "Content-Type: application/x-www-form-urlencoded"
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
		a := d.send(t, "POST", "/status/act", strings.NewReader(c.form), asBrowser, form, basic(c.key))
		if !strings.Contains(a.header.Get("Location")+a.body, c.want) || a.status != c.status {
			t.Errorf("%s: %d %s %s", c.form, a.status, a.header.Get("Location"), a.body)
		}
	}
	equal(t, "flushes, pauses and resumes", d.stock.countCalls("flush", "pause", "resume"), 3)
	a := d.send(t, "POST", "/status/act", strings.NewReader("act=reload"), asBrowser, form, basic(keyAll), "Origin: https://evil.example")
	equal(t, "a form of another site", a.status, 403)
	d.ask(t, "GET", "/status?done=flush", asBrowser, basic(keyAll)).check(t, "the result", 200, "The ready tokens were discarded.")
}

// TestPageIsCheapForTheDaemon: with 300 targets, a renewal of the page costs at most 30 ms of processor time.
func TestPageIsCheapForTheDaemon(t *testing.T) {
	testkit.WithoutRace(t)
	d := startCrowd(t, 300, 60)
	used := func() time.Duration {
		var u syscall.Rusage
		testkit.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	costs := []time.Duration{}
	for range 20 {
		before := used()
		d.ask(t, "GET", "/status?open=t00001", asBrowser)
		costs = append(costs, used()-before)
	}
	slices.Sort(costs)
	t.Logf("a renewal costs %v", costs[10])
	if costs[10] > 30*time.Millisecond {
		t.Errorf("a renewal costs %v", costs)
	}
}
