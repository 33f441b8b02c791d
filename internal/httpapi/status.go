package httpapi

import (
	"context"
	"html/template"
	"net/http"

	"poold/internal/status"
)

// Snapshots is where the status comes from; *status.Collector implements it.
type Snapshots interface {
	Snapshot(ctx context.Context) *status.Snapshot
}

// pages are the routes that show how the daemon is doing, to people and to programs.
type pages struct {
	status Snapshots
	page   *template.Template
}

// current returns the current snapshot. One of many targets may have taken all the time
// that an answer has.
func current(w http.ResponseWriter, r *http.Request, from Snapshots) *status.Snapshot {
	snapshot := from.Snapshot(r.Context())
	answerWithin(w, writeLimit)
	return snapshot
}

// front is GET /: it leads a browser to the page.
func (p *pages) front(w http.ResponseWriter, r *http.Request, c *call) error {
	w.Header()["Vary"] = varyAccept
	if !prefers(r.Header["Accept"], "text/html") {
		return errNotFound()
	}
	http.Redirect(w, r, "/status", http.StatusFound)
	return nil
}

// overview is GET /status: a page for browsers, JSON for everybody else.
func (p *pages) overview(w http.ResponseWriter, r *http.Request, c *call) error {
	w.Header()["Vary"] = varyAccept
	if !prefers(r.Header["Accept"], "text/html") {
		return p.document(w, r, c)
	}
	document := current(w, r, p.status).Document
	if c.caller.globs != nil {
		document = document.Only(c.caller.mayUse)
	}
	return p.writePage(w, document, c.caller)
}

// document is GET /status.json.
func (p *pages) document(w http.ResponseWriter, r *http.Request, c *call) error {
	snapshot := current(w, r, p.status)
	if c.caller.globs != nil {
		return respondJSON(w, snapshot.Document.Only(c.caller.mayUse))
	}
	body, err := snapshot.JSON()
	if err != nil {
		return err
	}
	respond(w, "application/json", body)
	return nil
}

// target is GET /pool/{target}: its part of the status.
func (p *pages) target(w http.ResponseWriter, r *http.Request, c *call) error {
	target, ok := current(w, r, p.status).Document.Target(c.target.Name)
	if !ok { // a reload removed it between two lines of ours
		return problem(codeUnknownTarget, "the configuration file has no target of this name")
	}
	return respondJSON(w, target)
}
