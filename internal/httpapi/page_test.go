package httpapi

import (
	"context"
	"html"
	"regexp"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/targets"
)

func TestPageShowsTheDocument(t *testing.T) {
	set := sampleSet()
	set.Warnings = []targets.Problem{{File: "pools.yaml", Line: 3, Text: "a poll each 100ms is unusual"}}
	set.Providers[0].API = targets.APISimulated
	d := start(t, set, nil, nil)
	busyDay(t, d)
	a := d.ask(t, "GET", "/status", "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	if a.status != 200 || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"Cache-Control":           "no-store", "Vary": "Accept", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY",
	} {
		equal(t, name, a.header.Get(name), want)
	}
	text := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(a.body, ""))
	for _, part := range []string{
		"ready", "version 1.2.3, started 2026-01-02 03:04:05 UTC", "The provider is simulated", "pools.yaml:12: server.listen changed", "pools.yaml:3: a poll each",
		"staging-loginrecaptcha_v2, qa@example.com", "mostly_rejectedprovider solver is busy", "3 of 5wants 4", "0 of 5wants 0, warm", "expects 3.21 in a lead time, risk 1.2 %, held by credit",
		"18.0 sp90 26.0 s", "97.0 %",
		"8 of 10 an hour, 77 of 500 a day", "Over all targets 1234 of 20000 solves", "Dead letters: 2.", "0.105123", "1 lost, 1 unknown", "97 rejected", "97.0 % hits2 waited, 1 missed", "4 on order, 2 waiting, next expiry in ", "starved mostly_rejected",
		"refused failing", "yes", "pausedpaused by ops", "failingthe provider refuses this target: ERROR_GOOGLEKEY", "busyno slot", "12.50",
		"On-demand solves", "ops@example.com1253", "906843 / 7", "969 of 30 an hour, 33 of 300 a day0.25",
		"20 of 60 tokens of on-demand solves in the last 7 days served another request too: 33.3 %. 0 requests missed, 0 were refused.", "2026-01-0260040191000", "Redis: single", "As of 20",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
	if !regexp.MustCompile(`(31\.[0-5]|30\.\d|2\d\.\d) s`).MatchString(text) {
		t.Errorf("no next expiry in:\n%s", text)
	}
	if strings.Contains(text, "not ready") || strings.Contains(text, "was not applied") || strings.Contains(text, "%!") {
		t.Errorf("alarms without cause:\n%s", text)
	}
	// The page contains nothing that its policy forbids.
	equal(t, "the page holds", regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|style=|\son\w+=|javascript:|https?://`).FindString(a.body), "")
	d.config.refused = true
	d.Stopping()
	d.ask(t, "GET", "/status", "Accept: text/html").check(t, "a bad file", 200, "The configuration file was not applied", "not ready")
	for path, want := range map[string][2]string{
		"/status.css": {"text/css; charset=utf-8", "prefers-color-scheme: dark"}, "/status.js": {"text/javascript; charset=utf-8", "'/status.json?minutes=0'"},
		"/uplot.css": {"text/css; charset=utf-8", ".uplot"}, "/uplot.js": {"text/javascript; charset=utf-8", "uPlot (v1.6.32)"},
		"/status.svg": {"image/svg+xml", "<path"}, "/status.svg?n=3": {"image/svg+xml", ">3</text>"}, "/status.svg?n=100&alarm=1": {"image/svg+xml", ">99</text>"},
		"/status.svg?alarm=1": {"image/svg+xml", ">!</text>"}, "/status.svg?n=<script>": {"image/svg+xml", "<path"},
	} {
		if file := d.ask(t, "GET", path); file.status != 200 || file.header.Get("Content-Type") != want[0] || !strings.Contains(file.body, want[1]) || strings.Contains(file.body, "<script") {
			t.Errorf("%s: %d %v %.200s", path, file.status, file.header, file.body)
		}
	}
}

// TestStatusIsHTMLOnlyIfPreferred: GET /status returns HTML only to callers that prefer HTML. GET
// /status.json never returns HTML.
func TestStatusIsHTMLOnlyIfPreferred(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	for accept, begins := range map[string]string{"text/html;q=0.5, */*": "<!doctype html>", "application/json, text/html": "{"} {
		if a := d.ask(t, "GET", "/status", "Accept: "+accept); !strings.HasPrefix(a.body, begins) || a.status != 200 || a.header.Get("Vary") != "Accept" {
			t.Errorf("Accept %q: %d %.60s", accept, a.status, a.body)
		}
		if a := d.ask(t, "GET", "/status.json", "Accept: "+accept); !strings.HasPrefix(a.body, "{") {
			t.Errorf("/status.json, Accept %q: %.60s", accept, a.body)
		}
	}
}

func TestPageEscapesForeignText(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>'`
	set := sampleSet()
	set.Targets[0].Owner, set.Targets[0].Name = evil, "a"+evil
	set.Targets[0].Identity.Type = captcha.Type(evil)
	set.Warnings = []targets.Problem{{File: evil, Line: 3, Text: evil}}
	d := start(t, set, nil, nil)
	d.config.problems = []targets.Problem{{File: evil, Text: evil}}
	d.say(t, "a"+evil, refill.Status{State: evil, Reason: evil})
	d.buyer.providers = func(context.Context) []purchase.Status {
		return []purchase.Status{{Name: evil, State: provider.State{Kind: provider.StateKind(evil), Reason: evil}}}
	}
	a := d.ask(t, "GET", "/status", "Accept: text/html")
	if a.status != 200 || strings.Contains(a.body, "<script>") || strings.Contains(a.body, "<img") || strings.Contains(a.body, `="">`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if strings.Count(html.UnescapeString(a.body), evil) < 8 {
		t.Errorf("not everything is shown: %s", a.body)
	}
}
