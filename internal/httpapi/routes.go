package httpapi

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"poold/internal/httpapi/compatapi"
	"poold/internal/httpapi/delivery"
	"poold/internal/httpapi/historyapi"
	"poold/internal/httpapi/kernel"
	"poold/internal/httpapi/openapi"
	"poold/internal/httpapi/page"
	"poold/internal/targets"
)

type areas struct {
	tokens    tokens
	reports   *delivery.Reports
	solves    solves
	clients   compatapi.Routes
	admin     admin
	pages     *page.Routes
	scrapes   *scrapes
	callbacks callbacks
	history   historyapi.Routes
	events    eventRoutes
	probes    probes
}

// These are the methods of most routes. The router echo does not derive HEAD from GET. A HEAD
// request therefore takes no token.
var (
	reading = []string{http.MethodGet, http.MethodHead}
	posting = []string{http.MethodPost}
	either  = []string{http.MethodGet, http.MethodPost}
)

func (a *areas) table() []kernel.Route {
	table := []kernel.Route{
		{Methods: either, Path: "/pool/:target/token", Scope: targets.ScopeToken, Handle: a.tokens.take},
		{Methods: posting, Path: "/pool/:target/token/:id/report", Scope: targets.ScopeToken, Body: true, Handle: a.reports.Receive},
		{Methods: posting, Path: "/solve", Scope: targets.ScopeSolve, Body: true, Handle: a.solves.solve},
		{Methods: posting, Path: "/solve/:id/report", Scope: targets.ScopeSolve, Body: true, Handle: a.reports.ReceiveSolve},
		{Methods: []string{http.MethodDelete}, Path: "/pool/:target/tokens", Scope: targets.ScopeAdmin, Handle: a.admin.flush},
		{Methods: reading, Path: "/pool/:target", Scope: targets.ScopeStatus, Handle: a.pages.Target},
		{Methods: posting, Path: "/pool/:target/pause", Scope: targets.ScopeAdmin, Body: true, Handle: a.admin.pause},
		{Methods: posting, Path: "/pool/:target/resume", Scope: targets.ScopeAdmin, Handle: a.admin.resume},
		{Methods: reading, Path: "/", Handle: a.pages.Front},
		{Methods: reading, Path: "/status", Scope: targets.ScopeStatus, Handle: a.pages.Overview},
		{Methods: reading, Path: "/status.json", Scope: targets.ScopeStatus, Handle: a.pages.Document},
		{Methods: reading, Path: "/status.css", Handle: page.Asset("status.css", "text/css; charset=utf-8")},
		{Methods: reading, Path: "/status.js", Handle: page.Asset("status.js", "text/javascript; charset=utf-8")},
		{Methods: reading, Path: "/tabs.js", Handle: page.Asset("tabs.js", "text/javascript; charset=utf-8")},
		{Methods: reading, Path: "/status.svg", Handle: a.pages.Icon},
		{Methods: reading, Path: "/uplot.css", Handle: page.Asset("uplot/uPlot.min.css", "text/css; charset=utf-8")},
		{Methods: reading, Path: "/uplot.js", Handle: page.Asset("uplot/uPlot.iife.min.js", "text/javascript; charset=utf-8")},
		{Methods: reading, Path: "/openapi.yaml", Handle: describe},
		{Methods: reading, Path: "/metrics", Scope: targets.ScopeStatus, Whole: true, Handle: a.scrapes.scrape},
		{Methods: posting, Path: "/providers/:provider/probe", Scope: targets.ScopeAdmin, Whole: true, Handle: a.admin.probe},
		{Methods: posting, Path: "/-/reload", Scope: targets.ScopeAdmin, Whole: true, Handle: a.admin.reload},
		{Methods: reading, Path: "/dead-letters", Scope: targets.ScopeAdmin, Whole: true, Handle: a.admin.deadLetters},
		{Methods: posting, Path: "/dead-letters/replay", Scope: targets.ScopeAdmin, Whole: true, Handle: a.admin.replay},
		{Methods: reading, Path: "/events", Scope: targets.ScopeStatus, Handle: a.events.recent},
		{Methods: reading, Path: "/history/site/:sitekey", Scope: targets.ScopeStatus, Handle: a.history.Site},
		{Methods: reading, Path: "/history/day/:date", Scope: targets.ScopeStatus, Handle: a.history.Day},
		{Methods: reading, Path: "/history/tasks", Scope: targets.ScopeStatus, Handle: a.history.Tasks},
		{Methods: reading, Path: "/history/active", Scope: targets.ScopeStatus, Handle: a.history.Active},
		{Methods: reading, Path: "/history/solve/:id", Scope: targets.ScopeStatus, Handle: a.history.Solve},
		{Methods: reading, Path: "/history/usage", Scope: targets.ScopeStatus, Handle: a.history.Usage},
		{Methods: reading, Path: "/history/key/:name", Scope: targets.ScopeAdmin, Handle: a.history.Key},
		// These routes have no scope, because a client sends its key as a parameter; the handlers
		// check the key.
		{Methods: either, Path: "/in.php", Body: true, Handle: a.clients.ServeLegacy},
		{Methods: either, Path: "/res.php", Body: true, Handle: a.clients.ServeLegacy},
		// Callbacks need no key and may have any Host, because solving services know no key and no host name.
		{Methods: either, Path: "/callback/:provider/:order/:secret", Probe: true, Handle: a.callbacks.receive},
		{Methods: reading, Path: "/debug/pprof/", Scope: targets.ScopeAdmin, Whole: true, Handle: profile},
		{Methods: reading, Path: "/debug/pprof/:profile", Scope: targets.ScopeAdmin, Whole: true, Handle: profile},
		{Methods: reading, Path: "/healthz", Probe: true, Handle: a.probes.alive},
		{Methods: reading, Path: "/readyz", Probe: true, Handle: a.probes.ready},
	}
	// In the tasks protocol the key is also a parameter.
	for _, path := range []string{
		"/createTask", "/getTaskResult", "/getBalance", "/reportCorrect", "/reportIncorrect",
		"/reportCorrectRecaptcha", "/reportIncorrectRecaptcha", "/reportIncorrectImageCaptcha", "/reportIncorrectTokenCaptcha",
	} {
		table = append(table, kernel.Route{Methods: posting, Path: path, Body: true, Handle: a.clients.ServeTasks})
	}
	return table
}

// routes returns the handler of all routes. The router echo finds the route and splits the path;
// only this file depends on echo.
func (s *Server) routes(a *areas) http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard) // the logger would write to stdout

	wrongMethod := make(map[string]*kernel.Route) // by path
	for _, rt := range a.table() {
		rt.Named = strings.Contains(rt.Path, ":target")
		rt.Changes = slices.Contains(rt.Methods, http.MethodPost) || slices.Contains(rt.Methods, http.MethodDelete)
		adapter := s.adapt(&rt)
		for _, method := range rt.Methods {
			e.Add(method, rt.Path, adapter)
		}
		refuse := &kernel.Route{Path: rt.Path, Probe: true, Handle: refuseMethod(strings.Join(rt.Methods, ", "))}
		wrongMethod[rt.Path] = refuse
		// Without this handler, echo would answer 204, and a browser's preflight request would succeed.
		e.OPTIONS(rt.Path, s.adapt(refuse))
	}
	unknown := &kernel.Route{Path: "", Probe: true, Handle: func(http.ResponseWriter, *http.Request, *kernel.Call) error { return kernel.ErrNotFound() }}
	e.HTTPErrorHandler = func(err error, ec echo.Context) {
		rt := unknown
		if refuse, ok := wrongMethod[ec.Path()]; ok && errors.Is(err, echo.ErrMethodNotAllowed) {
			rt = refuse
		}
		s.serve(rt, ec.Response().Writer, ec.Request(), nil)
	}
	return e
}

// adapt turns a route into an echo handler. Handlers write to net/http's own writer, because its
// Flush shows whether a token was sent.
func (s *Server) adapt(rt *kernel.Route) echo.HandlerFunc {
	return func(ec echo.Context) error {
		s.serve(rt, ec.Response().Writer, ec.Request(), ec.ParamValues())
		return nil
	}
}

// describe is GET /openapi.yaml: the description of the API. The description contains no data of the
// daemon, so the route needs no key.
func describe(w http.ResponseWriter, _ *http.Request, _ *kernel.Call) error {
	kernel.Respond(w, "application/yaml", openapi.Document())
	return nil
}

// refuseMethod returns the handler for requests with a method that the route lacks. The argument
// allow lists the methods of the route.
func refuseMethod(allow string) kernel.Handler {
	return func(w http.ResponseWriter, _ *http.Request, _ *kernel.Call) error {
		w.Header().Set("Allow", allow)
		return kernel.NewProblem(kernel.CodeMethod, "allowed here: "+allow)
	}
}
