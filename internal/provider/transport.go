package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
)

const (
	maxReply      = 64 << 10 // bytes of an answer, and of its headers
	maxRetryAfter = time.Minute

	longCause = 200 // characters of an error's text

	hiccup    = 5 * time.Second // delay after a call without a proper answer
	unreached = 2 * time.Second // delay after a call that was not sent
)

// newTransport makes a pool of connections for one client. Idle connections are closed earlier
// than services close them: if the service closed one during a submit, the task might be bought
// and its id lost. The explicit TLS configuration also keeps the transport at HTTP/1.1; the
// tests prove that it does not send a submit twice.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    5 * time.Second,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        20 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxReply,
	}
}

// garbled is the error of a reply that violates the protocol: one short word, never a piece of the
// reply.
type garbled string

func (g garbled) Error() string { return "reading the answer: " + string(g) }

// The ways in which a reply violates the protocol.
const (
	emptyReply garbled = "empty"
	htmlReply  garbled = "html"
	cutReply   garbled = "cut"
	oddReply   garbled = "odd"
	echoReply  garbled = "holds_a_secret"
)

// trouble is a call that ended without an answer in the protocol.
type trouble struct {
	code    string // a short word of this package
	why     string // of a call that was not sent, in a few words; else ""
	cause   error  // in this package's words, or ctx's; may be nil
	sent    bool   // the request may have reached the service
	gaveUp  bool   // the caller cancelled
	refused bool   // HTTP 429: the service works and did nothing
	delay   time.Duration
}

func (t *trouble) Error() string { return t.code }

// words are the code and why.
func (t *trouble) words() string {
	if t.why == "" {
		return t.code
	}
	return t.code + ": " + t.why
}

// asError returns the error for the caller of an action.
func (t *trouble) asError(action string) error {
	lost := action == submit && t.sent && !t.refused
	if t.gaveUp && !lost {
		return t.cause
	}
	return &Error{Class: Capacity, Code: t.code, Delay: t.delay, Unknown: lost, Err: t.cause}
}

// exchange sends one call, once, and reads its answer. Every error is a *trouble.
func (c *Client) exchange(ctx context.Context, q query) (answer, error) {
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	var sent atomic.Bool // set by a goroutine of the transport
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, c.base+q.path, strings.NewReader(q.body))
	if err != nil {
		return answer{}, &trouble{code: "unreachable", cause: errors.New("making the request: bad URL"), delay: unreached}
	}
	req.GetBody = nil // otherwise the transport would send it again after some failures
	req.Header.Set("Content-Type", q.contentType)
	req.Header.Set("Accept", "application/json, text/plain")
	req.Header.Set("User-Agent", "poold")

	// A RoundTripper by itself follows no redirect and keeps no cookie.
	resp, err := c.wire.RoundTrip(req)
	if err != nil {
		return answer{}, broken(ctx, limited, err, sent.Load(), q.hide)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return answer{}, broken(ctx, limited, err, true, q.hide)
	case len(reply) > maxReply:
		return answer{}, &trouble{code: "too_large", sent: true, delay: hiccup}
	}
	return c.understand(resp, reply, q)
}

// understand reads a complete reply.
func (c *Client) understand(resp *http.Response, reply []byte, q query) (answer, error) {
	status := resp.StatusCode
	delay := max(hiccup, retryAfter(resp.Header, time.Now()))
	code := "http_" + strconv.Itoa(status)
	if status < 200 || status >= 300 && status < 400 || status >= 500 {
		return answer{}, &trouble{code: code, sent: true, delay: delay}
	}
	a, err := q.read(reply)
	switch {
	case status >= 400 && (err != nil || a.code == ""):
		// Some services refuse with 4xx and a code of the protocol. Without a code the reason is
		// unknown. A 4xx never means that the task was bought.
		return answer{}, &trouble{code: code, sent: true, refused: status == http.StatusTooManyRequests, delay: delay}
	case err != nil:
		g := oddReply
		_ = errors.As(err, &g)
		return answer{}, &trouble{code: string(g), cause: g, sent: true, delay: hiccup}
	case q.leaks(a.text):
		// A task id is logged and a token is handed out: neither may contain the key or
		// a pingback's secret.
		return answer{}, &trouble{code: string(echoReply), cause: echoReply, sent: true, delay: hiccup}
	}
	if shows(a.userAgent, q.secrets) {
		a.userAgent = ""
	}
	if status == http.StatusTooManyRequests {
		a.retryAfter = delay
	}
	return a, nil
}

// leaks reports whether an answer's text, or one of its named values, contains one of the secrets.
func (q query) leaks(text string) bool {
	for _, value := range captcha.Named(q.answers, text) {
		if shows(value, q.secrets) {
			return true
		}
	}
	return shows(text, q.secrets)
}

// shows reports whether text holds one of the secrets.
func shows(text string, secrets []captcha.Secret) bool {
	return slices.ContainsFunc(secrets, func(s captcha.Secret) bool {
		return s != "" && strings.Contains(text, s.Reveal())
	})
}

// leastSecret is the least length of a piece of a secret that is searched for. Shorter pieces could
// occur in harmless texts.
const leastSecret = 16

// pingbackSecrets returns a pingback's URL and the pieces of its path and query that may be
// secrets, because a service may quote a part of it.
func pingbackSecrets(text string) []captcha.Secret {
	if text == "" {
		return nil
	}
	all := []captcha.Secret{captcha.Secret(text)}
	u, err := url.Parse(text)
	if err != nil {
		return all
	}
	for _, form := range []string{u.Path, u.RequestURI()} {
		for piece := range strings.FieldsFuncSeq(form, func(r rune) bool { return strings.ContainsRune("/?&=", r) }) {
			if len(piece) >= leastSecret {
				all = append(all, captcha.Secret(piece))
			}
		}
	}
	return all
}

// broken converts a network error. It uses the error's text only if nothing was sent, because later
// errors can quote the service.
func broken(ctx, limited context.Context, err error, sent bool, hide []captcha.Secret) error {
	t := &trouble{sent: sent, delay: hiccup}
	switch {
	case ctx.Err() != nil:
		t.code, t.cause, t.gaveUp = "caller_gave_up", ctx.Err(), true
	case sent && limited.Err() != nil:
		t.code, t.cause = "timeout", errors.New("no answer in time")
	case sent:
		t.code, t.cause = string(cutReply), errors.New("the connection ended before the answer did")
	default:
		t.why = unreachedCause(err)
		t.code, t.cause, t.delay = "unreachable", errors.New(clean(err.Error(), longCause, hide...)), unreached
	}
	return t
}

// retryAfter reads the header in either form; 0 = none, one minute at most.
func retryAfter(h http.Header, at time.Time) time.Duration {
	text := h.Get("Retry-After")
	wait := time.Duration(0)
	if seconds, ok := finite(text); ok {
		wait = time.Duration(max(0, min(seconds, maxRetryAfter.Seconds())) * float64(time.Second))
	} else if date, err := http.ParseTime(text); err == nil {
		wait = date.Sub(at)
	}
	return min(max(wait, 0), maxRetryAfter)
}
