package page

import (
	"context"
	"html/template"
	"net/http"

	"poold/internal/httpapi/kernel"
	"poold/internal/status"
)

// Snapshots is where the status comes from; *status.Collector implements it.
type Snapshots interface {
	Snapshot(ctx context.Context) *status.Snapshot
}

// Routes are the routes that show how the daemon is doing, to people and to programs.
type Routes struct {
	status Snapshots
	page   *template.Template
}

// current returns the current snapshot. One of many targets may have taken all the time
// that an answer has.
func current(w http.ResponseWriter, r *http.Request, from Snapshots) *status.Snapshot {
	snapshot := from.Snapshot(r.Context())
	kernel.AnswerWithin(w, kernel.WriteLimit)
	return snapshot
}

// Front is GET /: it leads a browser to the page.
func (p *Routes) Front(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	w.Header()["Vary"] = kernel.VaryAccept
	if !kernel.Prefers(r.Header["Accept"], "text/html") {
		return kernel.ErrNotFound()
	}
	http.Redirect(w, r, "/status", http.StatusFound)
	return nil
}

// Overview is GET /status: a page for browsers, JSON for everybody else.
func (p *Routes) Overview(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	w.Header()["Vary"] = kernel.VaryAccept
	if !kernel.Prefers(r.Header["Accept"], "text/html") {
		return p.Document(w, r, c)
	}
	document := current(w, r, p.status).Document
	if c.Caller.Globs != nil {
		document = document.Only(c.Caller.MayUse)
	}
	return p.writePage(w, document, c.Caller)
}

// Document is GET /status.json.
func (p *Routes) Document(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	snapshot := current(w, r, p.status)
	if c.Caller.Globs != nil {
		return kernel.RespondJSON(w, snapshot.Document.Only(c.Caller.MayUse))
	}
	body, err := snapshot.JSON()
	if err != nil {
		return err
	}
	kernel.Respond(w, "application/json", body)
	return nil
}

// Target is GET /pool/{target}: its part of the status.
func (p *Routes) Target(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	target, ok := current(w, r, p.status).Document.Target(c.Target.Name)
	if !ok { // a reload removed it between two lines of ours
		return kernel.NewProblem(kernel.CodeUnknownTarget, "the configuration file has no target of this name")
	}
	return kernel.RespondJSON(w, target)
}
