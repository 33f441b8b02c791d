package kernel

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"poold/internal/purchase"
	"poold/internal/targets"
)

// Handler writes the response to one request, or returns an error.
type Handler func(w http.ResponseWriter, r *http.Request, c *Call) error

// Route is one path with its handler and the required rights.
type Route struct {
	Methods []string
	Path    string
	// Scope is the required scope of a caller's key; "" = the route needs no key.
	Scope targets.Scope
	// If Probe is true, the route admits every caller, even without a key and with any Host and
	// Origin. Probe is true for health checks, error responses and callbacks. Callbacks have a secret
	// instead of a key.
	Probe bool
	// Changes is true if some method of the path takes a token or changes something. The value does
	// not depend on the method of the request. Package httpapi derives the fields Changes and Named
	// from the other fields.
	Changes bool
	Named   bool // the first variable part of the path is the name of a target
	Body    bool // the handler reads the body; otherwise a request must have no body
	// If Whole is true, keys that are limited to some targets are refused, because the route covers
	// all targets.
	Whole  bool
	Handle Handler
}

// Call is the state of one request; it belongs to the request's goroutine.
type Call struct {
	W      Writer
	ID     string // id of the request, see RequestID
	Began  time.Time
	Route  *Route
	Params []string // variable parts of the path in their order, with percent-escapes
	Access *Access
	Caller *Caller // nil on routes that need no key
	Target *Target // nil if the request has no target
	Code   Code    // code of the problem in the response; "" = no problem
	HungUp bool
}

// Param returns the i-th variable part of the path, without percent-escapes.
func (c *Call) Param(r *http.Request, i int) string {
	if r.URL.RawPath == "" {
		return c.Params[i] // net/http has decoded the path already
	}
	if plain, err := url.PathUnescape(c.Params[i]); err == nil {
		return plain
	}
	return c.Params[i]
}

// TargetName returns the name of the call's target. If the call has no target, it returns
// purchase.GuestTarget.
func (c *Call) TargetName() string {
	if c.Target == nil {
		return purchase.GuestTarget
	}
	return c.Target.Name
}

// Visible lists the targets of the configuration file that the caller may use, sorted. If the
// result is nil, the caller may use all targets, including targets of earlier files.
func (c *Call) Visible() []string {
	if c.Caller.Globs == nil {
		return nil
	}
	names := []string{}
	for name := range c.Access.Targets {
		if c.Caller.MayUse(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Sees reports whether the caller may see the records of a target.
func (c *Call) Sees(target string) bool {
	return c.Caller.Globs == nil || c.Access.Targets[target] != nil && c.Caller.MayUse(target)
}

// Writer records the status and the size of the response.
type Writer struct {
	http.ResponseWriter
	Stopping *atomic.Bool // the flag of the Server
	Status   int          // 0 = nothing written yet
	Bytes    int64        // number of bytes of the body that were written
	Broken   bool         // a part of the body could not be written
}

// begin records the status of the response. It is called just before the header is written.
func (w *Writer) begin(status int) {
	if w.Status != 0 || status < http.StatusOK { // a status 1xx precedes the response
		return
	}
	w.Status = status
	if w.Stopping.Load() {
		// The listener will close soon, so the client must not reuse the connection.
		w.Header()["Connection"] = closing
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(b)
	w.Bytes += int64(n)
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) { // the response to HEAD has no body
		w.Broken = true
	}
	return n, err
}

// Unwrap lets http.ResponseController reach net/http's writer.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
