package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/targets"
	"poold/internal/testkit"
)

// hostile is an answer that is invalid or that refuses the call.
type hostile struct {
	name    string
	handler http.HandlerFunc
	code    string
	class   Class
	bought  bool
	bare    Class // of a submit, which the bare status refuses; 0 = the other fields hold
	granted bool  // a poll says that the task is solved, with an unreadable solution
}

// dialect is the form in which a protocol writes answers.
type dialect struct {
	api     targets.Protocol
	profile string
	sold    string              // the answer to a submit or a poll
	granted string              // the content of an answer to a successful call
	refused func(string) string // a refusal with this code
}

func dialects() []dialect {
	return []dialect{
		{targets.ProtocolInPHP, captchaAI, `{"status":1,"request":"5"}`, `"status":1`,
			func(code string) string { return `{"status":0,"request":"` + code + `"}` }},
		{
			targets.ProtocolCreateTask, other,
			`{"errorId":0,"taskId":"5","status":"ready","solution":{"token":"5","gRecaptchaResponse":"5"}}`, `"errorId":0,"status":"ready"`,
			func(code string) string { return `{"errorId":1,"errorCode":"` + code + `"}` },
		},
	}
}

func hostileAnswers(d dialect) []hostile {
	rows := []hostile{
		{"html page", answering(200, "<!doctype html><h1>maintenance</h1>"), "html", Capacity, true, 0, false},
		{"500", answering(500, d.sold), "http_500", Capacity, true, 0, false},
		{"500 with a code", answering(500, d.refused("ERROR_PAGEURL")), "http_500", Capacity, true, 0, false},
		{"300", answering(300, d.sold), "http_300", Capacity, true, Account, false},
		{"502 with a page", answering(502, "<html>"), "http_502", Capacity, true, 0, false},
		{"503 with a code", answering(503, d.refused("ERROR_PAGEURL")), "http_503", Capacity, true, Capacity, false},
		{"a front without its service", answering(521, "<html>"), "http_521", Capacity, true, Capacity, false},
		{"a front that lost its service", answering(520, "<html>"), "http_520", Capacity, true, 0, false},
		{"408", answering(408, ""), "http_408", Capacity, true, 0, false},
		{"425", answering(425, ""), "http_425", Capacity, true, 0, false},
		{"413", answering(413, ""), "http_413", Capacity, true, Parameters, false},
		{"307", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "http_307", Capacity, true, Account, false},
		{"302", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			"http_302", Capacity, true, Account, false},
		{"304", answering(304, ""), "http_304", Capacity, true, Account, false},
		{"204", answering(204, ""), "empty", Capacity, true, 0, false},
		{"404 page", answering(404, "404 page not found"), "http_404", Capacity, true, Account, false},
		{"403 page", answering(403, "<html>checking your browser"), "http_403", Capacity, true, Account, false},
		{"4xx that sells", answering(400, d.sold), "http_400", Capacity, true, 0, false},
		{"16 MB", func(w http.ResponseWriter, _ *http.Request) {
			for range 256 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, "too_large", Capacity, true, 0, false},
		{"without an end", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, "too_large", Capacity, true, 0, false},
		{"16 MB of header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 16<<20))
		}, "cut", Capacity, true, 0, false},
		{"cut short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, d.sold)
		}, "cut", Capacity, true, 0, false},
		{"cut JSON", answering(200, d.sold[:len(d.sold)-2]), "cut", Capacity, true, 0, false},
		{"nothing", answering(200, ""), "empty", Capacity, true, 0, false},
		{"nothing but space", answering(200, " \r\n\t"), "empty", Capacity, true, 0, false},
		{"silence", func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "timeout", Capacity, true, 0, false},
		{"a byte at a time", func(w http.ResponseWriter, r *http.Request) {
			for i := range 64 {
				_, _ = io.WriteString(w, d.sold[i%len(d.sold):i%len(d.sold)+1])
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(100 * time.Millisecond):
				case <-r.Context().Done():
					return
				}
			}
		}, "timeout", Capacity, true, 0, false},
		{"abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "cut", Capacity, true, 0, false},

		// These are proper refusals with a status other than 200.
		{"400 with a code", answering(400, d.refused("ERROR_PAGEURL")), "ERROR_PAGEURL", Parameters, false, 0, false},
		{"402 with a code", answering(402, d.refused("ERROR_WRONG_USER_KEY")), "ERROR_WRONG_USER_KEY", Account, false, 0, false},
		{"429", answering(429, "slow down"), "http_429", Capacity, false, 0, false},
		{"429 that sells", answering(429, d.sold), "http_429", Capacity, false, 0, false},
		{"429 with a code", answering(429, d.refused("ERROR_NEVER_HEARD_OF")), "ERROR_NEVER_HEARD_OF", Capacity, false, 0, false},
		{"429 with a task's code", answering(429, d.refused("ERROR_CAPTCHA_UNSOLVABLE")), "ERROR_CAPTCHA_UNSOLVABLE",
			Capacity, false, 0, false},
		{"429 with an account's code", answering(429, d.refused("ERROR_KEY_DOES_NOT_EXIST")), "ERROR_KEY_DOES_NOT_EXIST",
			Account, false, 0, false},
	}
	if d.api == targets.ProtocolInPHP {
		rows = append(rows, hostile{"402 in plain text", answering(402, "ERROR_WRONG_USER_KEY"), "ERROR_WRONG_USER_KEY",
			Account, false, 0, false})
	}
	// These are answers with wrong types, and answers of the other protocol.
	for name, body := range map[string]string{
		"a list": "[" + d.sold + "]", "a number": "7", "a text": `"5"`, "null": "null", "true": "true", "an empty object": "{}",
		"objects":       `{"status":{},"request":{},"errorId":{},"errorCode":{},"taskId":{},"solution":{}}`,
		"lists":         `{` + d.granted + `,"request":["5"],"taskId":["5"],"solution":[{"token":"5"}]}`,
		"truth":         `{` + d.granted + `,"request":true,"taskId":true,"solution":true}`,
		"numbers":       `{` + d.granted + `,"request":5.5,"taskId":5.5,"solution":{"token":5.5,"gRecaptchaResponse":5.5}}`,
		"a control":     `{` + d.granted + `,"request":"5\u0000","taskId":"5\n","solution":{"token":"5\u0000"}}`,
		"nothing in it": `{` + d.granted + `,"request":"","taskId":"","solution":{"token":""}}`,
		"another tongue": map[targets.Protocol]string{targets.ProtocolInPHP: dialects()[1].sold,
			targets.ProtocolCreateTask: dialects()[0].sold}[d.api],
	} {
		granted := d.api == targets.ProtocolCreateTask && strings.Contains(body, d.granted+`,"request"`)
		rows = append(rows, hostile{name, answering(200, body), "odd", Capacity, true, 0, granted})
	}
	return rows
}

// After an invalid answer, in either protocol, the call ends. A submit counts as bought, unless the status proves that
// it is not, and a poll does not end its task.
func TestAnInvalidAnswerLeavesTheOutcomeOpen(t *testing.T) {
	for _, d := range dialects() {
		for _, row := range hostileAnswers(d) {
			t.Run(string(d.api)+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				for _, action := range []string{submit, poll} {
					testHostileAnswer(t, d, row, action)
				}
			})
		}
	}
}

func testHostileAnswer(t *testing.T, d dialect, row hostile, action string) {
	t.Helper()
	var calls atomic.Int32
	c, j := newServedClient(t, targets.Provider{Protocol: d.api, Service: d.profile}, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		// The server notices a disconnect only after the body has been read.
		_, _ = io.Copy(io.Discard, r.Body)
		row.handler(w, r)
	})
	if row.code == "timeout" {
		c.limit = time.Second // much longer than the time to connect
	}
	ask, outcome := submitOne, "unknown"
	if action == poll {
		ask, outcome = pollOne, "transport"
	}
	err := ask(t, c)
	calls.Store(0)
	_ = ask(t, c) // called again, because the first call may have left a connection open
	e := faultOf(t, err)
	if action == poll && row.granted {
		row.code, row.class, outcome = Unreadable, Task, Task.String()
	}
	bought := row.bought && action == submit
	if row.bare != 0 && action == submit {
		bought, row.class = false, row.bare
		if outcome = "transport"; row.bare != Capacity {
			outcome = row.bare.String()
		}
	}
	if e.Code != row.code || e.Class != row.class || e.Unknown != bought {
		t.Errorf("%s: %v (unknown %v), want %v %s (unknown %v)", action, err, e.Unknown, row.class, row.code, bought)
	}
	if e.Class == Capacity && e.Delay <= 0 {
		t.Errorf("%s: no delay", action)
	}
	if !row.bought {
		outcome = row.class.String()
	}
	testkit.Equal(t, "observed", j.last(), action+" "+outcome)
	testkit.Equal(t, action+": requests for one call", calls.Load(), 1)
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
	if _, err := c.Submit(gone, Request{Identity: v2}); !errors.Is(err, context.Canceled) || errors.As(err, &e) {
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
		_, err := c.Submit(ctx, Request{Identity: v2})
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
		"Service  paused\n":                `the poll was answered with HTTP 200 and "Service  paused"`,
		"<h1>" + strings.Repeat("a b", 50): `the poll was answered with HTTP 200 and "<h1>` + strings.Repeat("a b", 50)[:76] + `"`,
		token:                              `the poll was answered with HTTP 200 and "…"`,
		`{"foo": 1}`:                       `the poll was answered with HTTP 200 and "…"`,
	} {
		c, _ := newServedClient(t, targets.Provider{Protocol: targets.ProtocolInPHP, Service: twoCaptcha}, answering(http.StatusOK, reply))
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
