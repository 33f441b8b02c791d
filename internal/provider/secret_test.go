package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// No error, state or log line contains the key, whatever part of it the service echoes.
func TestTheKeyIsNeverShown(t *testing.T) {
	id := v2
	id.Proxy, id.ProxyType = proxyCanary, "http"
	check := func(where, text string) {
		t.Helper()
		for _, word := range []string{canary, "canary-KEY", "proxy-user:", "proxy-canary", "192.0.2.1", "callback-canary"} {
			if strings.Contains(text, word) {
				t.Errorf("%s shows %s: %s", where, word, text)
			}
		}
	}
	for _, d := range dialects() {
		id := id
		_, err := protocolOf(targets.Provider{Protocol: d.api}).submit(Submission{Identity: id})
		if err != nil {
			id = v2 // this protocol has no proxies
		}
		for name, handler := range echoes(d.refused) {
			if strings.HasPrefix(name, "proxy") && id.Proxy == "" {
				continue // the service never had it
			}
			var calls atomic.Int32
			c, j := newServedClient(t, targets.Provider{Protocol: d.api, Balance: true},
				func(w http.ResponseWriter, r *http.Request) {
					calls.Add(1)
					check("the request line", r.RequestURI)
					r.Header.Del("Authorization") // the place for a key
					check("a header", fmt.Sprint(r.Header))
					handler(w, r)
				})
			_, err := c.Submit(t.Context(), Submission{Identity: id})
			testkit.Equal(t, fmt.Sprintf("%s: calls of a submit (%v)", d.api, err), calls.Load(), 1)
			makeEveryCall(t, c, j, name, id, check)
		}
	}
	url, _ := rawServer(t, func(conn net.Conn, next func() bool) {
		next()
		_, _ = io.WriteString(conn, canary+"\r\n\r\n")
	})
	c, j := newClient(t, targets.Provider{URL: url})
	makeEveryCall(t, c, j, "no HTTP", id, check)
	c, j = newClient(t, targets.Provider{URL: "http://example.com"})
	transport, _ := c.wire.(*http.Transport)
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("dialling with " + canary)
	}
	makeEveryCall(t, c, j, "dial", id, check)

	check("a printed client", fmt.Sprintf("%v %+v", c.cfg, c.cfg))
}

// callbackURL is a URL with a secret at the end of its path.
const callbackURL = "https://poold.example.com/callback/provider/order-1/callback-canary0123"

const proxyCanary = "proxy-user:proxy-canary@192.0.2.1:8080"

// jsonKey is the text of canary with JSON escapes.
const jsonKey = `canary-KEY+/&=\"%41~0123456789abcdef`

// echoes returns handlers that echo the key, the callback or the proxy in different ways.
func echoes(refused func(code string) string) map[string]http.HandlerFunc {
	bodies := map[string]string{
		"code":            refused("ERROR_NO_KEY_" + jsonKey),
		"bare":            refused(jsonKey),
		"proxy":           refused("ERROR_X bad proxy " + proxyCanary),
		"proxy's word":    refused("ERROR_X proxy-canary is no good"),
		"hidden":          refused(strings.ReplaceAll(jsonKey, "-", "-\u200b\u0000")),
		"callback":        refused("ERROR_X cannot reach " + callbackURL),
		"callback's path": refused("ERROR_X GET " + strings.TrimPrefix(callbackURL, "https://poold.example.com")),
		"plain":           "ERROR_KEY " + canary,
		"known":           "ERROR_WRONG_USER_KEY: " + canary,
		"plain callback":  "ERROR_X cannot reach " + callbackURL,
		"link":            "https://example.com/?key=" + canary,
		"html":            "<html>" + canary,
		"wrong type":      `{"status":{"` + jsonKey + `":1},"request":7}`,
		"cut":             `{"status":1,"request":"` + jsonKey,
		"error number":    `{"errorId":"` + jsonKey + `"}`,
		"balance":         `{"errorId":0,"balance":"` + jsonKey + `"}`,
	}
	all := map[string]http.HandlerFunc{
		"500": answering(500, canary),
		"429": answering(429, canary),
		"404": answering(404, canary),
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/?key="+canary, http.StatusTemporaryRedirect)
		},
	}
	for name, body := range bodies {
		all[name] = answering(200, body)
	}
	return all
}

// makeEveryCall makes every call and passes each resulting text to the function check.
func makeEveryCall(t *testing.T, c *Client, j *journal, name string, id captcha.Identity,
	check func(where, text string)) {
	t.Helper()
	ctx := context.Background()
	_, err := c.Submit(ctx, Submission{Identity: id, CallbackURL: callbackURL})
	// These calls have no callback, and some have no proxy. Therefore the client could not
	// recognise these secrets in an answer.
	var err2, err3, err4, err5 error
	if !strings.Contains(name, "callback") {
		_, err2 = c.Poll(ctx, "5", id)
	}
	if !strings.Contains(name, "callback") && !strings.Contains(name, "proxy") {
		_, _, err3 = c.Threads(ctx)
		err4 = c.ReadBalance(ctx)
		err5 = c.Report(ctx, "5", id.Type, false)
	}
	for _, err := range []error{err, err2, err3, err4, err5} {
		for ; err != nil; err = errors.Unwrap(err) {
			check(name+", an error", fmt.Sprintf("%v %+v %#v", err, err, err))
		}
	}
	for _, line := range j.outcomes {
		check(name+", an outcome", line)
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"ERROR_X":                      "ERROR_X",
		"ERROR\nX\x1b[31m\u202e\xff é": "ERRORX[31m ",
		"a " + canary + " b":           "a [redacted] b",
		"a canary-\u200bKEY\x00" + canary[len("canary-KEY"):]: "a [redacted]",
		"key=canary-KEY%2B%2F%26%3D%22%2541~0123456789abcdef": "key=[redacted]",
		strings.Repeat("x", 95) + canary:                      strings.Repeat("x", 95) + "[reda",
	} {
		testkit.Equal(t, text, clean(text, 100, "", canary), want)
	}
	testkit.Equal(t, "a short secret, and one that is not ASCII",
		clean("ERROR_KEY: key is påsswörd, okay", 100, "key", "påsswörd"), "ERROR_KEY: [redacted] is [redacted], okay")
}
