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
	maxReply      = 64 << 10 // maximum size of a response body, and of its headers, in bytes
	maxRetryAfter = time.Minute

	longCause = 200 // maximum length of the text of an error, in characters

	hiccup    = 5 * time.Second // pause after a call without a proper answer
	unreached = 2 * time.Second // pause after a call that could not be sent
)

// newTransport returns the HTTP transport of one client. The transport closes idle connections
// before the service does. If the service closed a connection during a submission, the task might be
// bought and its id lost. The explicit TLS configuration restricts the transport to HTTP/1.1, so
// that it never sends a submission twice.
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

// malformedReply is the error for a reply that violates the protocol. Its text is one short word and never
// quotes the reply.
type malformedReply string

func (g malformedReply) Error() string { return "reading the answer: " + string(g) }

// These are the ways in which a reply can violate the protocol.
const (
	emptyReply      malformedReply = "empty"
	htmlReply       malformedReply = "html"
	cutReply        malformedReply = "cut"
	unexpectedReply malformedReply = "odd"
	echoReply       malformedReply = "holds_a_secret"
)

// transportError is the error for a call without a proper answer. A proper answer is a reply that follows
// the protocol.
type transportError struct {
	code    string // a short word of this package
	cause   error  // an error of this package, or the error of ctx; may be nil
	sent    bool   // the request may have reached the service
	gaveUp  bool   // the caller cancelled
	refused bool   // the service answered HTTP 429: it works, but did not execute the call
	delay   time.Duration
}

func (t *transportError) Error() string { return t.code }

// asError converts the transportError to the error that the caller of the client gets.
func (t *transportError) asError(action string) error {
	lost := action == submit && t.sent && !t.refused
	if t.gaveUp && !lost {
		return t.cause
	}
	return &Error{Class: Capacity, Code: t.code, Delay: t.delay, Unknown: lost, Err: t.cause}
}

// exchange sends one call, without retries, and parses the reply. Every error is a *transportError.
func (c *Client) exchange(ctx context.Context, q query) (answer, error) {
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	var sent atomic.Bool // atomic, because a goroutine of the transport sets it
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	// No error is possible: New checked the base URL, and the paths are constants.
	req, _ := http.NewRequestWithContext(traced, http.MethodPost, c.base+q.path, strings.NewReader(q.body))
	req.GetBody = nil // otherwise the transport would send the request again after some failures
	req.Header.Set("Content-Type", q.contentType)
	req.Header.Set("Accept", "application/json, text/plain")
	req.Header.Set("User-Agent", "poold")

	// A RoundTripper follows no redirects and keeps no cookies.
	resp, err := c.wire.RoundTrip(req)
	if err != nil {
		return answer{}, networkError(ctx, limited, err, sent.Load(), q.hide)
	}
	defer resp.Body.Close() //nolint:errcheck // closing a body after reading loses no data
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return answer{}, networkError(ctx, limited, err, true, q.hide)
	case len(reply) > maxReply:
		return answer{}, &transportError{code: "too_large", sent: true, delay: hiccup}
	}
	return c.parseReply(resp, reply, q)
}

// parseReply parses a complete reply.
func (c *Client) parseReply(resp *http.Response, reply []byte, q query) (answer, error) {
	status := resp.StatusCode
	delay := max(hiccup, retryAfter(resp.Header, time.Now()))
	code := "http_" + strconv.Itoa(status)
	if status < 200 || status >= 300 && status < 400 || status >= 500 {
		return answer{}, &transportError{code: code, sent: true, delay: delay}
	}
	a, err := q.read(reply)
	switch {
	case status >= 400 && (err != nil || a.code == ""):
		// Some services refuse calls with a 4xx status and an error code of the protocol. This reply
		// has a 4xx status but no code. The reason is therefore unknown, and the content is not
		// trusted.
		return answer{}, &transportError{code: code, sent: true, refused: status == http.StatusTooManyRequests, delay: delay}
	case err != nil:
		g := unexpectedReply
		_ = errors.As(err, &g)
		return answer{}, &transportError{code: string(g), cause: g, sent: true, delay: hiccup}
	case q.leaksSecret(a.text):
		// A token must not contain the key or the secret of a pingback. The same is true for a task
		// id, because it is logged.
		return answer{}, &transportError{code: string(echoReply), cause: echoReply, sent: true, delay: hiccup}
	}
	if containsSecret(a.userAgent, q.secrets) {
		a.userAgent = ""
	}
	if status == http.StatusTooManyRequests {
		a.retryAfter = delay
	}
	return a, nil
}

// leaksSecret reports whether the text of an answer, or one of its named values, contains one of the
// secrets.
func (q query) leaksSecret(text string) bool {
	for _, value := range captcha.Named(q.answers, text) {
		if containsSecret(value, q.secrets) {
			return true
		}
	}
	return containsSecret(text, q.secrets)
}

// containsSecret reports whether a text contains one of the secrets.
func containsSecret(text string, secrets []captcha.Secret) bool {
	return slices.ContainsFunc(secrets, func(s captcha.Secret) bool {
		return s != "" && strings.Contains(text, s.Reveal())
	})
}

// minSecretPiece is the minimum length, in bytes, of the pieces of secrets that the client looks
// for in replies. Shorter pieces could occur in harmless texts.
const minSecretPiece = 16

// pingbackSecrets returns a pingback's URL, and those pieces of its path and query that may be
// secrets. A service may quote only a part of the URL.
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
			if len(piece) >= minSecretPiece {
				all = append(all, captcha.Secret(piece))
			}
		}
	}
	return all
}

// networkError converts a network error to a *transportError. It keeps the text of the error only if the
// request was not sent, because the text of a later error can quote the service.
func networkError(ctx, limited context.Context, err error, sent bool, hide []captcha.Secret) error {
	t := &transportError{sent: sent, delay: hiccup}
	switch {
	case ctx.Err() != nil:
		t.code, t.cause, t.gaveUp = "caller_gave_up", ctx.Err(), true
	case sent && limited.Err() != nil:
		t.code, t.cause = "timeout", errors.New("no answer in time")
	case sent:
		t.code, t.cause = string(cutReply), errors.New("the connection ended before the answer did")
	default:
		t.code, t.cause, t.delay = "unreachable", errors.New(clean(err.Error(), longCause, hide...)), unreached
	}
	return t
}

// retryAfter parses the header Retry-After, which contains seconds or a date. It returns at most one
// minute. Without a valid header it returns 0.
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
