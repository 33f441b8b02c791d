package provider

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// dialect is the form in which a protocol writes answers. Each protocol has one, in its own test file, and answers with
// their meaning in testdata/PROTOCOL.txt.
type dialect struct {
	api      targets.Protocol // set by dialects
	profile  string
	sold     string   // the answer to a submit or a poll
	granted  string   // the content of an answer to a successful call
	refusals []string // all forms of a refusal, with CODE in place of the code
}

// refused returns the first form of a refusal.
func (d dialect) refused(code string) string { return strings.ReplaceAll(d.refusals[0], "CODE", code) }

// spoken has the dialect of each protocol.
var spoken = map[targets.Protocol]dialect{}

// protocols returns the protocols of the file that a service can speak.
func protocols() (all []targets.Protocol) {
	field, _ := reflect.TypeFor[targets.Provider]().FieldByName("Protocol")
	for _, name := range strings.Fields(field.Tag.Get("oneof")) {
		if name != string(targets.ProtocolSimulated) { // which is in_php
			all = append(all, targets.Protocol(name))
		}
	}
	return all
}

// dialects returns the dialects in the order of the file.
func dialects() (all []dialect) {
	for _, name := range protocols() {
		if d, is := spoken[name]; is {
			d.api = name
			all = append(all, d)
		}
	}
	return all
}

// Each protocol of the file has an implementation, and a dialect, with which the tests of replies and secrets try it.
// If its submits have no callback, the file cannot have a callback_url.
func TestCompleteProtocols(t *testing.T) {
	for _, name := range protocols() {
		if _, is := spoken[name]; !is {
			t.Errorf("no test file has a dialect of %s: see inphp_test.go", name)
		}
		p := protocolOf(targets.Provider{Protocol: name})
		if p == nil {
			t.Errorf("%s has no row in protocolOf (client.go)", name)
			continue
		}
		const address = "https://callback.example.com"
		q, _ := p.submit(Submission{Identity: v2, CallbackURL: address})
		file := fmt.Appendf(nil, "providers: [{protocol: %s, callback_url: %q}]", name, address)
		_, err := targets.Parse("pools.yaml", file, targets.References{})
		if !strings.Contains(fmt.Sprint(q), "callback.example") && !strings.Contains(fmt.Sprint(err), "callback_url") {
			t.Errorf("a submit of %s has no callback: let Provider.validate (targets/providers.go) refuse callback_url", name)
		}
	}
}

// reply is an answer of a service in a file of testdata.
type reply struct {
	heading     []string // words of the last line that begins with #
	reply, want string
}

// repliesOf reads a file of testdata: below a heading, which begins with #, each line is an answer of a service, and
// the next line, which is indented, says what it means. A line that begins with go: is a string of Go.
// {9 times x} means nine times x.
func repliesOf(t testing.TB, file string) (all []reply) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	testkit.NoError(t, err)
	var heading []string
	repeated := regexp.MustCompile(`\{\d+ times \S+?\}`).ReplaceAllStringFunc(string(text), func(in string) string {
		digits, word, _ := strings.Cut(in[1:len(in)-1], " times ")
		n, _ := strconv.Atoi(digits)
		return strings.Repeat(word, n)
	})
	lines := strings.Split(repeated, "\n")
	for i, line := range lines {
		if title, is := strings.CutPrefix(line, "# "); is {
			heading = strings.Fields(title)
			continue
		}
		if line == "" || line[0] == '\t' {
			continue
		}
		r := reply{heading, line, strings.TrimPrefix(lines[i+1], "\t")}
		if quoted, is := strings.CutPrefix(line, "go:"); is {
			r.reply, err = strconv.Unquote(quoted)
			testkit.NoError(t, err)
		}
		all = append(all, r)
	}
	return all
}

// checkReplies compares what the answers of a file mean with the outcomes.
func checkReplies(t *testing.T, file string, outcome func(heading []string, reply string) string) {
	t.Helper()
	for _, r := range repliesOf(t, file) {
		testkit.Equal(t, fmt.Sprint(r.heading, " ", r.reply), outcome(r.heading, r.reply), r.want)
	}
}

// In the tables of replies, these texts mean outcomes.
const (
	unknown  = "(unknown)"   // the submit counts as bought
	capacity = "(capacity)"  // the poll must be repeated
	notReady = "(not ready)" // the task is not ready
)

// Each protocol reads the answers of testdata/PROTOCOL.txt. Their headings are `submit`, `poll SERVICE TYPE`, perhaps
// with the word enterprise, `balance`, `report STATUS`, and `hostile`, which is of another test. Solutions of each type
// are read in every known form; incomplete ones are rejected.
func TestReplies(t *testing.T) {
	for _, d := range dialects() {
		tested := map[string]bool{}
		for _, r := range repliesOf(t, string(d.api)+".txt") {
			var got string
			provider := targets.Provider{Protocol: d.api, Service: twoCaptcha}
			switch r.heading[0] {
			case submit:
				c, _, _, says := newScriptedClient(t, provider)
				says(http.StatusOK, r.reply)
				task, err := c.Submit(t.Context(), Submission{Identity: v2})
				got = resultWord("task "+task, err)
			case poll:
				provider.Service = r.heading[1]
				id := captcha.Identity{Type: captcha.Type(r.heading[2]), Enterprise: len(r.heading) == 4}
				got = pollReply(t, provider, id, r.reply)
			case balance:
				c, _, _, says := newScriptedClient(t, targets.Provider{Protocol: d.api, Balance: true})
				says(http.StatusOK, r.reply)
				err := c.ReadBalance(t.Context())
				if got = resultWord("", err); err == nil {
					got = fmt.Sprint(*c.Balance())
				}
			case report:
				status, err := strconv.Atoi(r.heading[1])
				testkit.NoError(t, err)
				got = reportReply(t, provider, status, r.reply)
			default:
				testkit.Equal(t, "heading", r.heading[0], "hostile")
				continue
			}
			tested[r.heading[0]] = true
			testkit.Equal(t, fmt.Sprint(d.api, " ", r.heading, " ", r.reply), got, r.want)
		}
		for _, action := range []string{submit, poll, balance} {
			testkit.Equal(t, string(d.api)+" has answers to a "+action, tested[action], true)
		}
	}
}

// pollReply returns the outcome of a poll with this reply.
func pollReply(t *testing.T, provider targets.Provider, id captcha.Identity, reply string) string {
	t.Helper()
	c, _, _, says := newScriptedClient(t, provider)
	says(http.StatusOK, reply)
	s, err := c.Poll(t.Context(), "1", id)
	if err != nil && strings.Contains(err.Error(), "jordan") {
		t.Errorf("an answer is shown: %v", err)
	}
	return outcomeOf(id.Type, s, err)
}

// reportReply returns the outcome of a report with this reply.
func reportReply(t *testing.T, provider targets.Provider, status int, reply string) string {
	t.Helper()
	c, _, _, says := newScriptedClient(t, provider)
	says(status, reply)
	err := c.Report(t.Context(), "5", captcha.Turnstile, false)
	if err == nil {
		return "recorded"
	}
	e := faultOf(t, err)
	testkit.Equal(t, reply+": unknown", e.Unknown, false)
	return e.Class.String() + " " + e.Code
}

// resultWord describes the result of a call by its text, or by the class and code of its error.
func resultWord(text string, err error) string {
	var e *Error
	switch {
	case err == nil:
		return text
	case errors.Is(err, ErrNotReady):
		return notReady
	case !errors.As(err, &e):
		return "(other) " + err.Error()
	case e.Unknown:
		return unknown
	case e.Class == Capacity && !strings.HasPrefix(e.Code, "ERROR"):
		return capacity
	}
	return e.Code
}

// outcomeOf describes the result of a poll, with all texts of a solution that are passed on.
func outcomeOf(kind captcha.Type, s Solution, err error) string {
	if err != nil {
		return resultWord("", err)
	}
	text := "token " + s.Token + besides(s)
	if values := captcha.Named(kind, s.Token); values != nil {
		text += fmt.Sprint(", with ", values)
	}
	return text
}

// besides describes what a solution has besides its token.
func besides(s Solution) (text string) {
	if s.Extra != "" {
		text = ", and " + string(s.Extra)
	}
	if !s.Expires.IsZero() {
		text += fmt.Sprint(", until ", s.Expires.UnixMilli())
	}
	return text
}

// In each protocol a reply of any bytes is unreadable, a refusal, not ready or granted. The text of a granted one is
// valid.
func FuzzReplies(f *testing.F) {
	for _, d := range dialects() {
		for _, r := range repliesOf(f, string(d.api)+".txt") {
			f.Add([]byte(r.reply))
		}
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		for _, name := range protocols() {
			p := protocolOf(targets.Provider{Protocol: name, Service: captchaAI, Key: canary})
			checkReply(t, p, query{action: submit}, reply, func(text string) bool { return isGraphic(text, longTask) })
			for _, action := range []string{balance, threads} {
				checkReply(t, p, query{action: action}, reply, nil)
			}
			for _, kind := range captcha.SolvableTypes() {
				id := captcha.Identity{Type: kind, Enterprise: kind == captcha.RecaptchaV2}
				checkReply(t, p, query{action: poll, identity: id}, reply,
					func(text string) bool { return IsAnswer(kind, text) })
			}
		}
	})
}

// checkReply checks the invariants of a parsed reply. The function valid tests the text of a granted one.
func checkReply(t *testing.T, p protocol, q query, reply []byte, valid func(text string) bool) {
	t.Helper()
	a, err := p.read(q, reply)
	var g malformedReply
	switch {
	case err != nil:
		if !errors.As(err, &g) || a != (answer{}) {
			t.Fatalf("error %v with answer %+v", err, a)
		}
	case a.code != "":
		if a.text != "" || a.notReady {
			t.Fatalf("refused and granted: %+v", a)
		}
		if shown := clean(a.code, longCode, canary); len(shown) > longCode || captcha.Printable(shown) != shown ||
			strings.Contains(shown, canary) {
			t.Fatalf("code %q is shown as %q", a.code, shown)
		}
	case a.notReady:
		if a.text != "" {
			t.Fatalf("not ready and granted: %+v", a)
		}
	case valid != nil && !valid(a.text):
		t.Fatalf("granted %q to %s of %s", a.text, q.action, q.identity.Type)
	}
}
