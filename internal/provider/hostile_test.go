package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// hostile is an answer that is none, or none that sells.
type hostile struct {
	name    string
	handler http.HandlerFunc
	code    string
	class   Class
	bought  bool
}

func hostileAnswers() []hostile {
	return []hostile{
		{"html page", says(200, "<!doctype html><h1>maintenance</h1>"), "html", Capacity, true},
		{"500", says(500, "OK|5"), "http_500", Capacity, true},
		{"502 with a page", says(502, "<html>"), "http_502", Capacity, true},
		{"503 with a code", says(503, `{"status":0,"request":"ERROR_PAGEURL"}`), "http_503", Capacity, true},
		{"307", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "http_307", Capacity, true},
		{"302", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			"http_302", Capacity, true},
		{"304", says(304, ""), "http_304", Capacity, true},
		{"204", says(204, ""), "empty", Capacity, true},
		{"404 page", says(404, "404 page not found"), "http_404", Capacity, true},
		{"403 page", says(403, "<html>checking your browser"), "http_403", Capacity, true},
		{"4xx that sells", says(400, `{"status":1,"request":"5"}`), "http_400", Capacity, true},
		{"10 MB", func(w http.ResponseWriter, _ *http.Request) {
			for range 160 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, "too_large", Capacity, true},
		{"10 MB of header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 10<<20))
		}, "cut", Capacity, true},
		{"cut short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"status":1,"request":"5"}`)
		}, "cut", Capacity, true},
		{"cut JSON", says(200, `{"status":1,"request":"5`), "cut", Capacity, true},
		{"nothing at all", func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "timeout", Capacity, true},
		{"a byte at a time", func(w http.ResponseWriter, r *http.Request) {
			for i := range 64 {
				_, _ = io.WriteString(w, `{"status":1,"request":"5"}`[i%26:i%26+1])
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(100 * time.Millisecond):
				case <-r.Context().Done():
					return
				}
			}
		}, "timeout", Capacity, true},
		{"abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "cut", Capacity, true},

		// Proper refusals, though the status is no 200.
		{"400 with a code", says(400, `{"status":0,"request":"ERROR_PAGEURL"}`), "ERROR_PAGEURL", Parameters, false},
		{"402 in plain text", says(402, `ERROR_WRONG_USER_KEY`), "ERROR_WRONG_USER_KEY", Account, false},
		{"429", says(429, "slow down"), "http_429", Capacity, false},
		{"429 with a code", says(429, "ERROR_NEVER_HEARD_OF"), "ERROR_NEVER_HEARD_OF", Capacity, false},
	}
}

// TestHostileAnswers: whatever a service answers, the call ends, a submit
// counts as bought and a poll's task lives on.
func TestHostileAnswers(t *testing.T) {
	for _, row := range hostileAnswers() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, action := range []string{submit, poll} {
				var calls atomicCount
				c, j := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
					calls.add()
					// Read first: only then does the server notice a hang-up.
					_, _ = io.Copy(io.Discard, r.Body)
					row.handler(w, r)
				})
				if row.code == "timeout" {
					c.limit = 300 * time.Millisecond
				}
				err := submitOne(t, c)
				outcome := "unknown"
				if action == poll {
					err = pollOne(t, c)
					outcome = "transport"
				}
				calls.reset()
				// Once more, now that a connection may be left over.
				if action == submit {
					_ = submitOne(t, c)
				} else {
					_ = pollOne(t, c)
				}
				e := faultOf(t, err)
				bought := row.bought && action == submit
				if e.Code != row.code || e.Class != row.class || e.Unknown != bought {
					t.Errorf("%s: %v (unknown %v), want %v %s (unknown %v)", action, err, e.Unknown, row.class, row.code, bought)
				}
				if e.Class == Capacity && e.Delay <= 0 {
					t.Errorf("%s: no delay", action)
				}
				if !row.bought {
					outcome = row.class.String()
				}
				if want := action + " " + outcome; row.class != Account && j.last() != want {
					t.Errorf("observed as %q, want %q", j.last(), want)
				}
				if n := calls.get(); row.class != Account && n != 1 {
					t.Errorf("%s: %d requests for one call", action, n)
				}
			}
		})
	}
}

type atomicCount struct {
	mu sync.Mutex
	n  int
}

func (a *atomicCount) add()   { a.mu.Lock(); a.n++; a.mu.Unlock() }
func (a *atomicCount) reset() { a.mu.Lock(); a.n = 0; a.mu.Unlock() }
func (a *atomicCount) get() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}

// TestCallerGivesUp: before anything was sent nothing is known and nothing
// bought; afterwards the submit counts as bought, and still tells why it ended.
func TestCallerGivesUp(t *testing.T) {
	entered := make(chan struct{}, 8)
	c, j := serve(t, Config{}, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice the hang-up
		entered <- struct{}{}
		<-r.Context().Done()
	})
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	var e *Error
	if _, err := c.Submit(gone, v2, ""); !errors.Is(err, context.Canceled) || errors.As(err, &e) {
		t.Errorf("cancelled before: %v", err)
	}
	if j.last() != "nothing" || len(entered) != 0 {
		t.Errorf("a call was made: %s", j.last())
	}
	for range 2 * outageAfter { // none of which may open the breaker
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-entered
			cancel()
		}()
		_, err := c.Submit(ctx, v2, "")
		if e := faultOf(t, err); !e.Unknown || !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled under way: %v (unknown %v)", err, e.Unknown)
		}
		if j.last() != "submit unknown" {
			t.Errorf("observed as %q", j.last())
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Poll(ctx, "5", v2); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) {
		t.Errorf("a poll past its caller's deadline: %v", err)
	}
	if s := c.State(time.Now()); s.Kind != StateOK {
		t.Errorf("the callers' impatience makes the provider %v: %s", s.Kind, s.Reason)
	}
}
