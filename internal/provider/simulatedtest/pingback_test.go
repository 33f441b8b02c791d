package simulatedtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// received is a pingback that reached the receiver.
type received struct{ method, uri, kind, body string }

// receiver starts a server that answers pingbacks with the given status. The server sends each pingback
// to the returned channel.
func receiver(t *testing.T, status int) (string, <-chan received) {
	t.Helper()
	got := make(chan received, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- received{r.Method, r.RequestURI, r.Header.Get("Content-Type"), string(body)}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

// nextPingback waits for a pingback. It fails the test after a long time limit.
func nextPingback(t *testing.T, got <-chan received) received {
	t.Helper()
	select {
	case r := <-got:
		return r
	case <-time.After(10 * time.Second):
		t.Fatal("no pingback came")
		return received{}
	}
}

func TestPingbackForms(t *testing.T) {
	quick := Options{Seed: 5, Median: time.Millisecond}
	address, got := receiver(t, http.StatusOK)

	// The flavour captchaai sends a GET and keeps the query of the address.
	s := New(quick)
	id := buy(t, s, "pingback", address+"/cb?secret=s%20x")
	r := nextPingback(t, got)
	closeWhenSent(s)
	want(t, "get", r.method+" "+r.uri, "GET /cb?secret=s%20x&code="+s.Sold()[0].Token+"&id="+id)
	want(t, "delivered", s.Sold()[0].Pinged, 1)
	want(t, "a pingback collects nothing", s.Totals().Collected, 0)

	// The flavour 2captcha sends a POST with a form.
	quick.Flavour = TwoCaptcha
	s = New(quick)
	id = buy(t, s, "pingback", address+"/cb")
	r = nextPingback(t, got)
	closeWhenSent(s)
	want(t, "form", r, received{
		http.MethodPost, "/cb", "application/x-www-form-urlencoded", "code=" + s.Sold()[0].Token + "&id=" + id,
	})

	// The tasks protocol sends a POST with the JSON of getTaskResult.
	s = New(quick)
	id = orderTask(t, s, strings.Replace(createBody(`"type":"TurnstileTaskProxyless"`), `{`, `{"callbackUrl":"`+address+`/cb",`, 1))
	r = nextPingback(t, got)
	closeWhenSent(s)
	want(t, "json", r.method+" "+r.uri+" "+r.kind, "POST /cb application/json")
	v := decode(t, r.body)
	sol, _ := v["solution"].(map[string]any)
	want(t, "token", sol["token"], any(s.Sold()[0].Token))
	want(t, "task", fmt.Sprintf("%.0f", v["taskId"]), id)

	// For a failed task, the pingback contains the error code in place of the token.
	quick.FailShare = 1
	s = New(quick)
	id = buy(t, s, "pingback", address)
	want(t, "failed", nextPingback(t, got).body, "code=ERROR_CAPTCHA_UNSOLVABLE&id="+id)
	s.Close()
}

// A pingback is delivered once, and not before the due time. A poll can still collect the task.
func TestPingbackComesOnceWhenDue(t *testing.T) {
	address, got := receiver(t, http.StatusServiceUnavailable)
	s := New(Options{Median: 50 * time.Millisecond})
	id := buy(t, s, "pingback", address)
	nextPingback(t, got)
	sale := s.Sold()[0]
	if time.Now().Before(sale.Due) {
		t.Error("it came too early")
	}
	want(t, "poll", poll(t, s, id), "OK|"+sale.Token)
	closeWhenSent(s)
	want(t, "more of them", len(got), 0)
	want(t, "counted", s.Sold()[0].Pinged, 0)
}

// closeWhenSent waits until every pingback is delivered or abandoned, and then closes the service.
func closeWhenSent(s *Service) {
	s.running.Wait()
	s.Close()
}

// PingShare selects tasks at random, and equal seeds select the same tasks.
func TestPingShare(t *testing.T) {
	const n = 200
	run := func(share float64) (pinged string) {
		address, got := receiver(t, http.StatusOK)
		s := New(Options{Seed: 9, Median: time.Millisecond, PingShare: share})
		for range n {
			buy(t, s, "pingback", address)
		}
		closeWhenSent(s)
		for _, sale := range s.Sold() {
			pinged += fmt.Sprint(sale.Pinged)
		}
		want(t, "delivered", len(got), strings.Count(pinged, "1"))
		return pinged
	}
	want(t, "no share", run(0), strings.Repeat("1", n))
	half := run(0.5)
	if sent := strings.Count(half, "1"); sent < n*2/5 || sent > n*3/5 {
		t.Errorf("sent %s", half)
	}
	want(t, "same seed", run(0.5), half)
}

func TestCloseEndsPingbacks(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}))
	defer server.Close()
	defer close(release)
	s := New(Options{Median: time.Millisecond})
	buy(t, s, "pingback", server.URL)
	<-arrived
	begin := time.Now()
	s.Close()
	if took := time.Since(begin); took >= pingClient.Timeout {
		t.Errorf("Close waited %v for a receiver that never answers", took)
	}
}
