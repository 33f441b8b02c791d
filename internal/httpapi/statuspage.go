package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"poold/internal/httpapi/page"
	"poold/internal/status"
	"poold/internal/targets"
)

// seen returns the part of the status document that the caller may see.
func (s *Server) seen(c *Context) *status.Document {
	document := s.Status.Build(c.Ctx())
	if c.Caller.Targets != nil {
		document = document.Part(c.Caller.MayUse)
	}
	return document
}

// document is GET /status.json.
func (s *Server) document(c *Context) error {
	body := s.seen(c).JSON()
	tag := fmt.Sprintf(`"%08x"`, crc32.ChecksumIEEE(body))
	c.Response().Header().Set("ETag", tag)
	if c.Request().Header.Get("If-None-Match") == tag {
		return c.NoContent(http.StatusNotModified)
	}
	return c.JSONBlob(http.StatusOK, body)
}

// targetDetail is GET /pool/{target}: the target's part of the status, and the counts of the last day.
func (s *Server) targetDetail(c *Context) error {
	detail := s.Status.Detail(c.Ctx(), c.Target.Name)
	if detail == nil { // a reload removed the target after the request was admitted
		return NewProblem(CodeUnknownTarget, "the configuration file has no target of this name")
	}
	return c.JSON(http.StatusOK, detail)
}

// The page reads further data from the routes of the API, and its forms send their actions to these routes, with the
// headers of the browser's request. So the page has the same rights as the key in these headers, and the routes need no
// code for the page.

// front is GET /: it redirects a browser to the status page.
func (s *Server) front(c *Context) error {
	if !c.Prefers("text/html") {
		return echo.ErrNotFound
	}
	return c.Redirect(http.StatusFound, "/status")
}

// showPage is GET /status: the page for browsers, JSON for other clients.
func (s *Server) showPage(c *Context) error {
	if !c.Prefers("text/html") {
		return s.document(c)
	}
	query := page.ReadQuery(c.QueryParams())
	if c.QueryParams().Has("csv") {
		if table := s.askAPI(c, http.MethodGet, usagePath(query), "text/csv", nil); table.code == http.StatusOK {
			c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="poold-spend-by-`+query.Get("by")+
				`.csv"`)
			return c.Blob(http.StatusOK, table.header.Get(echo.HeaderContentType), table.Bytes())
		}
	}
	return s.writePage(c, query, "")
}

// act is POST /status/act: a form of the page. The action is a request to the API. If it succeeds, the browser goes
// back to the page, else the page shows the problem.
func (s *Server) act(c *Context) error {
	form, err := c.FormParams()
	if err != nil {
		return NewProblem(CodeBadRequest, "the body must be a form of the status page")
	}
	query := page.ReadQuery(form)
	action, known := page.Actions[query.Get("act")]
	if !known {
		return NewProblem(CodeBadRequest, "the form has no known action")
	}
	terms := map[string]string{} // of a pause
	for _, name := range []string{"for", "reason"} {
		if value := strings.TrimSpace(form.Get(name)); value != "" {
			terms[name] = value
		}
	}
	done := s.askAPI(c, action.Method, action.Path(query.Get("of")), echo.MIMEApplicationJSON, terms)
	if done.code >= http.StatusBadRequest {
		return s.writePage(c, query.With("act", "", "of", ""), action.Label+": "+done.problem())
	}
	return c.Redirect(http.StatusSeeOther, query.With("act", "", "of", "", "done", query.Get("act")).String())
}

// writePage renders the page.
func (s *Server) writePage(c *Context, query page.Params, problem string) error {
	view := page.View{
		Document: s.seen(c), Query: query, Problem: problem, Key: c.Caller.Name,
		Keyed: c.Caller != Anyone, Operate: c.Caller.May(targets.ScopeAdmin), Whole: c.Caller.Targets == nil,
	}
	load := func(path string, into any) {
		answer := s.askAPI(c, http.MethodGet, path, echo.MIMEApplicationJSON, nil)
		if err := json.Unmarshal(answer.Bytes(), into); err != nil || answer.code != http.StatusOK {
			view.Problem = strings.TrimPrefix(view.Problem+"; "+answer.problem(), "; ")
		}
	}
	switch query.Get("tab") {
	case "events":
		var list EventList
		load("/events?limit=200", &list)
		view.Events = list.Events
	case "money":
		load(usagePath(query), &view.Usage)
	default:
		if _, known := view.Target(query.Get("open")); known {
			view.Detail = s.Status.Detail(c.Ctx(), query.Get("open"))
		}
	}
	var text bytes.Buffer
	if err := view.Render(&text); err != nil {
		return fmt.Errorf("rendering the status page: %w", err)
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentSecurityPolicy, page.Policy)
	h.Set(echo.HeaderReferrerPolicy, "same-origin") // so that poold recognises requests of its page
	h.Set(echo.HeaderXFrameOptions, "DENY")
	return c.HTMLBlob(http.StatusOK, text.Bytes())
}

// usagePath returns the path of the request to /history/usage that fits a query of the page.
func usagePath(q page.Params) string {
	days, _ := strconv.Atoi(q.Get("days"))
	path := "/history/usage?by=" + q.Get("by") + "&from=" + time.Now().UTC().AddDate(0, 0, 1-days).Format(time.DateOnly)
	if q.Get("per") != "" {
		path += "&per=day"
	}
	return path
}

// askAPI sends a request to a route of the API, with the headers of the browser's request.
func (s *Server) askAPI(c *Context, method, path, accept string, body map[string]string) *apiAnswer {
	inner := c.Request().Clone(c.Ctx())
	inner.Method, inner.RequestURI, inner.TransferEncoding = method, path, nil
	inner.URL, _ = url.Parse(path) // cannot fail: all values are escaped
	inner.Header.Set(echo.HeaderAccept, accept)
	inner.Header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	inner.Header.Set(echo.HeaderXRequestID, c.RequestID())
	inner.Header.Del(echo.HeaderAcceptEncoding)
	inner.Body, inner.ContentLength = http.NoBody, 0
	if len(body) > 0 {
		text, _ := json.Marshal(body) // texts can always be encoded
		inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	}
	answer := &apiAnswer{header: http.Header{}, code: http.StatusOK}
	s.handler.ServeHTTP(answer, inner)
	return answer
}

// apiAnswer records an answer of the API.
type apiAnswer struct {
	bytes.Buffer
	header http.Header
	code   int
}

func (a *apiAnswer) Header() http.Header  { return a.header }
func (a *apiAnswer) WriteHeader(code int) { a.code = code }

// problem returns the text of a problem document.
func (a *apiAnswer) problem() string {
	var p Problem
	_ = json.Unmarshal(a.Bytes(), &p) // without a document the text is empty
	return strings.Join(append([]string{p.Title, p.Detail}, p.Problems...), ": ")
}

// pageFile serves a file of the page. The file contains no data of the daemon, so the route needs no key. The file's
// address contains a version of its content, so a browser may cache the file.
func pageFile(c *Context) error {
	c.Response().Header().Set(echo.HeaderCacheControl, "public, max-age=31536000, immutable")
	http.ServeFileFS(c.Response(), c.Request(), page.Web, "web"+c.Path())
	return nil
}
