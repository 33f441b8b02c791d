package page

import (
	"encoding/json"
	"html"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/refill/policy"
	"poold/internal/status"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// part renders a part of the page as text.
func part(t *testing.T, name string, of any) string {
	t.Helper()
	var text strings.Builder
	testkit.NoError(t, templates.ExecuteTemplate(&text, name, of))
	return strings.TrimSpace(asText(text.String()))
}

// TestPageShowsTheDocument: the page has the golden document of package status, as text, and nothing that its policy
// forbids.
func TestPageShowsTheDocument(t *testing.T) {
	golden, err := os.ReadFile("../../status/testdata/document.json")
	testkit.NoError(t, err)
	v := View{Document: new(status.Document), Query: Params{"open": {"staging-login"}}, Operate: true, Whole: true}
	testkit.NoError(t, json.Unmarshal(golden, v.Document))
	login, _ := v.Target("staging-login")
	v.Detail = &status.TargetDetail{Target: *login}
	var page strings.Builder
	shows := func(parts ...string) (text string) {
		t.Helper()
		page.Reset()
		testkit.NoError(t, v.Render(&page))
		text = strings.Join(strings.Fields(asText(page.String())), " ")
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in:\n%s", part, text)
			}
		}
		return text
	}
	text := shows(
		"poold 1.2.3, started 2026-01-02 03:04:05 UTC. Redis: single", "No callbacks arrived for the last tasks",
		"pools.yaml:12: server.listen changed", "pools.yaml:3: a poll each",
		"Healthy targets0 of 31 paused, 1 refused, 1 starved", "Budget used1,234of 20,000 solves a day",
		"2 callbacks could not be stored", "Spent today0.3500since midnight",
		"solver busyno slot 3 of 20", "by callback", "refused<ERROR_GOOGLEKEY> & more",
		"20 threads of solver in use; raise concurrency; most tokens", "3 of 4, 4 on order, 2 waiting", "pausedpaused by ops",
		"about 3.21 requests until a new order lands, so 4 tokens wanted; 1.2 %", "Held back bycredit",
		"16 s (median), 19 s (90 of 100)", "103 requests: 97 hits, 2 waited, 1 missed", "Returned3 tokens",
		"Bought115: 96 handed out, 5 expired, 2 failed, 1 lost, 6 flushed, 3 ready, 2 on order",
		"8 of 10 solves in the last 60 minutes77 of 500 solves in the last 24 hours", "9 accepted, 7 rejected",
		"On-demand solves 7 identities", "12 of 21 tokens of on-demand solves",
		"curl -X POST $POOLD_URL/pool/staging-login/token")
	if strings.Contains(text, "ot ready") || strings.Contains(text, "was not applied") || strings.Contains(text, "%!") {
		t.Errorf("alarms without cause:\n%s", text)
	}
	forbidden := regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|style=|\son\w+=|javascript:|https?://[^,<]*"`)
	testkit.Equal(t, "forbidden in the page", forbidden.FindString(page.String()), "")
	v.Config.RefusedAt = "2026-01-02T03:04:05.678Z"
	v.Ready, v.Config.OK, v.Alarms = false, false, []string{"Redis does not answer: nothing is bought"}
	shows("The configuration file was not applied Since 2026-01-02 03:04:05 UTC",
		"not ready", "Redis does not answer: nothing is bought")
}

func asText(page string) string {
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, ""))
}

// TestRowsDescribeTheirTargets: a row shows only unusual facts.
func TestRowsDescribeTheirTargets(t *testing.T) {
	adaptive := string(targets.RefillAdaptive)
	for _, c := range []struct {
		target              status.Target
		stock, expects, why string
		share               int
	}{
		{status.Target{Depth: 5, Want: 3, Fresh: 2, LimitedBy: policy.LimitIdle, State: "ok"}, "2 of 3", "Held back byidle",
			"", 40},
		{status.Target{Depth: 1, Want: 5, Warm: 5, InFlight: 1, State: "ok"}, "0 of 5 (warm), 1 on order", "", "", 0},
		{status.Target{Depth: 5, Fresh: 9, InFlight: 1, Want: 5, State: "ok"}, "9, 5 wanted, 1 on order", "", "", 90},
		{status.Target{Fresh: 2, Depth: 1, Warm: 8, Want: 8, Waiting: 3, State: "starved", Reason: "why"},
			"2 of 8 (warm), 3 waiting", "", "why", 25},
		{status.Target{Depth: 9, Refill: adaptive, State: "idle"}, "0, none wanted", "Expectsno requests: no token is kept",
			"", 0},
		{
			status.Target{Want: 7, Refill: adaptive, Forecast: 12.346, Risk: .012, State: "ok", Reason: "one",
				Marks: []string{"failing", "mostly_rejected", "new"}},
			"0 of 7", "Expectsabout 12.35 requests until a new order lands, so 7 tokens wanted; " +
				"1.2 % of requests would find none",
			"one; solves fail one after the other; most tokens are rejected; new", 0,
		},
	} {
		r := TargetRow{&c.target}
		stock, expects, why := part(t, "stock", r), part(t, "expects", r), part(t, "why", r)
		if stock != c.stock || expects != c.expects || why != c.why || r.Share(r.Fresh) != c.share {
			t.Errorf("%+v:\n%q, %q, %q, %d", c.target, stock, expects, why, r.Share(r.Fresh))
		}
	}
}

// TestNumbersTimesAndMoney: how the page writes numbers, times and money.
func TestNumbersTimesAndMoney(t *testing.T) {
	money := func(currency targets.Currency, amount any) string {
		return (&View{Document: &status.Document{Currency: currency}}).Money(amount)
	}
	balance, nothing := 12.5, (*float64)(nil)
	for _, c := range []struct{ got, want string }{
		{count(12), "12"}, {count(int64(1234567)), "1,234,567"}, {count("2026-01-02"), "2026-01-02"},
		{count(1e6), "1,000,000"},
		{plural(1, "target"), "1 target"}, {plural(1000, "target"), "1,000 targets"}, {percent(.97), "97.0 %"},
		{seconds(9.46), "9.5 s"}, {seconds(61), "61 s"}, {seconds(600), "10 min"}, {seconds(9000), "2.5 h"},
		{moment(""), "never"}, {moment("2026-01-02T03:04:05.678Z"), "2026-01-02 03:04:05"},
		{money("$", 0.024), "$0.0240"}, {money("EUR", status.Amount(1_234_500_000_000)), "1,234.50 EUR"},
		{money("", 0.0), "0"}, {money("", 0.0000123), "0.000012"}, {money("$", &balance), "$12.50"},
		{money("$", history.MoneyUnknown), "no price"}, {money("$", nothing), "unknown"},
		{money("EUR", -0.15), "-0.1500 EUR"}, {money("$", nil), "unknown"},
	} {
		testkit.Equal(t, "what the page writes for "+c.want, c.got, c.want)
	}
}

// TestTheAddressSaysWhatThePageShows: the address says what the page shows, and how often it is renewed.
func TestTheAddressSaysWhatThePageShows(t *testing.T) {
	for _, c := range []struct {
		query, with, tab string
		every            int
	}{
		{"", "/status?open=a%26b", "targets", 2},
		{"tab=events&evil=1&page=7", "/status?open=a%26b&page=7&tab=events", "events", 10},
		{"tab=money&by=nobody", "/status?by=nobody&open=a%26b&tab=money", "money", 0},
		{"tab=x&refresh=off&q=", "/status?open=a%26b&refresh=off&tab=x", "targets", 0},
		{"act=flush&of=a&open=c", "/status?of=a&open=a%26b", "targets", 0},
	} {
		values, _ := url.ParseQuery(c.query)
		q := ReadQuery(values)
		if got := q.With("open", "a&b", "act", "").String(); got != c.with || q.Get("tab") != c.tab || q.Every() != c.every ||
			q.Get("by") != "owner" {
			t.Errorf("%q: %s, %s, %d", c.query, got, q.Get("tab"), q.Every())
		}
	}
}

func TestChartsHaveTheLastPeriods(t *testing.T) {
	counts := func(at string, hits, misses int64) status.TargetPeriod {
		return status.TargetPeriod{At: at, Counts: status.Counts{Hits: hits, Missed: misses}}
	}
	c := draw("2026-01-02T03:04:05.678Z", 4, time.Minute, []status.TargetPeriod{
		counts("2026-01-02T03:00:00Z", 100, 0), counts("2026-01-02T03:01:00Z", 5, 0), counts("2026-01-02T03:03:00Z", 8, 2),
		counts("2026-01-02T03:04:00Z", 8, 2),
	})
	testkit.Equal(t, "the chart",
		c, Chart{Width: 4, Height: 20, All: "M0 20H0V10H1V20H2V0H4V20z", Hits: "M0 20H0V10H1V20H2V4H4V20z", Most: 10})
}

// TestListIsSortedAndCut: problems come first unless the query asks for another order; a page has a part of the rows.
func TestListIsSortedAndCut(t *testing.T) {
	targets := []status.Target{{Name: "a", Owner: "y", State: "ok"}, {Name: "b", Owner: "x", State: "refused"},
		{Name: "c", Owner: "y", State: "ok", Marks: []string{"failing"}}}
	targets[0].Hour.Requests, targets[0].LeadTime.P50, targets[0].Hour.HitRate = 7, 1, 1
	targets[2].Days = []status.TargetDay{{Date: "2026-01-02", Spent: 3}}
	for query, want := range map[string]string{
		"": "bca", "sort=name": "abc", "sort=requests": "abc", "sort=lead": "abc", "sort=hits": "bca", "sort=spent": "cba",
		"only=problems": "bc", "sort=owner": "bca", "q=X": "b", "q=refused": "b", "page=9": "bca", "page=-1": "bca",
	} {
		values, _ := url.ParseQuery(query)
		v := View{Document: &status.Document{Targets: targets, AsOf: "2026-01-02T03:04:05.678Z"}, Query: ReadQuery(values)}
		got := ""
		for _, r := range v.List().Rows {
			got += r.Name
		}
		testkit.Equal(t, query, got, want)
	}
	v := View{Document: &status.Document{Targets: make([]status.Target, 2*rowsOnPage+1)}, Query: Params{"page": {"2"}}}
	if l := v.List(); l.From != rowsOnPage+1 || l.To != 2*rowsOnPage || l.Previous != 1 || l.Following != 3 {
		t.Errorf("the second page: %d to %d, %d %d", l.From, l.To, l.Previous, l.Following)
	}
}
