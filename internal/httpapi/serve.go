package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	maxBody = 64 << 10
	// statusHungUp is what logs and metrics show for a caller that was gone
	// before its answer; it is never sent.
	statusHungUp = 499
)

// targetName is what a target may be called. Anything else in the path, also
// an escaped form of a valid name, is unknown before it is used for anything.
var targetName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// call is one request on its way; it belongs to the request's goroutine.
type call struct {
	w      writer
	began  time.Time
	route  *route
	params []string // of the path, in its order, as they stood there
	view   *view
	caller *caller // nil on routes that need no key
	target *target // nil on routes that name none
	hungUp bool
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

// serve answers one request to one route. params are the variable parts of its
// path; they are not kept.
func (s *Server) serve(rt *route, w http.ResponseWriter, r *http.Request, params []string) {
	c := &call{w: writer{ResponseWriter: w, stopping: &s.stopping}, began: time.Now(), route: rt, params: params}
	defer s.finish(c, r)
	err := s.admit(c, r)
	if err == nil {
		err = rt.handle(s, &c.w, r, c)
	}
	if err != nil {
		s.fail(c, r, err)
	}
}

// admit decides whether the request may reach its handler, and finds out who
// asks and for what.
func (s *Server) admit(c *call, r *http.Request) error {
	// Every browser that might show an answer must not guess what it is.
	c.w.Header()["X-Content-Type-Options"] = noSniff
	if c.route.probe {
		return nil
	}
	c.view = s.view()
	if err := s.identify(c, r); err != nil {
		return err
	}
	if c.route.named {
		var err error
		if c.target, err = c.view.find(c.params[0], c.caller); err != nil {
			return err
		}
	}
	if c.route.body {
		return nil
	}
	return readNothing(r, c.w.ResponseWriter)
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

// readNothing reads the body of a request to a route that has no use for one.
// Many clients send `{}`; what looks like a question that would go unanswered
// is refused.
func readNothing(r *http.Request, w http.ResponseWriter) error {
	body, err := readBody(r, w)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	if err := checkJSON(r); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || len(fields) > 0 {
		return fault(codeBadRequest, "this route takes no body, or an empty JSON object")
	}
	return nil
}

// readBody reads a body to its end, so that net/http notices when a client hangs
// up.
func readBody(r *http.Request, w http.ResponseWriter) ([]byte, error) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, fault(codeTooLarge, "a body has 64 KiB at most")
	}
	if err != nil {
		return nil, fault(codeBadRequest, "the body did not arrive in one piece")
	}
	return body, nil
}

// checkJSON refuses a body of another type, which a form of any page can send.
func checkJSON(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return fault(codeBadRequest, "a body needs Content-Type: application/json")
	}
	return nil
}

// answerAnew gives an answer its time after work that may have taken all of it.
func answerAnew(w http.ResponseWriter) {
	// Not every writer has deadlines; then the server's own limit stays.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit))
}

// finish counts and logs a request and keeps a panic in one handler from
// ending the daemon.
func (s *Server) finish(c *call, r *http.Request) {
	broken := recover()
	if err, _ := broken.(error); broken != nil && !errors.Is(err, http.ErrAbortHandler) {
		s.log.ErrorContext(r.Context(), "panic in a handler", slog.String("route", c.route.path),
			slog.Any("err", fmt.Errorf("panic: %v", broken)), slog.String("stack", string(debug.Stack())))
		if c.w.status == 0 {
			writeProblem(&c.w, fault(codeInternal, "the daemon's log says more"))
			broken = nil
		}
	}
	status := c.w.status
	switch {
	case c.hungUp:
		status = statusHungUp
	case status == 0:
		status = http.StatusOK // a handler that wrote nothing
	}
	s.metrics.answered(status)
	s.logRequest(c, r, status)
	if broken != nil {
		// Half an answer is out, or none shall be: close the connection.
		panic(http.ErrAbortHandler)
	}
}

// logRequest writes one line about a request, at debug level. It shows nothing
// that the client chose freely: no query, no header, no unknown path.
func (s *Server) logRequest(c *call, r *http.Request, status int) {
	if !s.log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	attrs := make([]slog.Attr, 0, 6)
	attrs = append(attrs, slog.String("route", c.route.path), slog.Int("status", status),
		slog.Duration("took", time.Since(c.began)))
	if c.target != nil {
		attrs = append(attrs, slog.String("target", c.target.Name))
	}
	if c.caller != nil && c.caller.name != "" {
		attrs = append(attrs, slog.String("key", c.caller.name))
	}
	s.log.LogAttrs(r.Context(), slog.LevelDebug, "request", attrs...)
}

// Header values that never change, shared by all answers; net/http only reads them.
var (
	noSniff  = []string{"nosniff"}
	noStore  = []string{"no-store"}
	closing  = []string{"close"}
	typeJSON = []string{"application/json"}
	typeText = []string{"text/plain; charset=utf-8"}
)

// respond writes a whole answer that is no token. A client that is gone is not
// an error: there is nothing to take back.
func respond(w http.ResponseWriter, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(body)
}

// respondJSON writes v, which holds nothing that JSON cannot say.
func respondJSON(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	respond(w, "application/json", append(body, '\n'))
	return nil
}
