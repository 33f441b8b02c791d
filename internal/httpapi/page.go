package httpapi

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"time"
)

//go:embed status.html status.css
var pageFiles embed.FS

// pagePolicy allows the page its one style sheet and nothing else.
const pagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func parsePage() *template.Template {
	return template.Must(template.New("status.html").Funcs(template.FuncMap{
		"share":   share,
		"percent": func(f float64) string { return strconv.FormatFloat(f*100, 'f', 1, 64) + " %" },
		"seconds": func(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) + " s" },
		"money":   func(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) },
		"spent":   func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) },
		"moment":  moment,
	}).ParseFS(pageFiles, "status.html"))
}

func readCSS() []byte {
	css, err := pageFiles.ReadFile("status.css")
	if err != nil {
		panic(err) // it is embedded: the build would have failed
	}
	return css
}

// share returns how much of a target's bar n takes, in percent. Tokens and
// orders beyond the depth make the bar full, never wider.
func share(n int, t TargetStatus) int {
	if widest := max(t.Depth, t.Fresh+t.InFlight); widest > 0 {
		return n * 100 / widest
	}
	return 0
}

// moment makes a timestamp of the document readable.
func moment(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return "never"
	}
	return t.Format("2006-01-02 15:04:05") + " UTC"
}

// writePage renders the status for people. It holds neither token nor key,
// like the document that it shows.
func (s *Server) writePage(w http.ResponseWriter, status *Status) error {
	var page bytes.Buffer
	if err := s.page.Execute(&page, status); err != nil {
		return fmt.Errorf("rendering the status page: %w", err)
	}
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	respond(w, "text/html; charset=utf-8", page.Bytes())
	return nil
}

// handleCSS is GET /status.css. It says nothing about this daemon, so it needs
// no key.
func (s *Server) handleCSS(w http.ResponseWriter, _ *http.Request, _ *call) error {
	respond(w, "text/css; charset=utf-8", s.css)
	return nil
}
