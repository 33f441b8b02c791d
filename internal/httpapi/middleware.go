package httpapi

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"poold/internal/targets"
)

// statusHungUp is the HTTP status in logs and metrics if the caller hung up before the response, or
// did not read the response in time. It is never sent.
const statusHungUp = 499

// middleware returns the functions through which each request passes, even a request without a route.
func (s *Server) middleware() []echo.MiddlewareFunc {
	return []echo.MiddlewareFunc{
		s.begin,
		middleware.RequestID(),
		middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
			HandleError: true, LogStatus: true, LogMethod: true, LogRoutePath: true, LogResponseSize: true, LogLatency: true,
			LogValuesFunc: func(c echo.Context, v middleware.RequestLoggerValues) error {
				s.logRequest(c.(*Context), v)
				return nil
			},
		}),
		middleware.RecoverWithConfig(middleware.RecoverConfig{
			DisableErrorHandler: true, DisableStackAll: true,
			LogErrorFunc: func(c echo.Context, err error, stack []byte) error {
				s.Log.ErrorContext(c.Request().Context(), "panic in a handler", slog.String("request_id", c.(*Context).RequestID()),
					slog.String("route", c.Path()), slog.Any("err", fmt.Errorf("panic: %w", err)), slog.String("stack", string(stack)))
				return NewProblem(CodeInternal, "an unexpected error; the daemon's log has the cause")
			},
		}),
		// A browser must not guess the content type of a response.
		middleware.SecureWithConfig(middleware.SecureConfig{ContentTypeNosniff: "nosniff"}),
	}
}

// requestID matches the ids of requests that poold takes over from its callers.
var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// begin makes the Context of a request.
func (s *Server) begin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(inner echo.Context) error {
		c := &Context{Context: inner, Began: time.Now()}
		r, h := c.Request(), c.Response().Header()
		if ids := r.Header.Values(echo.HeaderXRequestID); len(ids) != 1 || !requestID.MatchString(ids[0]) {
			r.Header.Del(echo.HeaderXRequestID) // the next middleware makes an id
		}
		h.Set(echo.HeaderCacheControl, "no-store")
		c.Response().Before(func() {
			// While the daemon stops, the listener will close soon. If a chunked request also has a Content-Length, a proxy may
			// have taken that length for the end of the body. So poold closes the connection after a chunked request (RFC 9112,
			// section 6.1).
			if s.stopping.Load() || len(r.TransferEncoding) > 0 {
				h.Set(echo.HeaderConnection, "close")
			}
			// The request may have waited, so its response gets a new deadline. This fails only for the writers of tests and of
			// the page, which have no deadlines.
			_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(WriteLimit))
		})
		_ = next(c) // the logger has passed the error to respondError
		if c.HungUp {
			// Without a panic, net/http would send an empty or incomplete response as if it were complete.
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// logRequest counts and logs a request. The log line contains no text that the client chose freely,
// except a valid request id: no query, no header, no unknown path.
func (s *Server) logRequest(c *Context, v middleware.RequestLoggerValues) {
	outcome := cmp.Or(string(c.Code), "ok")
	if c.HungUp {
		v.Status, outcome = statusHungUp, "hung_up"
	}
	s.Metrics.requests.WithLabelValues(strconv.Itoa(v.Status)).Inc()
	if c.Caller != nil && (c.route.scope == targets.ScopeToken || c.route.scope == targets.ScopeSolve) {
		s.Metrics.keyRequests.WithLabelValues(c.Caller.AuditName(), outcome).Inc() // the outcomes come from a fixed list
	}
	level := slog.LevelDebug
	if s.AccessLog {
		level = slog.LevelInfo
	}
	if !s.Log.Enabled(c.Ctx(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", c.RequestID()), slog.String("method", v.Method), slog.String("route", v.RoutePath),
		slog.Int("status", v.Status), slog.Duration("took", v.Latency), slog.Int64("bytes", v.ResponseSize),
	}
	if c.Code != "" {
		attrs = append(attrs, slog.String("code", string(c.Code)))
	}
	if c.Target != nil {
		attrs = append(attrs, slog.String("target", c.Target.Name))
	}
	if c.Caller != nil && c.Caller.Name != "" {
		attrs = append(attrs, slog.String("key", c.Caller.Name))
	}
	s.Log.LogAttrs(c.Ctx(), level, "request", attrs...)
}
