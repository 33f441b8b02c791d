package httpapi

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"poold/internal/provider"
	"poold/internal/refill"
	"poold/internal/status"
	"poold/internal/testkit"
)

// TestOutageIsNamedEverywhere: during an outage of all providers, the document, the page, each row
// and the responses to callers name the provider.
func TestOutageIsNamedEverywhere(t *testing.T) {
	set := sampleSet()
	set.Redis.URL = "embedded" // causes a notice in the document
	d := start(t, set, nil, nil)
	const why = "provider solver is down: wrong key (ERROR_KEY_DOES_NOT_EXIST)"
	d.provider.State = provider.State{Kind: provider.StateDown, Reason: "wrong key (ERROR_KEY_DOES_NOT_EXIST)", Until: time.Now().Add(time.Minute)}
	d.say(t, "checkout", refill.Status{Want: 5, State: refill.Starved, Reason: "waiting for a provider that can take an order"})
	d.say(t, "staging-login", refill.Status{State: refill.OK, Risk: 1}) // adaptive, without callers
	d.say(t, "staging-signup", refill.Status{Want: 2, State: refill.OK})
	d.fill(t, "staging-signup", 2)
	var document status.Document
	show := func() []status.Target {
		t.Helper()
		d.status.Changed()
		document = parseAnswer[status.Document](t, d.ask(t, "GET", "/status.json"))
		return document.Targets
	}
	rows := show()
	const alarm = "Provider solver is down (wrong key (ERROR_KEY_DOES_NOT_EXIST)): nothing is bought; "
	if len(document.Alarms) != 1 || !strings.HasPrefix(document.Alarms[0], alarm) {
		t.Errorf("alarms: %q", document.Alarms)
	}
	for i, state := range []string{refill.Starved, status.StateIdle, refill.OK} {
		if rows[i].State != state || rows[i].Reason != why {
			t.Errorf("%s: %s %q, want %s", rows[i].Name, rows[i].State, rows[i].Reason, state)
		}
	}
	d.ask(t, "GET", "/pool/checkout/token").check(t, "a caller hears something else", 0, `"detail":"`+why+`"`)

	page := d.ask(t, "GET", "/status", "Accept: text/html").body
	text := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page[strings.LastIndex(page, "<noscript>"):], ""))
	if !strings.HasPrefix(strings.TrimSpace(text), alarm) {
		t.Errorf("the page begins with something else:\n%s", text)
	}
	if strings.Count(text, why) != 3 || strings.Contains(page, `badge ok">ready`) || strings.Index(text, "Providers") > strings.Index(text, "Targets") {
		t.Errorf("not in each row, a green ready, or the providers below:\n%s", page)
	}

	// After the take, poold must buy another token for the target but cannot.
	d.ask(t, "GET", "/pool/staging-signup/token")
	if rows = show(); rows[2].State != refill.Starved || rows[2].Reason != why {
		t.Errorf("%+v", rows[2])
	}
	// If a target has a reason of its own, its row shows this reason. The responses to callers contain
	// the same reason.
	d.say(t, "checkout", refill.Status{State: refill.Refused, Reason: "ERROR_GOOGLEKEY"})
	d.say(t, "staging-login", refill.Status{State: refill.Budget, Reason: "the hour is full"})
	d.say(t, "staging-signup", refill.Status{State: refill.Paused, Reason: "paused by ops"})
	rows = show()
	for i, want := range []string{"refused the provider refuses this target: ERROR_GOOGLEKEY", "budget the hour is full", "paused paused by ops"} {
		if got := rows[i].State + " " + rows[i].Reason; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", rows[i].Name, got, want)
		}
	}

	// If Redis is down, each row says that Redis is down. The alarm about the providers comes after
	// the alarm about the store.
	d.say(t, "checkout", refill.Status{Want: 5, State: refill.OK})
	show()
	d.stock.redis.SetDown(true)
	testkit.Within(t, 20*time.Second, "both alarms", func() bool {
		rows = show()
		return strings.HasPrefix(rows[0].Reason, "redis does not answer") && len(document.Alarms) == 2 &&
			strings.Contains(document.Alarms[0], "edis does not answer: no token is handed out") && strings.HasPrefix(document.Alarms[1], alarm)
	})
}
