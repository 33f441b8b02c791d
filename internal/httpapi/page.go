package httpapi

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

	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/status"
	"poold/internal/targets"
)

//go:embed status.html status.css
var pageFiles embed.FS

// pagePolicy allows the page its one style sheet and nothing else.
const pagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func parsePage() *template.Template {
	return template.Must(template.New("status.html").Funcs(template.FuncMap{
		"share":       share,
		"wants":       wants,
		"expectation": expectation,
		"percent":     func(f float64) string { return strconv.FormatFloat(f*100, 'f', 1, 64) + " %" },
		"seconds":     func(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) + " s" },
		"money":       func(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) },
		"spent":       func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) },
		"moment":      moment,
	}).ParseFS(pageFiles, "status.html"))
}

func readCSS() []byte {
	css, err := pageFiles.ReadFile("status.css")
	if err != nil {
		panic(err) // it is embedded: the build would have failed
	}
	return css
}

// share returns how much of a target's bar n takes, in percent. The whole bar is
// the depth, or what a warm window wants. Tokens and orders beyond that make it
// full, never wider.
func share(n int, t status.Target) int {
	if widest := max(t.Depth, t.Warm, t.Fresh+t.InFlight); widest > 0 {
		return n * 100 / widest
	}
	return 0
}

// wants is how many tokens are wanted, and whether a warm window is the reason; "" where
// that is the depth.
func wants(t status.Target) string {
	switch {
	case t.Warm > 0 && t.Warm == t.Want:
		return fmt.Sprintf("wants %d, warm", t.Want)
	case t.Warm > 0: // the demand wants more, or a pause nothing
		return fmt.Sprintf("wants %d, warm %d", t.Want, t.Warm)
	case t.Want != t.Depth:
		return fmt.Sprintf("wants %d", t.Want)
	}
	return ""
}

// expectation is what an adaptive target expects, and what holds a target of either
// kind back; "" where there is neither, and for a paused target.
func expectation(t status.Target) string {
	if t.State == refill.Paused {
		return ""
	}
	var parts []string
	if t.Refill == string(targets.RefillAdaptive) {
		expects := "expects " + strconv.FormatFloat(math.Round(t.Forecast*100)/100, 'f', -1, 64) + " in a lead time"
		if t.State != status.StateIdle { // with nothing kept the risk is always 100 %
			expects += fmt.Sprintf(", risk %.1f %%", t.Risk*100)
		}
		parts = append(parts, expects)
	}
	if t.Limit != policy.LimitNone {
		parts = append(parts, "held by "+t.Limit)
	}
	return strings.Join(parts, ", ")
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
func (p *pages) writePage(w http.ResponseWriter, document *status.Document) error {
	var page bytes.Buffer
	if err := p.page.Execute(&page, document); err != nil {
		return fmt.Errorf("rendering the status page: %w", err)
	}
	answerWithin(w, writeLimit) // thousands of rows take their time
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	respond(w, "text/html; charset=utf-8", page.Bytes())
	return nil
}

// styles is GET /status.css. It says nothing about this daemon, so it needs no key.
func (p *pages) styles(w http.ResponseWriter, _ *http.Request, _ *call) error {
	respond(w, "text/css; charset=utf-8", p.css)
	return nil
}
