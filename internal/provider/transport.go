package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxReply      = 64 << 10 // maximum size of a response body, and of its headers, in bytes
	maxRetryAfter = time.Minute

	longCause   = 200 // maximum length of the text of an error, in characters
	longExcerpt = 80  // of a reply

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
)

// broken returns the error for a call that may have reached the service and got no proper answer. A proper answer is
// a reply that follows the protocol.
func (q query) broken(code string, cause error, delay time.Duration) *Error {
	return &Error{Class: Capacity, Code: code, Delay: delay, Unknown: q.action == submit, Err: cause, broken: true}
}

// exchange sends one call, without retries, and parses the reply.
func (c *Client) exchange(ctx context.Context, q query) (answer, error) {
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	var sent atomic.Bool // atomic, because a goroutine of the transport sets it
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	// No error is possible: package targets has checked the address, and paths consist of constants and escaped ids.
	req, _ := http.NewRequestWithContext(traced, http.MethodPost, c.cfg.URL+q.path, strings.NewReader(q.body))
	req.GetBody = nil // otherwise the transport would send the request again after some failures
	req.Header.Set("Content-Type", q.contentType)
	req.Header.Set("Accept", "application/json, text/plain")
	req.Header.Set("User-Agent", "poold")

	// A RoundTripper follows no redirects and keeps no cookies.
	resp, err := c.wire.RoundTrip(req)
	if err != nil {
		return answer{}, q.networkError(ctx, limited, err, sent.Load())
	}
	defer resp.Body.Close() //nolint:errcheck // closing a body after reading loses no data
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return answer{}, q.networkError(ctx, limited, err, true)
	case len(reply) > maxReply:
		return answer{}, q.broken("too_large", nil, hiccup)
	}
	return c.parseReply(resp, reply, q)
}

// parseReply parses a complete reply.
func (c *Client) parseReply(resp *http.Response, reply []byte, q query) (answer, error) {
	status := resp.StatusCode
	delay := max(hiccup, retryAfter(resp.Header, time.Now()))
	code := "http_" + strconv.Itoa(status)
	// some services refuse calls with a 4xx status and a code of the protocol
	readable := status/100 == 2 || status/100 == 4
	a, err := answer{}, error(unexpectedReply)
	if readable {
		a, err = c.protocol.read(q, reply)
	}
	sells := err == nil && a.code == ""
	class, proves := bareRefusal(status)
	switch {
	case err == nil && (status < 300 || a.code != ""):
	case status == http.StatusTooManyRequests: // the service works, but did not execute the call
		return answer{}, &Error{Class: Capacity, Code: code, Delay: delay}
	case q.action == submit && proves && !sells:
		return answer{}, q.proven(class, code, resp.Header.Get("Location"), delay)
	case status/100 != 2:
		return answer{}, q.broken(code, q.excerpt(status, reply), delay)
	default:
		g := unexpectedReply
		_ = errors.As(err, &g)
		return answer{}, q.broken(string(g), q.excerpt(status, reply), hiccup)
	}
	if status == http.StatusTooManyRequests {
		a.retryAfter = delay
	}
	return a, nil
}

// secretive matches what may be a token: a reply in the form of the protocol, and a long word.
var secretive = regexp.MustCompile(`(?s)^(\{|OK\|).*|\S{25,}`)

// excerpt names the call, the status and the beginning of a reply that violates the protocol.
func (q query) excerpt(status int, reply []byte) error {
	text := secretive.ReplaceAllString(clean(strings.TrimSpace(string(reply)), longExcerpt, q.hide...), "…")
	return fmt.Errorf("the %s was answered with HTTP %d and %q", q.action, status, text)
}

// bareRefusal reports whether a status without a code of the protocol proves that the submit bought nothing. Any other
// status may come from a proxy of the service that had passed the submit on.
func bareRefusal(status int) (class Class, proves bool) {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return 0, false
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return Parameters, true
	case http.StatusServiceUnavailable, 521, 523, 525, 526, 530: // fronts, such as Cloudflare's, did not reach the service
		return Capacity, true
	}
	return Account, status/100 == 3 || status/100 == 4
}

// proven returns the error for a submit that the service refused with an HTTP status, without an error code. For a
// redirect, the error names the service's new address, which an operator can configure.
func (q query) proven(class Class, code, location string, delay time.Duration) *Error {
	e := q.broken(code, nil, delay)
	if e.Class, e.Unknown = class, false; class != Capacity {
		e.broken, e.Err = false, errors.New("the service sent no error code")
	}
	if to, err := url.Parse(location); err == nil && location != "" && class == Account {
		to.User, to.RawQuery, to.Fragment = nil, "", ""
		e.Err = errors.New("the service has moved to " + clean(to.String(), longCause, q.hide...))
	}
	return e
}

// networkError converts a network error to an *Error, or to the error of ctx if nothing was bought. It keeps the text
// of the error only if the request was not sent, because the text of a later error can quote the service.
func (q query) networkError(ctx, limited context.Context, err error, sent bool) error {
	switch {
	case ctx.Err() != nil && sent && q.action == submit:
		return q.broken("caller_gave_up", ctx.Err(), hiccup)
	case ctx.Err() != nil:
		return ctx.Err()
	case !sent:
		cause := errors.New(clean(err.Error(), longCause, q.hide...))
		return &Error{Class: Capacity, Code: "unreachable", Delay: unreached, Err: cause, broken: true}
	case limited.Err() != nil:
		return q.broken("timeout", errors.New("no answer in time"), hiccup)
	}
	return q.broken(string(cutReply), errors.New("the connection ended before the answer did"), hiccup)
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
