package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"poold/internal/purchase"
	"poold/internal/targets"
)

// handler answers one request, or returns what went wrong.
type handler func(w http.ResponseWriter, r *http.Request, c *call) error

// route is one path with its rights and its handler.
type route struct {
	methods []string
	path    string
	// scope is the right that a key needs; "" = none, no key is asked for.
	scope targets.Scope
	// altScope is a right that suffices too, for as much as the handler grants it;
	// "" = none.
	altScope targets.Scope
	// probe routes are open to any Host and Origin too: they reveal nothing
	// and are asked by balancers that know no name for this machine, or they
	// carry a secret of their own.
	probe bool
	// changes: the request takes or alters something, whatever its method.
	changes bool
	named   bool // the path names a target, first of all; routes sets it
	body    bool // the handler reads the body; else there must be none
	// whole: the answer covers all targets, so that a key limited to some of
	// them is refused.
	whole bool
	// basic: 401 invites a browser to ask its user for a key.
	basic  bool
	handle handler
}

// call is one request on its way; it belongs to the request's goroutine.
type call struct {
	w      writer
	began  time.Time
	route  *route
	params []string // of the path, in its order, as they stood there
	access *access
	caller *caller // nil on routes that need no key
	target *target // nil on routes that name none
	code   code    // of the problem that is its answer; "" = none is
	hungUp bool
}

// param returns a variable part of the path without percent-escapes.
func (c *call) param(r *http.Request, i int) string {
	if r.URL.RawPath == "" {
		return c.params[i] // net/http has taken them away
	}
	if plain, err := url.PathUnescape(c.params[i]); err == nil {
		return plain
	}
	return c.params[i]
}

// named is the target of a call, or what stands for it where there is none.
func (c *call) named() string {
	if c.target == nil {
		return purchase.GuestTarget
	}
	return c.target.Name
}

// visible are the targets of the file that the caller may use, sorted; nil = all that
// ever were.
func (c *call) visible() []string {
	if c.caller.globs == nil {
		return nil
	}
	names := []string{}
	for name := range c.access.targets {
		if c.caller.mayUse(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sees reports whether a target is visible.
func (c *call) sees(target string) bool {
	return c.caller.globs == nil || c.access.targets[target] != nil && c.caller.mayUse(target)
}

// writer remembers the status that went out.
type writer struct {
	http.ResponseWriter
	stopping *atomic.Bool // of the Server
	status   int          // 0 = nothing written yet
}

// begin notes the status of the answer whose header is about to be written.
func (w *writer) begin(status int) {
	if w.status != 0 || status < http.StatusOK { // 1xx are not the answer
		return
	}
	w.status = status
	if w.stopping.Load() {
		// The listener is about to close: the client shall not count on the connection.
		w.Header()["Connection"] = closing
	}
}

func (w *writer) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach net/http's writer.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
