package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/status"
	"poold/internal/targets"
)

// Routes contains the handlers of the status page and of the status as JSON.
type Routes struct {
	status *status.Collector
	page   *template.Template
}

// currentSnapshot gets the current snapshot and restarts the time limit of the response, because a
// snapshot of many targets may have used up the limit.
func currentSnapshot(w http.ResponseWriter, r *http.Request, from *status.Collector) *status.Snapshot {
	snapshot := from.Snapshot(r.Context())
	kernel.AnswerWithin(w, kernel.WriteLimit)
	return snapshot
}

// Front is GET /: it redirects a browser to the status page.
func (p *Routes) Front(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	w.Header()["Vary"] = kernel.VaryAccept
	if !kernel.Prefers(r.Header["Accept"], "text/html") {
		return kernel.ErrNotFound()
	}
	http.Redirect(w, r, "/status", http.StatusFound)
	return nil
}

// Overview is GET /status: a page for browsers, JSON for other clients.
func (p *Routes) Overview(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	w.Header()["Vary"] = kernel.VaryAccept
	if !kernel.Prefers(r.Header["Accept"], "text/html") {
		return p.Document(w, r, c)
	}
	document := currentSnapshot(w, r, p.status).Document
	if c.Caller.Globs != nil {
		document = document.Part(c.Caller.MayUse)
	}
	return p.writePage(w, document, c.Caller)
}

// Document is GET /status.json: the status as JSON.
func (p *Routes) Document(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	minutes, err := wantsMinutes(r)
	if err != nil {
		return err
	}
	snapshot := currentSnapshot(w, r, p.status)
	if !minutes {
		snapshot = snapshot.WithoutMinutes()
	}
	if c.Caller.Globs != nil {
		return kernel.RespondJSON(w, snapshot.Document.Part(c.Caller.MayUse))
	}
	kernel.Respond(w, "application/json", snapshot.JSON())
	return nil
}

// wantsMinutes reports whether a request for the status wants the minutes of each target's last hour.
// The query minutes=0 omits them, because they are most of the document.
func wantsMinutes(r *http.Request) (bool, error) {
	values, err := kernel.ReadValues(r.URL.RawQuery, "minutes")
	if err == nil && values.Has("minutes") && values.Get("minutes") != "0" {
		err = kernel.NewProblem(kernel.CodeBadRequest, "minutes must be 0, which omits hour.minutes of each target; without this parameter the answer has them")
	}
	return !values.Has("minutes"), err
}

// Target is GET /pool/{target}: the target's part of the status, and the counts of the last day.
func (p *Routes) Target(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	target, ok := currentSnapshot(w, r, p.status).Document.Target(c.Target.Name)
	if !ok { // a reload removed the target after the request was admitted
		return kernel.NewProblem(kernel.CodeUnknownTarget, "the configuration file has no target of this name")
	}
	return kernel.RespondJSON(w, status.TargetDetail{Target: *target, LastDay: p.status.LastDay(r.Context(), c.Target.ID), Currency: c.Access.Set.Currency})
}

// web is the embedded folder web: the page, its script and its style, and the chart library uPlot
// with its license, unchanged.
//
//go:embed web
var web embed.FS

// pagePolicy is the Content-Security-Policy of the page: the page may load only files from this daemon.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

type pageData struct {
	*status.Document

	Key    string          // name of the caller's key; "" = the configuration file has no keys
	Scopes []targets.Scope // scopes of the caller
	Keyed  bool            // the configuration file has keys
	Whole  bool            // the caller may use all targets
}

// New returns the routes of the page. New panics if the template does not parse.
func New(from *status.Collector) *Routes {
	parsed := template.Must(template.New("status.html").Funcs(template.FuncMap{
		"share":       share,
		"wants":       wantText,
		"expectation": expectation,
		"percent":     func(f float64) string { return strconv.FormatFloat(f*100, 'f', 1, 64) + " %" },
		"seconds":     func(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) + " s" },
		"money":       func(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) },
		"spent": func(m status.Money, currency targets.Currency) string {
			switch {
			case !m.Known():
				return m.String()
			case m == 0:
				return "–"
			}
			return currency.With(m.String())
		},
		"moment": moment,

		"problemsFirst": status.ProblemsFirst,
	}).ParseFS(web, "web/status.html"))
	return &Routes{from, parsed}
}

// share returns the percentage of a target's bar that n tokens fill. The full bar stands for the
// depth, the size of a warm window, or the number of tokens and orders, whichever is largest.
func share(n int, t status.Target) int {
	if widest := max(t.Depth, t.Warm, t.Fresh+t.InFlight); widest > 0 {
		return n * 100 / widest
	}
	return 0
}

// wantText returns a text that contains the number of wanted tokens and shows whether a warm window
// is the reason for this number. The text is "" if the number of wanted tokens equals the depth.
func wantText(t status.Target) string {
	switch {
	case t.Warm > 0 && t.Warm == t.Want:
		return fmt.Sprintf("wants %d, warm", t.Want)
	case t.Warm > 0: // the demand requires more tokens, or the target is paused
		return fmt.Sprintf("wants %d, warm %d", t.Want, t.Warm)
	case t.Want != t.Depth:
		return fmt.Sprintf("wants %d", t.Want)
	}
	return ""
}

// expectation returns a text that contains the forecast of an adaptive target, and the limit that
// applies to the target. The text is "" if there is neither a forecast nor a limit, or if the
// target is paused.
func expectation(t status.Target) string {
	if t.State == refill.Paused {
		return ""
	}
	var parts []string
	if t.Refill == string(targets.RefillAdaptive) {
		expects := "expects " + strconv.FormatFloat(math.Round(t.Forecast*100)/100, 'f', -1, 64) + " in a lead time"
		if t.State != status.StateIdle { // without kept tokens the risk is always 100 %
			expects += fmt.Sprintf(", risk %.1f %%", t.Risk*100)
		}
		parts = append(parts, expects)
	}
	if t.Limit != policy.LimitNone {
		parts = append(parts, "held by "+t.Limit)
	}
	return strings.Join(parts, ", ")
}

// moment formats a timestamp of the document for people.
func moment(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return "never"
	}
	return t.Format("2006-01-02 15:04:05") + " UTC"
}

// writePage renders the status page. Like the document, the page contains neither tokens nor keys.
func (p *Routes) writePage(w http.ResponseWriter, document *status.Document, c *kernel.Caller) error {
	data := pageData{Document: document, Key: c.Name, Scopes: c.Scopes, Keyed: c != kernel.Anyone, Whole: c.Globs == nil}
	if c == kernel.Anyone {
		data.Scopes = []targets.Scope{targets.ScopeToken, targets.ScopeSolve, targets.ScopeStatus, targets.ScopeAdmin}
	}
	var page bytes.Buffer
	if err := p.page.Execute(&page, data); err != nil {
		return fmt.Errorf("rendering the status page: %w", err)
	}
	kernel.AnswerWithin(w, kernel.WriteLimit) // rendering thousands of rows takes time
	protect(w.Header())
	kernel.Respond(w, "text/html; charset=utf-8", page.Bytes())
	return nil
}

// protect sets the headers of a page that other sites must neither embed nor learn about.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "same-origin") // so that poold recognises the requests of its own page
	h.Set("X-Frame-Options", "DENY")
}

// Asset returns a handler that serves a file of the folder web. The file contains no data of the
// daemon, so the route needs no key.
func Asset(name, contentType string) kernel.Handler {
	body, err := web.ReadFile("web/" + name)
	if err != nil {
		panic(err) // impossible: the file is embedded
	}
	return func(w http.ResponseWriter, _ *http.Request, _ *kernel.Call) error {
		kernel.Respond(w, contentType, body)
		return nil
	}
}

// Icon is GET /status.svg: the icon of the page, with the number of targets that have a problem.
// The number comes from the query, so the route needs no key.
func (p *Routes) Icon(w http.ResponseWriter, r *http.Request, _ *kernel.Call) error {
	query := r.URL.Query()
	trouble, err := strconv.Atoi(query.Get("n"))
	if err != nil {
		trouble = 0
	}
	fill, text := "#1a7f4b", ""
	if trouble > 0 {
		fill, text = "#9a6200", strconv.Itoa(min(trouble, 99))
	}
	if query.Get("alarm") == "1" {
		fill = "#b3261e"
		if text == "" {
			text = "!"
		}
	}
	if text == "" { // the picture of a full pool
		text = `<path d="M9 20c3-3 6-3 7-1s4 2 7-1v5H9z" fill="#fff"/>`
	} else {
		text = `<text x="16" y="23" font-family="sans-serif" font-size="18" font-weight="700" text-anchor="middle" fill="#fff">` + text + `</text>`
	}
	kernel.Respond(w, "image/svg+xml", []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="`+fill+`"/>`+text+`</svg>`))
	return nil
}
