package provider

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// received is a request that reached the server.
type received struct {
	method, uri, kind, body string
}

// recorder stores each request and always gives the same answer.
func recorder(t *testing.T, into *[]received, reply string) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		*into = append(*into, received{r.Method, r.RequestURI, r.Header.Get("Content-Type"), string(body)})
		_, _ = w.Write([]byte(reply))
	}
}

// In the tables of replies, these texts mean outcomes.
const (
	unknown  = "(unknown)"   // the submit counts as bought
	capacity = "(capacity)"  // the poll must be repeated
	notReady = "(not ready)" // the task is not ready
)

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

func TestSubmitReplies(t *testing.T) {
	checkReplies(t, "submits.txt", func(heading []string, reply string) string {
		c, _, _, says := newScriptedClient(t, targets.Provider{Protocol: targets.Protocol(heading[0]), Service: twoCaptcha})
		says(http.StatusOK, reply)
		task, err := c.Submit(t.Context(), Request{Identity: v2})
		return resultWord("task "+task, err)
	})
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

// Solutions of each type are read in every known form. Incomplete solutions are rejected.
func TestPollReplies(t *testing.T) {
	checkReplies(t, "polls.txt", func(heading []string, reply string) string {
		id := captcha.Identity{Type: captcha.Type(heading[2]), Enterprise: len(heading) == 4}
		return pollReply(t, targets.Provider{Protocol: targets.Protocol(heading[0]), Service: heading[1]}, id, reply)
	})
	longest := strings.Repeat("x", longText)
	for _, row := range []struct {
		kind        captcha.Type
		reply, want string
	}{
		{captcha.RecaptchaV2, `{"status":1,"request":"03AF","user_agent":"` + strings.Repeat("x", 16<<10+1) + `"}`,
			"token 03AF"},
		{captcha.Image, `{"status":1,"request":"` + longest + `"}`, "token " + longest},
		{captcha.Image, `{"status":1,"request":"` + longest + `x"}`, capacity},
	} {
		testkit.Equal(t, "a long reply", pollReply(t, targets.Provider{}, captcha.Identity{Type: row.kind}, row.reply),
			row.want)
	}
}

func FuzzInPHP(f *testing.F) {
	for _, seed := range []string{
		`{"status":1,"request":"5","user_agent":"U"}`, `{"status":0,"request":"ERROR_X"}`, `{"status":1,"result":"t"}`,
		"OK|challenge:c,validate:v,seccode:s", `{"status":1,"request":{"challenge":"c","validate":"v","seccode":"s"}}`,
		`{"status":1,"challenge":"c","validate":"v","seccode":"s"}`, "OK|zwei wörter",
		"OK|5", "ERROR: 1001", "CAPCHA_NOT_READY", "<html>", `{"threads":5}`, "600", `{"status":1,"request":-1e9}`,
	} {
		f.Add([]byte(seed))
	}
	l := inPHP{key: canary, profile: captchaAI}
	f.Fuzz(func(t *testing.T, reply []byte) {
		checkAnswer(t, l, query{action: submit}, reply, longTask)
		checkAnswer(t, l, query{action: poll, identity: captcha.Identity{Enterprise: true}}, reply, maxReply)
		for _, kind := range captcha.SolvableTypes() {
			checkSolution(t, l, reply, kind)
		}
		checkAnswer(t, l, query{action: balance}, reply, 0)
		checkAnswer(t, l, query{action: threads}, reply, 0)
	})
}

// checkAnswer checks the invariants of a parsed reply. The reply is either unreadable, refused,
// not ready or granted. The value of a granted reply is valid.
func checkAnswer(t *testing.T, p protocol, q query, reply []byte, longest int) {
	t.Helper()
	if a, granted := checkForm(t, p, q, reply); granted && longest > 0 && !isGraphic(a.text, longest) {
		t.Fatalf("granted %q", a.text)
	}
}

// checkSolution does the same as checkAnswer, for a poll of a task of the given type.
func checkSolution(t *testing.T, p protocol, reply []byte, kind captcha.Type) {
	t.Helper()
	if a, granted := checkForm(t, p, query{action: poll, identity: captcha.Identity{Type: kind}}, reply); granted &&
		!IsAnswer(kind, a.text) {
		t.Fatalf("granted %q to %s", a.text, kind)
	}
}

func checkForm(t *testing.T, p protocol, q query, reply []byte) (a answer, granted bool) {
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
	default:
		return a, true
	}
	return a, false
}
