package httpapi

import (
	"io"
	"net/http"
	_ "net/http/pprof" //nolint:gosec // G108: only requests with the scope admin reach http.DefaultServeMux
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"poold/internal/httpapi/openapi"
	"poold/internal/provider/wire"
	"poold/internal/targets"
)

// route is one path with its handler and the required rights.
type route struct {
	methods []string
	path    string
	scope   targets.Scope // the required scope of a caller's key; "" = the route needs no key
	handle  Handler
	// If open is true, the route admits every caller, even without a key and with any Host and Origin.
	open  bool
	body  bool // the handler reads the body; otherwise a request must have no body
	whole bool // the route covers all targets, so keys that are limited to some targets are refused
}

// changes reports whether any method of the route takes a token or changes something. The method of the request does
// not matter, because a GET can take a token, too.
func (rt *route) changes() bool {
	return slices.Contains(rt.methods, http.MethodPost) || slices.Contains(rt.methods, http.MethodDelete)
}

// These lists of methods are those of most routes. The router echo does not derive HEAD from GET. A HEAD request
// therefore takes no token.
var (
	reading = []string{http.MethodGet, http.MethodHead}
	posting = []string{http.MethodPost}
	either  = []string{http.MethodGet, http.MethodPost}
)

func (s *Server) routes() []route {
	profile := serve(http.DefaultServeMux) // package net/http/pprof adds the profiles
	table := []route{
		{methods: either, path: "/pool/:target/token", scope: targets.ScopeToken, handle: s.take},
		{methods: posting, path: "/pool/:target/token/:id/report", scope: targets.ScopeToken, handle: s.ReceiveReport,
			body: true},
		{methods: posting, path: "/solve", scope: targets.ScopeSolve, handle: s.solve, body: true},
		{methods: posting, path: "/solve/:id/report", scope: targets.ScopeSolve, handle: s.ReceiveSolveReport, body: true},
		{methods: []string{http.MethodDelete}, path: "/pool/:target/tokens", scope: targets.ScopeAdmin, handle: s.flush},
		{methods: reading, path: "/pool/:target", scope: targets.ScopeStatus, handle: s.targetDetail},
		{methods: posting, path: "/pool/:target/pause", scope: targets.ScopeAdmin, handle: s.pause, body: true},
		{methods: posting, path: "/pool/:target/resume", scope: targets.ScopeAdmin, handle: s.resume},
		{methods: reading, path: "/", handle: s.front},
		{methods: reading, path: "/status", scope: targets.ScopeStatus, handle: s.showPage},
		{methods: reading, path: "/status.json", scope: targets.ScopeStatus, handle: s.document},
		{methods: posting, path: "/status/act", scope: targets.ScopeAdmin, handle: s.act, body: true},
		{methods: reading, path: "/status.css", handle: pageFile},
		{methods: reading, path: "/status.svg", handle: pageFile},
		{methods: reading, path: "/htmx.js", handle: pageFile},
		{methods: reading, path: "/openapi.yaml", handle: describe},
		{methods: reading, path: "/metrics", scope: targets.ScopeStatus, handle: serve(s.Metrics.scraper(s.Status)),
			whole: true},
		{methods: posting, path: "/providers/:provider/probe", scope: targets.ScopeAdmin, handle: s.probe, whole: true},
		{methods: posting, path: "/-/reload", scope: targets.ScopeAdmin, handle: s.reload, whole: true},
		{methods: reading, path: "/dead-letters", scope: targets.ScopeAdmin, handle: s.deadLetters, whole: true},
		{methods: posting, path: "/dead-letters/replay", scope: targets.ScopeAdmin, handle: s.replay, whole: true},
		{methods: reading, path: "/events", scope: targets.ScopeStatus, handle: s.recentEvents},
		{methods: reading, path: "/history/site/:sitekey", scope: targets.ScopeStatus, handle: s.historySite},
		{methods: reading, path: "/history/day/:date", scope: targets.ScopeStatus, handle: s.historyDay},
		{methods: reading, path: "/history/orders", scope: targets.ScopeStatus, handle: s.historyOrders},
		{methods: reading, path: "/history/active", scope: targets.ScopeStatus, handle: s.historyActive},
		{methods: reading, path: "/history/order/:id", scope: targets.ScopeStatus, handle: s.historyOrder},
		{methods: reading, path: "/history/usage", scope: targets.ScopeStatus, handle: s.historyUsage},
		{methods: reading, path: "/history/key/:name", scope: targets.ScopeAdmin, handle: s.historyKey},
		// These routes have no scope, because a client sends its key as a parameter; the handlers
		// check the key.
		{methods: either, path: "/in.php", handle: s.serveClient, body: true},
		{methods: either, path: "/res.php", handle: s.serveClient, body: true},
		// Callbacks have a secret instead of a key, and may have any Host, because solving services know no host name.
		{methods: either, path: "/callback/:provider/:order/:secret", handle: s.callback, open: true, body: true},
		{methods: reading, path: "/debug/pprof/", scope: targets.ScopeAdmin, handle: profile, whole: true},
		{methods: reading, path: "/debug/pprof/:profile", scope: targets.ScopeAdmin, handle: profile, whole: true},
		{methods: reading, path: "/healthz", handle: s.alive, open: true},
		{methods: reading, path: "/readyz", handle: s.ready, open: true},
	}
	for _, path := range wire.CreateTaskPaths() { // in this protocol the key is a parameter, too
		table = append(table, route{methods: posting, path: path, handle: s.serveClient, body: true})
	}
	return table
}

// router returns the handler of all routes.
func (s *Server) router() http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard) // the logger would write to stdout
	e.HTTPErrorHandler = s.respondError
	e.IPExtractor = echo.ExtractIPDirect()
	e.Use(s.middleware()...)
	for _, rt := range s.routes() {
		handle := func(inner echo.Context) error {
			c := inner.(*Context)
			c.route = &rt
			if err := s.admit(c); err != nil {
				return err
			}
			return rt.handle(c)
		}
		e.Match(rt.methods, rt.path, handle)
		if strings.HasSuffix(rt.path, ".php") || wire.IsCreateTaskPath(rt.path) { // some clients of services add a slash
			e.Match(rt.methods, rt.path+"/", handle)
		}
	}
	return e
}

// serve returns a handler that passes the request to a handler of net/http.
func serve(h http.Handler) Handler {
	return func(c *Context) error {
		h.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}

// describe is GET /openapi.yaml: the description of the API. The description contains no data of the
// daemon, so the route needs no key.
func describe(c *Context) error {
	return c.Blob(http.StatusOK, "application/yaml", openapi.Served())
}
