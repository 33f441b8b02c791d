package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/targets"
)

// statusHungUp is the HTTP status in logs and metrics if the caller hung up before the response, or
// did not read the response in time.
// statusHungUp is never sent.
const statusHungUp = 499

// serve answers one request to one route. The argument params contains the variable parts of the
// path; serve does not keep the slice.
func (s *Server) serve(rt *kernel.Route, w http.ResponseWriter, r *http.Request, params []string) {
	c := &kernel.Call{W: kernel.Writer{ResponseWriter: w, Stopping: s.stopping}, ID: kernel.RequestID(r), Began: time.Now(), Route: rt, Params: params}
	w.Header()["X-Request-Id"] = []string{c.ID}
	if len(r.TransferEncoding) > 0 {
		// The request may also have a Content-Length, which net/http removes. A proxy in front of poold may
		// have used this length as the end of the body. So poold ignores what follows (RFC 9112, section 6.1).
		w.Header().Set("Connection", "close")
	}
	defer s.finish(c, r)
	err := s.admit(c, r)
	if err == nil {
		err = rt.Handle(&c.W, r, c)
	}
	if err != nil {
		s.fail(c, r, err)
	}
}

// admit decides whether the request may reach its handler. admit also identifies the caller and
// finds the target.
func (s *Server) admit(c *kernel.Call, r *http.Request) error {
	// A browser must not guess the content type of a response.
	c.W.Header()["X-Content-Type-Options"] = kernel.NoSniff
	if c.Route.Probe {
		return nil
	}
	c.Access = s.gate.access()
	if err := s.gate.identify(c, r); err != nil {
		return err
	}
	if c.Route.Named {
		var err error
		if c.Target, err = s.gate.find(c.Access, c.Params[0], c.Caller); err != nil {
			return err
		}
	}
	if c.Route.Body {
		return nil
	}
	return kernel.ReadNothing(r, c.W.ResponseWriter)
}

func (s *Server) fail(c *kernel.Call, r *http.Request, err error) {
	if errors.Is(err, kernel.ErrHungUp) || r.Context().Err() != nil {
		// Without a panic, net/http would send an empty response with status 200. A caller that has
		// closed only its sending half of the connection would take this for the real response.
		c.HungUp = true
		panic(http.ErrAbortHandler)
	}
	p := s.explain(r.Context(), c, err)
	if p.Cause != nil {
		s.log.ErrorContext(r.Context(), "request failed", slog.String("request_id", c.ID), slog.String("route", c.Route.Path), slog.Any("err", p.Cause))
	}
	if c.Target != nil {
		p.Target = c.Target.Name
	}
	c.Code, p.Request = p.Code, c.ID
	if p.Code == kernel.CodeUnauthorized {
		challenge(c.W.Header(), !c.Route.Changes)
	}
	kernel.WriteProblem(&c.W, p)
}

// finish counts and logs a request. After a panic of the handler, finish recovers, so that the
// daemon continues.
func (s *Server) finish(c *kernel.Call, r *http.Request) {
	broken := recover()
	if err, _ := broken.(error); broken != nil && !errors.Is(err, http.ErrAbortHandler) {
		s.log.ErrorContext(r.Context(), "panic in a handler", slog.String("request_id", c.ID), slog.String("route", c.Route.Path),
			slog.Any("err", fmt.Errorf("panic: %v", broken)), slog.String("stack", string(debug.Stack())))
		c.Code = kernel.CodeInternal
		if c.W.Status == 0 {
			p := kernel.NewProblem(kernel.CodeInternal, "an unexpected error; the daemon's log has the cause")
			p.Request = c.ID
			kernel.WriteProblem(&c.W, p)
			broken = nil
		}
	}
	status := c.W.Status
	switch {
	case c.HungUp || c.W.Broken:
		status = statusHungUp
	case status == 0:
		status = http.StatusOK // the handler wrote nothing
	}
	s.metrics.countResponse(status)
	s.countByKey(c)
	s.logRequest(c, r, status)
	if broken != nil {
		// The connection must close, because the response is incomplete or must not be sent.
		panic(http.ErrAbortHandler)
	}
}

// countByKey counts the requests for a token, the requests for a solve, and the reports. Each key
// has its own count.
func (s *Server) countByKey(c *kernel.Call) {
	scope := c.Route.Scope
	if c.Caller == nil || scope != targets.ScopeToken && scope != targets.ScopeSolve {
		return
	}
	outcome := cmp.Or(string(c.Code), "ok")
	if c.HungUp {
		outcome = "hung_up"
	}
	s.metrics.countRequest(c.Caller.AuditName(), outcome)
}

// logRequest logs a request, at level info if the access log is on, and otherwise at level debug. The
// log line contains no text that the client chose freely, except a valid request id: no query, no
// header, no unknown path.
func (s *Server) logRequest(c *kernel.Call, r *http.Request, status int) {
	level := slog.LevelDebug
	if s.accessLog {
		level = slog.LevelInfo
	}
	if !s.log.Enabled(r.Context(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs, slog.String("request_id", c.ID), slog.String("method", method(r)), slog.String("route", c.Route.Path), slog.Int("status", status),
		slog.Duration("took", time.Since(c.Began)), slog.Int64("bytes", c.W.Bytes))
	if c.Code != "" {
		attrs = append(attrs, slog.String("code", string(c.Code)))
	}
	if c.Target != nil {
		attrs = append(attrs, slog.String("target", c.Target.Name))
	}
	if c.Caller != nil && c.Caller.Name != "" {
		attrs = append(attrs, slog.String("key", c.Caller.Name))
	}
	s.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// method returns the method of a request, or "other" if poold has no route with it.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "other"
}
