package httpapi

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/historyapi"
	"poold/internal/httpapi/kernel"
)

type fakeArrivals struct {
	list     []history.Arrival
	err      error
	target   string // target of the last query
	from, to time.Time
}

func (f *fakeArrivals) Read(_ context.Context, target string, from, to time.Time) (found []history.Arrival, err error) {
	f.target, f.from, f.to = target, from, to
	for _, a := range f.list {
		if !a.At.Before(from) && a.At.Before(to) {
			found = append(found, a)
		}
	}
	return found, f.err
}

func stampOf(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z07:00") }

// TestArrivalsCountFromTheRangeStart: arrivals are in seconds from the start of the range, as
// JSON or as a trace. Without `from` the range starts at the minute of the first request.
func TestArrivalsCountFromTheRangeStart(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	minute := time.Now().UTC().Add(-3 * time.Hour).Truncate(time.Minute)
	for _, later := range []time.Duration{10100 * time.Millisecond, time.Hour, time.Hour + 100*time.Millisecond} {
		d.arrivals.list = append(d.arrivals.list, history.Arrival{At: minute.Add(later), Count: 1})
	}
	d.arrivals.list[1].Count = 3
	at := func(later time.Duration) string { return minute.Add(later).Format("2006-01-02T15:04:05.000Z") }
	for name, c := range map[string]struct {
		query, from, to string // to: "" = now
		want            []historyapi.ArrivalStep
		trace           string
	}{
		"everything": {"", at(0), "", []historyapi.ArrivalStep{{At: 10.1, N: 1}, {At: 3600, N: 3}, {At: 3600.1, N: 1}}, "10.1\n3600\n3600\n3600\n3600.1\n"},
		"from a moment on": {"from=" + at(50*time.Millisecond), at(50 * time.Millisecond), "",
			[]historyapi.ArrivalStep{{At: 10.05, N: 1}, {At: 3599.95, N: 3}, {At: 3600.05, N: 1}}, "10.05\n3599.95\n3599.95\n3599.95\n3600.05\n"},
		"until a moment":      {"to=" + at(time.Hour), at(0), at(time.Hour), []historyapi.ArrivalStep{{At: 10.1, N: 1}}, "10.1\n"},
		"both":                {"from=" + at(time.Minute) + "&to=" + at(time.Hour), at(time.Minute), at(time.Hour), []historyapi.ArrivalStep{}, ""},
		"a time not yet over": {"from=" + at(time.Hour) + "&to=" + at(99*time.Hour), at(time.Hour), "", []historyapi.ArrivalStep{{At: 0, N: 3}, {At: 0.1, N: 1}}, "0\n0\n0\n0.1\n"},
	} {
		before := time.Now().UTC()
		a := d.ask(t, "GET", "/history/arrivals/staging-login?"+c.query)
		got, sum := decodeAnswer[historyapi.ArrivalList](t, a), 0
		for _, s := range c.want {
			sum += s.N
		}
		if c.to == "" {
			c.to = stampOf(d.arrivals.to)
			if d.arrivals.to.Before(before) || d.arrivals.to.After(time.Now()) {
				t.Errorf("%s: asked until %v", name, d.arrivals.to)
			}
		}
		if want := (historyapi.ArrivalList{Target: "staging-login", From: c.from, To: c.to, Requests: sum, Arrivals: c.want}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s\nwant %+v", name, a.body, want)
		}
		if a.header.Get("Content-Type") != "application/json" || a.header.Get("Vary") != "Accept" || d.arrivals.target != "staging-login" {
			t.Errorf("%s: %v, of %s", name, a.header, d.arrivals.target)
		}
		a = d.ask(t, "GET", "/history/arrivals/staging-login?"+c.query, "Accept: text/plain")
		if a.status != 200 || a.body != c.trace || a.header.Get("Content-Type") != "text/plain; charset=utf-8" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: as a trace %d %v %q", name, a.status, a.header, a.body)
		}
	}
	if keys := keysOf(t, historyapi.ArrivalList{}); !reflect.DeepEqual(keys, []string{"target", "from", "to", "requests", "arrivals"}) {
		t.Errorf("%q", keys)
	}
	d.arrivals.list = nil
	if got := decodeAnswer[historyapi.ArrivalList](t, d.ask(t, "GET", "/history/arrivals/checkout")); got.Requests != 0 || got.From != stampOf(d.arrivals.from) {
		t.Errorf("without any: %+v, asked from %v", got, d.arrivals.from)
	}
}

// TestArrivalsHideOtherTargets: the response does not show whether a target exists if the key has
// no access to the target.
func TestArrivalsHideOtherTargets(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	checkProblem(t, "an unknown target", d.ask(t, "GET", "/history/arrivals/nobody", bearer(keyAll)), 404, kernel.CodeUnknownTarget, "")
	other, unknown := d.ask(t, "GET", "/history/arrivals/checkout", bearer(keyStaging)), d.ask(t, "GET", "/history/arrivals/nobody", bearer(keyStaging))
	if other.status != 403 || strings.ReplaceAll(other.body, "checkout", "nobody") != unknown.body {
		t.Errorf("%d %s, but %s", other.status, other.body, unknown.body)
	}
	equal(t, "the store was asked for", d.arrivals.target, "")
	d.ask(t, "GET", "/history/arrivals/staging-login", bearer(keyStaging)).check(t, "the answer", 200)
}
