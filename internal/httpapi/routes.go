package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"poold/internal/targets"
)

// areas are the parts of the API, each with what it needs.
type areas struct {
	tokens    tokens
	reports   *reports
	solves    solves
	clients   compatible
	admin     admin
	providers providers
	pages     *pages
	streams   streams
	scrapes   *scrapes
	callbacks callbacks
	letters   letters
	history   solveHistory
	probes    probes
}

// The methods of a page that can be looked at. HEAD is listed by hand because
// echo does not derive it from GET, which suits the token route well.
var reading = []string{http.MethodGet, http.MethodHead}

var posting = []string{http.MethodPost}

// table lists every route of the API.
func (a *areas) table() []route {
	return []route{
		{methods: []string{http.MethodGet, http.MethodPost}, path: "/pool/:target/token",
			scope: targets.ScopeToken, changes: true, handle: a.tokens.take},
		{methods: posting, path: "/pool/:target/token/:id/report",
			scope: targets.ScopeToken, changes: true, body: true, handle: a.reports.receive},
		{methods: posting, path: "/solve", scope: targets.ScopeSolve, changes: true, body: true, handle: a.solves.solve},
		{methods: posting, path: "/solve/:id/report",
			scope: targets.ScopeSolve, changes: true, body: true, handle: a.reports.receiveSolve},
		{methods: []string{http.MethodDelete}, path: "/pool/:target/tokens",
			scope: targets.ScopeAdmin, changes: true, handle: a.admin.flush},
		{methods: reading, path: "/pool/:target", scope: targets.ScopeStatus, basic: true, handle: a.pages.target},
		{methods: posting, path: "/pool/:target/pause", scope: targets.ScopeAdmin, changes: true, body: true, handle: a.admin.pause},
		{methods: posting, path: "/pool/:target/resume", scope: targets.ScopeAdmin, changes: true, handle: a.admin.resume},
		{methods: posting, path: "/pool/:target/warm",
			scope: targets.ScopeAdmin, altScope: targets.ScopeToken, changes: true, body: true, handle: a.admin.warm},
		{methods: reading, path: "/", handle: a.pages.front},
		{methods: reading, path: "/status", scope: targets.ScopeStatus, basic: true, handle: a.pages.overview},
		{methods: reading, path: "/status.json", scope: targets.ScopeStatus, basic: true, handle: a.pages.document},
		{methods: []string{http.MethodGet}, path: "/status/stream", scope: targets.ScopeStatus, basic: true, handle: a.streams.follow},
		{methods: reading, path: "/status.css", handle: asset("status.css", "text/css; charset=utf-8")},
		{methods: reading, path: "/status.js", handle: asset("status.js", "text/javascript; charset=utf-8")},
		{methods: reading, path: "/status.svg", handle: a.pages.icon},
		{methods: reading, path: "/uplot.css", handle: asset("uplot/uPlot.min.css", "text/css; charset=utf-8")},
		{methods: reading, path: "/uplot.js", handle: asset("uplot/uPlot.iife.min.js", "text/javascript; charset=utf-8")},
		{methods: reading, path: "/metrics", scope: targets.ScopeStatus, whole: true, basic: true, handle: a.scrapes.scrape},
		{methods: posting, path: "/providers/:provider/probe", scope: targets.ScopeAdmin, changes: true, whole: true, handle: a.providers.probe},
		{methods: posting, path: "/-/reload",
			scope: targets.ScopeAdmin, changes: true, whole: true, handle: a.admin.reload},
		{methods: reading, path: "/dead-letters", scope: targets.ScopeAdmin, whole: true, basic: true, handle: a.letters.list},
		{methods: posting, path: "/dead-letters/replay",
			scope: targets.ScopeAdmin, changes: true, whole: true, handle: a.letters.replay},
		{methods: reading, path: "/history/site/:sitekey", scope: targets.ScopeStatus, basic: true, handle: a.history.site},
		{methods: reading, path: "/history/day/:date", scope: targets.ScopeStatus, basic: true, handle: a.history.day},
		{methods: reading, path: "/history/tasks", scope: targets.ScopeStatus, basic: true, handle: a.history.tasks},
		{methods: reading, path: "/history/active", scope: targets.ScopeStatus, basic: true, handle: a.history.active},
		{methods: reading, path: "/history/solve/:id", scope: targets.ScopeStatus, basic: true, handle: a.history.solve},
		{methods: reading, path: "/history/usage", scope: targets.ScopeStatus, basic: true, handle: a.history.usage},
		{methods: reading, path: "/history/key/:name", scope: targets.ScopeAdmin, basic: true, handle: a.history.key},
		{methods: reading, path: "/history/arrivals/:target", scope: targets.ScopeStatus, basic: true, handle: a.history.when},
		// The key is in the call: these routes have no scope, and look for themselves.
		{methods: []string{http.MethodGet, http.MethodPost}, path: "/in.php", changes: true, body: true, handle: a.clients.legacy},
		{methods: []string{http.MethodGet, http.MethodPost}, path: "/res.php", changes: true, body: true, handle: a.clients.legacy},
		{methods: posting, path: "/createTask", changes: true, body: true, handle: a.clients.taskRoute},
		{methods: posting, path: "/getTaskResult", changes: true, body: true, handle: a.clients.taskRoute},
		{methods: posting, path: "/getBalance", changes: true, body: true, handle: a.clients.taskRoute},
		{methods: posting, path: "/reportCorrect", changes: true, body: true, handle: a.clients.taskRoute},
		{methods: posting, path: "/reportIncorrect", changes: true, body: true, handle: a.clients.taskRoute},
		{methods: posting, path: "/reportCorrectRecaptcha", changes: true, body: true, handle: a.clients.taskRoute},
		{methods: posting, path: "/reportIncorrectRecaptcha", changes: true, body: true, handle: a.clients.taskRoute},
		{methods: posting, path: "/reportIncorrectImageCaptcha", changes: true, body: true, handle: a.clients.taskRoute},
		{methods: posting, path: "/reportIncorrectTokenCaptcha", changes: true, body: true, handle: a.clients.taskRoute},
		// Services that solve know neither our keys nor our name.
		{methods: []string{http.MethodGet, http.MethodPost}, path: "/callback/:provider/:order/:secret",
			probe: true, handle: a.callbacks.receive},
		{methods: reading, path: "/healthz", probe: true, handle: a.probes.alive},
		{methods: reading, path: "/readyz", probe: true, handle: a.probes.ready},
	}
}

// routes returns the handler of the whole API. echo finds the route and
// cuts the path; everything else is ours, so that another router is a
// change of this file.
func (s *Server) routes(a *areas) http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard) // it would write to stdout

	wrongMethod := make(map[string]*route) // by path
	for _, rt := range a.table() {
		rt.named = strings.Contains(rt.path, ":target")
		adapter := s.adapt(&rt)
		for _, method := range rt.methods {
			e.Add(method, rt.path, adapter)
		}
		refuse := &route{path: rt.path, probe: true, handle: refuseMethod(strings.Join(rt.methods, ", "))}
		wrongMethod[rt.path] = refuse
		// echo would answer 204 by itself, which reads as a yes to a preflight.
		e.OPTIONS(rt.path, s.adapt(refuse))
	}
	unknown := &route{path: "", probe: true, handle: func(http.ResponseWriter, *http.Request, *call) error { return errNotFound() }}
	e.HTTPErrorHandler = func(err error, ec echo.Context) {
		rt := unknown
		if refuse, ok := wrongMethod[ec.Path()]; ok && errors.Is(err, echo.ErrMethodNotAllowed) {
			rt = refuse
		}
		s.serve(rt, ec.Response().Writer, ec.Request(), nil)
	}
	return e
}

// adapt makes an echo handler of a route. Handlers write to net/http's own
// writer: they need its Flush to see whether a token got out.
func (s *Server) adapt(rt *route) echo.HandlerFunc {
	return func(ec echo.Context) error {
		s.serve(rt, ec.Response().Writer, ec.Request(), ec.ParamValues())
		return nil
	}
}

// refuseMethod answers a method that the path does not know.
func refuseMethod(allow string) handler {
	return func(w http.ResponseWriter, _ *http.Request, _ *call) error {
		w.Header().Set("Allow", allow)
		return problem(codeMethod, "allowed here: "+allow)
	}
}
