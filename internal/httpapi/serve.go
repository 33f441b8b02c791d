package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"poold/internal/targets"
)

// statusHungUp is what logs and metrics show for a caller that was gone before its
// answer; it is never sent.
const statusHungUp = 499

// serve answers one request to one route. params are the variable parts of its
// path; they are not kept.
func (s *Server) serve(rt *route, w http.ResponseWriter, r *http.Request, params []string) {
	c := &call{w: writer{ResponseWriter: w, stopping: s.stopping}, began: time.Now(), route: rt, params: params}
	defer s.finish(c, r)
	err := s.admit(c, r)
	if err == nil {
		err = rt.handle(&c.w, r, c)
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
	c.access = s.gate.access()
	if err := s.gate.identify(c, r); err != nil {
		return err
	}
	if c.route.named {
		var err error
		if c.target, err = s.gate.find(c.access, c.params[0], c.caller); err != nil {
			return err
		}
	}
	if c.route.body {
		return nil
	}
	return readNothing(r, c.w.ResponseWriter)
}

// fail writes the answer for an error.
func (s *Server) fail(c *call, r *http.Request, err error) {
	if errors.Is(err, errHungUp) || r.Context().Err() != nil {
		// net/http would send an empty 200 if we just returned; a caller that
		// closed only its sending half would take that for an answer.
		c.hungUp = true
		panic(http.ErrAbortHandler)
	}
	p := s.explainer.explain(r.Context(), c, err)
	if p.cause != nil {
		s.log.ErrorContext(r.Context(), "answering a request", slog.String("route", c.route.path), slog.Any("err", p.cause))
	}
	if c.target != nil {
		p.Target = c.target.Name
	}
	if p.Code == codeUnauthorized {
		challenge(c.w.Header(), c.route.basic)
	}
	c.code = p.Code
	writeProblem(&c.w, p)
}

// finish counts and logs a request and keeps a panic in one handler from
// ending the daemon.
func (s *Server) finish(c *call, r *http.Request) {
	broken := recover()
	if err, _ := broken.(error); broken != nil && !errors.Is(err, http.ErrAbortHandler) {
		s.log.ErrorContext(r.Context(), "panic in a handler", slog.String("route", c.route.path),
			slog.Any("err", fmt.Errorf("panic: %v", broken)), slog.String("stack", string(debug.Stack())))
		c.code = codeInternal
		if c.w.status == 0 {
			writeProblem(&c.w, problem(codeInternal, "the daemon's log says more"))
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
	s.countByKey(c)
	s.logRequest(c, r, status)
	if broken != nil {
		// Half an answer is out, or none shall be: close the connection.
		panic(http.ErrAbortHandler)
	}
}

// countByKey counts a request for a token, for a solve or to report.
func (s *Server) countByKey(c *call) {
	scope := c.route.scope
	if c.caller == nil || scope != targets.ScopeToken && scope != targets.ScopeSolve {
		return
	}
	outcome := cmp.Or(string(c.code), "ok")
	if c.hungUp {
		outcome = "hung_up"
	}
	s.metrics.asked(c.caller.listed(), outcome)
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
