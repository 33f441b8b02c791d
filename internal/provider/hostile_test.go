package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/targets"
	"poold/internal/testkit"
)

// hostileHandlers are the answers of testdata/hostile.txt that are more than a status and a text.
func hostileHandlers(d dialect) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"307": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"302":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"16 MB": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 16<<20)) },
		"without an end": func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		},
		"16 MB of header": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 16<<20))
		},
		"cut short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, d.sold)
		},
		"silence": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a byte at a time": func(w http.ResponseWriter, r *http.Request) {
			for i := range 64 {
				_, _ = io.WriteString(w, d.sold[i%len(d.sold):i%len(d.sold)+1])
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(100 * time.Millisecond):
				case <-r.Context().Done():
					return
				}
			}
		},
		"abort": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
}

// After an invalid answer, in any protocol, the call ends. A submit counts as bought, unless the status proves that
// it is not, and a poll does not end its task. In testdata/hostile.txt, and below the heading hostile of the protocol's
// file, an answer is a status and a text, or the name of
// a handler. {sold} is the answer that sells, {cut} its beginning, {granted} the members of a successful answer, and
// {refused CODE} a refusal.
func TestAnInvalidAnswerLeavesTheOutcomeOpen(t *testing.T) {
	for _, d := range dialects() {
		handlers, own := hostileHandlers(d), 0
		for _, row := range append(repliesOf(t, "hostile.txt"), repliesOf(t, string(d.api)+".txt")...) {
			if len(row.heading) > 0 && row.heading[0] != "hostile" {
				continue
			}
			own += len(row.heading) // 0 in hostile.txt
			text := strings.NewReplacer("{sold}", d.sold, "{cut}", d.sold[:len(d.sold)-2], "{granted}",
				d.granted).Replace(row.reply)
			if before, code, is := strings.Cut(text, "{refused "); is {
				text = before + d.refused(strings.TrimSuffix(code, "}"))
			}
			handler, limit := handlers[text], callLimit
			if text == "silence" || text == "a byte at a time" {
				limit = time.Second // much longer than the time to connect
			}
			if handler == nil {
				number, body, _ := strings.Cut(text, " ")
				status, err := strconv.Atoi(number)
				testkit.NoError(t, err)
				handler = answering(status, body)
			}
			t.Run(string(d.api)+"/"+row.reply, func(t *testing.T) {
				t.Parallel()
				got := hostileOutcome(t, d, handler, limit, submit) + "; " + hostileOutcome(t, d, handler, limit, poll)
				testkit.Equal(t, row.reply, got, row.want)
			})
		}
		testkit.AtLeast(t, "rows below the heading hostile of "+string(d.api)+".txt", own, 1)
	}
}

// hostileOutcome describes the error of a call.
func hostileOutcome(t *testing.T, d dialect, handler http.HandlerFunc, limit time.Duration, action string) string {
	t.Helper()
	var calls atomic.Int32
	c, j := newServedClient(t, targets.Provider{Protocol: d.api, Service: d.profile},
		func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			// The server notices a disconnect only after the body has been read.
			_, _ = io.Copy(io.Discard, r.Body)
			handler(w, r)
		})
	c.limit = limit
	ask := submitOne
	if action == poll {
		ask = pollOne
	}
	e := faultOf(t, ask(t, c))
	calls.Store(0)
	_ = ask(t, c) // called again, because the first call may have left a connection open
	testkit.Equal(t, action+": requests for one call", calls.Load(), 1)
	if e.Class == Capacity && e.Delay <= 0 {
		t.Errorf("%s: no delay", action)
	}
	text := fmt.Sprintf("%s: %s %s", j.last(), e.Class, e.Code)
	if e.Unknown {
		text += ", may be bought"
	}
	return text
}

// A client reads at most 64 KiB of an answer.
func TestAnAnswerIsBounded(t *testing.T) {
	for _, d := range dialects() {
		for size, code := range map[int]string{65536: "", 65537: "too_large"} {
			c, _ := newServedClient(t, targets.Provider{Protocol: d.api, Service: d.profile},
				answering(200, d.sold+strings.Repeat(" ", size-len(d.sold))))
			for action, err := range map[string]error{submit: submitOne(t, c), poll: pollOne(t, c)} {
				if code == "" && err != nil || code != "" && faultOf(t, err).Code != code {
					t.Errorf("%s, %s of %d bytes: %v, want %q", d.api, action, size, err, code)
				}
			}
		}
	}
}

// A call without an answer ends after 10 s.
func TestACallIsLimitedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(t, targets.Provider{})
		c.wire = &scripted{reply: func(_ int, req *http.Request) (int, string, error) {
			<-req.Context().Done()
			return 0, "", req.Context().Err()
		}}
		began := time.Now()
		if e := faultOf(t, submitOne(t, c)); e.Code != "timeout" || !e.Unknown || time.Since(began) != 10*time.Second {
			t.Errorf("%v (unknown %v) after %v", e, e.Unknown, time.Since(began))
		}
	})
}

// If a submit is cancelled before it is sent, nothing is bought. If it is cancelled later, it counts as
// bought, and the error contains the cause.
func TestACancelledSubmitCountsAsBoughtIfSent(t *testing.T) {
	entered := make(chan struct{}, 8)
	c, j := newServedClient(t, targets.Provider{}, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // without this, the server does not notice the disconnect
		entered <- struct{}{}
		<-r.Context().Done()
	})
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	var e *Error
	if _, err := c.Submit(gone, Submission{Identity: v2}); !errors.Is(err, context.Canceled) || errors.As(err, &e) {
		t.Errorf("cancelled before: %v", err)
	}
	if j.last() != "nothing" || len(entered) != 0 {
		t.Errorf("a call was made: %s", j.last())
	}
	for range 2 {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-entered
			cancel()
		}()
		_, err := c.Submit(ctx, Submission{Identity: v2})
		if e := faultOf(t, err); !e.Unknown || !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled under way: %v (unknown %v)", err, e.Unknown)
		}
		testkit.Equal(t, "observed", j.last(), "submit unknown")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Poll(ctx, "5", v2); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) {
		t.Errorf("a poll past its caller's deadline: %v", err)
	}
}

// The error of an invalid answer names the call, the status and the beginning of the answer, but nothing that may be a
// token. The error of a redirect names the new address.
func TestAnInvalidAnswerIsQuoted(t *testing.T) {
	token := strings.Repeat("03AF", 10)
	for reply, want := range map[string]string{
		"Service  paused\n": `the poll was answered with HTTP 200 and "Service  paused"`,
		"<h1>" + strings.Repeat("a b", 50): `the poll was answered with HTTP 200 and "<h1>` + strings.Repeat("a b", 50)[:76] +
			`"`, token: `the poll was answered with HTTP 200 and "…"`,
		`{"foo": 1}`: `the poll was answered with HTTP 200 and "…"`,
	} {
		c, _ := newServedClient(t, targets.Provider{Protocol: targets.ProtocolInPHP, Service: twoCaptcha},
			answering(http.StatusOK, reply))
		if err := pollOne(t, c); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v", reply, err)
		}
	}
	for location, want := range map[string]string{
		"https://u:p@new.example/in.php?key=k#x": "the service has moved to https://new.example/in.php",
		"":                                       "the service sent no error code",
	} {
		c, _ := newServedClient(t, targets.Provider{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusMovedPermanently)
		})
		testkit.Equal(t, "cause", faultOf(t, submitOne(t, c)).Err.Error(), want)
	}
}
