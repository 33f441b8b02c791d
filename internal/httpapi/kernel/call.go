package kernel

import (
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"poold/internal/purchase"
	"poold/internal/targets"
)

// Handler answers one request, or returns what went wrong.
type Handler func(w http.ResponseWriter, r *http.Request, c *Call) error

// Route is one path with its rights and its handler.
type Route struct {
	Methods []string
	Path    string
	// Scope is the right that a key needs; "" = none, no key is asked for.
	Scope targets.Scope
	// AltScope is a right that suffices too, for as much as the handler grants it;
	// "" = none.
	AltScope targets.Scope
	// Probe routes are open to any Host and Origin too: they are harmless health checks for
	// balancers, or the request has a secret.
	Probe bool
	// Changes: a request to the path takes or changes something, whatever its method. Like
	// Named, it is derived from the other fields.
	Changes bool
	Named   bool // the first variable part of the path is a target
	Body    bool // the handler reads the body; else there must be none
	// Whole: the answer covers all targets, so that a key limited to some of
	// them is refused.
	Whole  bool
	Handle Handler
}

// Call is one request on its way; it belongs to the request's goroutine.
type Call struct {
	W      Writer
	Began  time.Time
	Route  *Route
	Params []string // the variable parts of the path, in its order, as sent
	Access *Access
	Caller *Caller // nil on routes that need no key
	Target *Target // nil on routes that name none
	Code   Code    // of the problem that is its answer; "" = none is
	HungUp bool
}

// Param returns a variable part of the path without percent-escapes.
func (c *Call) Param(r *http.Request, i int) string {
	if r.URL.RawPath == "" {
		return c.Params[i] // net/http has decoded the path already
	}
	if plain, err := url.PathUnescape(c.Params[i]); err == nil {
		return plain
	}
	return c.Params[i]
}

// TargetName is the name of the target, or purchase.GuestTarget without one.
func (c *Call) TargetName() string {
	if c.Target == nil {
		return purchase.GuestTarget
	}
	return c.Target.Name
}

// Visible are the targets of the file that the caller may use, sorted; nil = all that
// ever were.
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

// Sees reports whether a target is visible.
func (c *Call) Sees(target string) bool {
	return c.Caller.Globs == nil || c.Access.Targets[target] != nil && c.Caller.MayUse(target)
}

// Writer records the status of the answer.
type Writer struct {
	http.ResponseWriter
	Stopping *atomic.Bool // of the Server
	Status   int          // 0 = nothing written yet
}

// begin notes the status of the answer whose header is about to be written.
func (w *Writer) begin(status int) {
	if w.Status != 0 || status < http.StatusOK { // 1xx are not the answer
		return
	}
	w.Status = status
	if w.Stopping.Load() {
		// The listener is about to close: the client must not reuse the connection.
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
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach net/http's writer.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
