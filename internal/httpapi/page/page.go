package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"poold/internal/events"
	"poold/internal/status"
)

// Web has the folder web.
//
//go:embed web
var Web embed.FS

// version identifies the content of a file, so that browsers may keep it for ever.
func version(name string) string {
	body, _ := Web.ReadFile("web/" + name) // embedded
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

// Policy is the Content-Security-Policy of the page. The page has no inline script or style.
const Policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

var templates = template.Must(template.New("status.html").Funcs(template.FuncMap{
	"count": count, "plural": plural, "percent": percent, "seconds": seconds, "moment": moment, "version": version,
	"words": func(name any) string { return strings.ReplaceAll(fmt.Sprint(name), "_", " ") },
}).ParseFS(Web, "web/status.html"))

// Params are the parameters of the page's address, which say what the page shows.
type Params url.Values

// choices has the parameters with a fixed set of values; the first value is the default. The values of other parameters
// are free texts.
var choices = map[string][]string{
	"tab": {"targets", "events", "money"}, "sort": {"problems", "name", "owner", "hits", "requests", "lead", "spent"},
	"by": {"owner", "target", "provider", "key"}, "days": {"7", "1", "30", "90"}, "per": {"", "day"},
	"only": {"", "problems"}, "refresh": {"", "off"}, "q": nil, "open": nil, "page": nil, "act": nil, "of": nil,
	"done": nil,
}

// ReadQuery keeps the known parameters of an address or a form.
func ReadQuery(values url.Values) Params {
	q := Params{}
	for name := range choices {
		if value := values.Get(name); value != "" {
			q[name] = []string{value}
		}
	}
	return q
}

// Get returns the value of a parameter, or its default.
func (q Params) Get(name string) string {
	value, among := url.Values(q).Get(name), choices[name]
	if among != nil && !slices.Contains(among, value) {
		return among[0]
	}
	return value
}

// With returns the query with other values of some parameters, given as pairs. The value "" removes the parameter.
func (q Params) With(pairs ...string) Params {
	other := ReadQuery(url.Values(q))
	for pair := range slices.Chunk(pairs, 2) {
		if other[pair[0]] = pair[1:]; pair[1] == "" {
			delete(other, pair[0])
		}
	}
	return other
}

// String returns the address of the page with this query.
func (q Params) String() string { return "/status?" + url.Values(q).Encode() }

// Every returns the seconds between two renewals of the page; 0 = the page is not renewed. The spend is not renewed,
// because each answer costs a query to the store of the history. Without JavaScript a renewal loads the whole page.
func (q Params) Every() int {
	switch {
	case q.Get("refresh") != "" || q.Get("act") != "" || q.Get("tab") == "money":
		return 0
	case q.Get("tab") == "events":
		return 10
	}
	return 2
}

// View is the content of a page.
type View struct {
	*status.Document
	Query   Params
	Key     string // name of the caller's key; "" = the file has no keys
	Keyed   bool   // the file has keys
	Operate bool   // the caller may use actions
	Whole   bool   // the caller may use all targets
	Problem string // why an action failed or a part of the page is missing

	Detail *status.TargetDetail // of the opened target; nil = none is open
	Events []events.Event       // of the tab Events, the newest first
	Usage  struct {             // of the tab Money: a part of GET /history/usage
		First, Last string
		Lines       []map[string]any
	}
}

// Render writes the page.
func (v *View) Render(w io.Writer) error { return templates.ExecuteTemplate(w, "status.html", v) }

// Button is a button of the page with its action: a request to the API that an operator can send.
type Button struct{ Label, Method, path, Done string }

// Actions has the actions by the value of the parameter act.
var Actions = map[string]Button{
	"pause":  {"Pause", "POST", "/pool/%s/pause", "Buying was paused."},
	"resume": {"Resume", "POST", "/pool/%s/resume", "Buying was resumed; the next order is placed at once."},
	"flush":  {"Flush", "DELETE", "/pool/%s/tokens", "The ready tokens were flushed."},
	"probe":  {"Probe", "POST", "/providers/%s/probe", "The provider was probed; its state is below."},
	"reload": {"Reload configuration", "POST", "/-/reload%.0s", "The configuration file was read again."},
}

// Path returns the path of the request about a target or a provider.
func (a Button) Path(of string) string { return fmt.Sprintf(a.path, url.PathEscape(of)) }

// Action returns the action that a parameter of the address names. The parameter act names the action to confirm, and
// done the last completed one.
func (v *View) Action(parameter string) Button { return Actions[v.Query.Get(parameter)] }

// Chosen returns the target of the action to confirm; nil = the action is not about a target that the viewer may see.
func (v *View) Chosen() *TargetRow {
	if t, ok := v.Target(v.Query.Get("of")); ok {
		return &TargetRow{t}
	}
	return nil
}

// Columns returns those columns of the spend for which some line has a value.
func (v *View) Columns() []string {
	all := strings.Fields("date target owner provider key orders bought solved handed_out returned missed expired " +
		"discarded failed refused lost accepted rejected unpriced spent")
	return slices.DeleteFunc(all, func(name string) bool {
		return !slices.ContainsFunc(v.Usage.Lines,
			func(line map[string]any) bool { value, is := line[name]; return is && value != "" })
	})
}

// Total returns the sum of the known values in a column of the spend.
func (v *View) Total(column string) (sum float64) {
	for _, line := range v.Usage.Lines {
		if n, known := line[column].(float64); known {
			sum += n
		}
	}
	return sum
}

// Money formats an amount in the currency of the file. Amounts below 1, and all amounts of the tab Money, have four
// decimals or two significant digits, so that rows add up.
func (v *View) Money(amount any) string {
	n, decimals := 0.0, 2
	switch value := reflect.Indirect(reflect.ValueOf(amount)); {
	case value.CanInt(): // status.Amount
		if n = float64(value.Int()) / 1e9; n < 0 {
			return "no price"
		}
	case value.IsValid(): // a balance may be negative
		n = value.Float()
	default:
		return "unknown"
	}
	switch {
	case n == 0:
		return v.Currency.With("0")
	case n < 1, v.Query.Get("tab") == "money":
		decimals = max(4, 1-int(math.Floor(math.Log10(math.Abs(n)))))
	}
	whole, part, _ := strings.Cut(strconv.FormatFloat(n, 'f', decimals, 64), ".")
	return v.Currency.With(count(whole) + "." + part)
}

// count formats a number with commas. It returns other values unchanged.
func count(n any) string {
	text := fmt.Sprint(n)
	if f, is := n.(float64); is { // of JSON
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	if _, err := strconv.ParseUint(text, 10, 64); err != nil {
		return text
	}
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return count(n) + " " + noun
}

func percent(f float64) string { return strconv.FormatFloat(f*100, 'f', 1, 64) + " %" }

func seconds(s float64) string {
	switch {
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 7200:
		return fmt.Sprintf("%.0f min", s/60)
	}
	return fmt.Sprintf("%.1f h", s/3600)
}

// moment formats a timestamp of the document, which is RFC 3339 in UTC.
func moment(stamp string) string {
	if len(stamp) < 19 {
		return "never"
	}
	return stamp[:10] + " " + stamp[11:19]
}
