package simulated

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// With PingEarly the pingback is answered before the submit is, in either
// protocol, and the task is done.
func TestPingEarly(t *testing.T) {
	for _, api := range []string{"legacy", "tasks"} {
		answered := make(chan struct{})
		var body string
		receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-answered:
				t.Errorf("%s: the submit was answered before", api)
			default:
			}
			text, _ := io.ReadAll(r.Body)
			body = r.URL.RawQuery + string(text)
		}))
		s := New(with(func(o *Options) { o.PingEarly, o.PingDelay, o.Ledger = true, time.Hour, true }))
		if api == "legacy" {
			buy(t, s, "pingback", receiver.URL)
		} else {
			post(t, s, "/createTask", strings.Replace(create(`"type":"TurnstileTaskProxyless"`), `{`, `{"callbackUrl":"`+receiver.URL+`",`, 1))
		}
		close(answered)
		receiver.Close() // waits for its calls
		sale := s.Sold()[0]
		if !strings.Contains(body, sale.Token) || !strings.Contains(body, sale.Task) {
			t.Errorf("%s: pinged %q", api, body)
		}
		want(t, "due at once", sale.DueAt, sale.At)
		want(t, "tried", sale.Pings, 1)
		want(t, "answered", sale.Pinged, 1)
		want(t, "poll", poll(t, s, sale.Task), "OK|"+sale.Token)

		// Who asks for no pingback waits as ever, and a refusal is not pinged.
		want(t, "no pingback", poll(t, s, buy(t, s)), "CAPCHA_NOT_READY")
		get(t, s, recaptcha("pingback", receiver.URL, "googlekey", ""))
		want(t, "refused", s.Totals().Refused, 1)
		s.Close()
	}
}

// Close ends an early pingback that nobody answers, and so its submit.
func TestCloseEndsEarlyPingback(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}))
	defer receiver.Close()
	defer close(release)
	s := New(Options{PingEarly: true, PingRepeat: 1000, Ledger: true})
	answered := make(chan string, 1)
	go func() { answered <- get(t, s, recaptcha("pingback", receiver.URL)) }()
	<-arrived
	begin := time.Now()
	s.Close()
	if took := time.Since(begin); took >= pingTimeout {
		t.Errorf("Close waited %v", took)
	}
	if text := <-answered; !strings.HasPrefix(text, "OK|") {
		t.Errorf("answered %q", text)
	}
	want(t, "tried", s.Sold()[0].Pings, 1)
	want(t, "answered", s.Sold()[0].Pinged, 0)
}

func TestPingDelayAndRepeat(t *testing.T) {
	address, got := receiver(t, http.StatusOK)
	const delay = 50 * time.Millisecond
	s := New(Options{Median: time.Millisecond, PingDelay: delay, PingRepeat: 2, Ledger: true})
	buy(t, s, "pingback", address)
	first := next(t, got)
	if late := time.Since(s.Sold()[0].DueAt); late < delay {
		t.Errorf("delivered %v after it was due", late)
	}
	for range 2 {
		want(t, "the same again", next(t, got), first)
	}
	finish(s)
	want(t, "no more", len(got), 0)
	want(t, "tried", s.Sold()[0].Pings, 3)
	want(t, "answered", s.Sold()[0].Pinged, 3)
}

// A share is drawn for each task, and the same ones for the same seed.
func TestPingShare(t *testing.T) {
	const n = 200
	full := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer full.Close()
	run := func(share float64, early bool) (pinged string, tried int) {
		s := New(Options{Seed: 9, Median: time.Millisecond, PingShare: share, PingEarly: early, Ledger: true})
		for range n {
			buy(t, s, "pingback", full.URL)
		}
		finish(s)
		for _, sale := range s.Sold() {
			pinged += map[bool]string{true: "x", false: "."}[sale.Pings > 0]
			tried += sale.Pings
			want(t, "answered", sale.Pinged, 0)
		}
		return pinged, tried
	}
	all, tried := run(0, false)
	want(t, "no share", all, strings.Repeat("x", n))
	want(t, "once each", tried, n)
	half, tried := run(0.5, false)
	if tried < n*2/5 || tried > n*3/5 {
		t.Errorf("%d of %d were sent", tried, n)
	}
	again, _ := run(0.5, true)
	want(t, "same seed", again, half)
}
