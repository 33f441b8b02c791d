package provider

import (
	"context"
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
	long := strings.Repeat("7", 128)
	unclear := map[targets.Protocol][]string{ // the submit counts as bought
		targets.ProtocolInPHP: {
			`{"status":1,"request":"` + long + `7"}`, `{"status":1,"request":-5}`, `{"status":1,"request":1.5}`,
			`{"status":1,"request":1e9}`, `{"status":1,"request":0}`, `{"status":1,"request":"0"}`,
			`{"status":1,"request":""}`, `{"status":1,"request":"a b"}`, `{"status":1,"request":"a\nb"}`,
			`{"status":1,"request":null}`, `{"status":1,"request":true}`, `{"status":1,"request":["5"]}`,
			`{"status":1,"request":{"id":5}}`, `{"status":1}`, `{"status":2,"request":"5"}`, `{"status":0}`,
			`{"status":0,"request":"CAPCHA_NOT_READY"}`, `{"request":"5"}`, `{"status":1,"request":"712345`, `{}`, `[]`,
			`null`, `"OK"`, ``, `OK`, `OK|`, `12345`, `Bad gateway`, `BAD GATEWAY`, "ERROR_\n<html>",
			`<!doctype html><title>502</title>`,
		},
		targets.ProtocolCreateTask: {
			`{"errorId":0,"taskId":0}`, `{"errorId":0,"taskId":-77}`, `{"errorId":0,"taskId":7.7}`,
			`{"errorId":0,"taskId":null}`, `{"errorId":0,"taskId":{}}`, `{"errorId":0,"taskId":[77]}`,
			`{"errorId":0,"taskId":"a\tb"}`, `{"errorId":0}`, `{"errorId":0,"taskId":7`,
			`{"errorId":[],"errorCode":{}}`, `[{"errorId":0,"taskId":77}]`, `77`, ``, `OK|77`, `<html>`,
			`{"errorId":1,"errorCode":"CAPCHA_NOT_READY"}`,
		},
	}
	for api, replies := range map[targets.Protocol]map[string]string{
		targets.ProtocolInPHP: {
			`{"status":1,"request":"71234567890"}`:               "71234567890",
			`{"status":1,"request":71234567890}`:                 "71234567890",
			`{"status":"1","request":"0071234567"}`:              "0071234567",
			`{"status": 1, "request" : 12345678901234567890123}`: "12345678901234567890123",
			"\ufeff {\"status\":true,\"request\":\"5\"}\n":       "5",
			`{"status":1,"request":"5"}<br>a warning of PHP`:     "5",
			`{"status":1,"request":"` + long + `"}`:              long,
			"OK|0071234567":                                      "0071234567",
			"OK|0071234567\r\n":                                  "0071234567",
			"OK|12|34":                                           "12|34",
			"ERROR_PAGEURL":                                      "ERROR_PAGEURL",
			"MAX_USER_TURN":                                      capacity,
			"IP_BANNED":                                          "IP_BANNED",
			`{"status":0,"request":"ERROR_PAGEURL"}`:             "ERROR_PAGEURL",
			`{"status":1,"request":"ERROR_PAGEURL"}`:             "ERROR_PAGEURL",
		},
		targets.ProtocolCreateTask: {
			`{"errorId":0,"taskId":77}`:       "77",
			`{"errorId":"0","taskId":"0077"}`: "0077",
			`{"errorId":0,"errorCode":"","taskId":"6a2f41a3-c54c-fce8-32d2-0324e1c32e22","status":"idle"}`: "6a2f41a3-c54c-fce8-32d2-0324e1c32e22",
			`{"taskId":9007199254740993}`:                           "9007199254740993",
			`{"errorId":1,"errorCode":"ERROR_PAGEURL","taskId":77}`: "ERROR_PAGEURL",
			`{"errorId":14,"errorCode":null}`:                       "ERROR_NO_SUCH_METHOD",
			`{"errorCode":"ERROR_BAD_REQUEST"}`:                     "ERROR_BAD_REQUEST",
		},
	} {
		for _, reply := range unclear[api] {
			replies[reply] = unknown
		}
		for reply, want := range replies {
			c, _, _, says := newScriptedClient(t, targets.Provider{Protocol: api, Service: twoCaptcha})
			says(http.StatusOK, reply)
			testkit.Equal(t, reply, resultWord(c.Submit(context.Background(), Request{Identity: v2})), want)
		}
	}
}

func TestPollReplies(t *testing.T) {
	ent := v2
	ent.Enterprise = true
	for _, row := range []struct {
		api         targets.Protocol
		profile     string
		id          captcha.Identity
		reply, want string
		agent       string
	}{
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":"03AF|x"}`, "03AF|x", ""},
		{targets.ProtocolInPHP, captchaAI, v2, "OK|03AF|x", "03AF|x", ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":"03AF","useragent":"Mozilla/5.0 (X)"}`, "03AF", "Mozilla/5.0 (X)"},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":"03AF","user_agent":"Mozilla/5.0 (Y)"}`, "03AF", "Mozilla/5.0 (Y)"},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":"03AF","userAgent":"Mozilla/5.0 (Z)"}`, "03AF", "Mozilla/5.0 (Z)"},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":"03AF","user_agent":7}`, "03AF", ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":"03AF","user_agent":"a\nb"}`, "03AF", ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":"03AF","user_agent":"` + strings.Repeat("x", 16<<10+1) +
			`"}`, "03AF", ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":"03AF","result":"another"}`, "03AF", ""},
		{targets.ProtocolInPHP, captchaAI, ent, `{"status":1,"result":"03ENT","user_agent":"U"}`, "03ENT", "U"},
		{targets.ProtocolInPHP, captchaAI, ent, `{"status":1,"request":"OK","result":"03ENT"}`, "03ENT", ""},
		{targets.ProtocolInPHP, captchaAI, ent, `{"status":1,"request":"03ENT"}`, "03ENT", ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"result":"03ENT"}`, "03ENT", ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":0,"request":"CAPCHA_NOT_READY"}`, notReady, ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":"CAPCHA_NOT_READY"}`, notReady, ""},
		{targets.ProtocolInPHP, captchaAI, v2, "CAPCHA_NOT_READY", notReady, ""},
		{targets.ProtocolInPHP, captchaAI, v2, "CAPTCHA_NOT_READY", notReady, ""},
		{targets.ProtocolInPHP, captchaAI, v2, "ERROR_CAPTCHA_UNSOLVABLE", "ERROR_CAPTCHA_UNSOLVABLE", ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":0,"request":"ERROR_WRONG_CAPTCHA_ID"}`, "ERROR_WRONG_CAPTCHA_ID", ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":7}`, capacity, ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":"a token"}`, capacity, ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":{}}`, capacity, ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"request":""}`, capacity, ""},
		{targets.ProtocolInPHP, captchaAI, v2, `{"status":1,"reque`, capacity, ""},
		{targets.ProtocolInPHP, captchaAI, v2, ``, capacity, ""},
		{targets.ProtocolInPHP, captchaAI, v2, `OK|`, capacity, ""},
		{targets.ProtocolInPHP, captchaAI, v2, `<html>`, capacity, ""},

		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2},
			`{"errorId":0,"status":"ready","solution":{"gRecaptchaResponse":"03AF","userAgent":"U"}}`, "03AF", "U"},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV3},
			`{"errorId":0,"status":"ready","solution":{"gRecaptchaResponse":"03AF","token":"other"}}`, "03AF", ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.HCaptcha},
			`{"errorId":0,"status":"ready","solution":{"token":"P1_x"}}`, "P1_x", ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.Turnstile},
			`{"errorId":0,"status":"ready","solution":{"token":"0.x","gRecaptchaResponse":"other"}}`, "0.x", ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.Turnstile},
			`{"errorId":0,"status":"ready","solution":{"gRecaptchaResponse":"0.x"}}`, "0.x", ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2},
			`{"errorId":0,"status":"processing"}`, notReady, ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2},
			`{"errorId":0,"status":"idle","solution":{}}`, notReady, ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2},
			`{"errorId":1,"errorCode":"CAPTCHA_NOT_READY"}`, notReady, ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2},
			`{"errorId":12,"errorCode":"ERROR_CAPTCHA_UNSOLVABLE"}`, "ERROR_CAPTCHA_UNSOLVABLE", ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2},
			`{"errorId":0,"status":"failed"}`, "status failed", ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2},
			`{"errorId":0,"status":"ready"}`, capacity, ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2},
			`{"errorId":0,"status":"ready","solution":"03AF"}`, Unreadable, ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2},
			`{"errorId":0,"status":"ready","solution":{"gRecaptchaResponse":7}}`, Unreadable, ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2},
			`{"errorId":0,"status":"ready","solution":{"text":"x"}}`, Unreadable, ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2}, `{"errorId":0,"status":7}`, capacity, ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2}, `{"errorId":0}`, capacity, ""},
		{targets.ProtocolCreateTask, twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2},
			`{"errorId":0,"status":"ready","solu`, capacity, ""},
	} {
		c, _, _, says := newScriptedClient(t, targets.Provider{Protocol: row.api, Service: row.profile})
		says(http.StatusOK, row.reply)
		s, err := c.Poll(context.Background(), "1", row.id)
		if got := resultWord(s.Token, err); got != row.want || agentOf(s) != row.agent {
			t.Errorf("%s is taken for %q by %q, want %q by %q", row.reply, got, agentOf(s), row.want, row.agent)
		}
	}
}

func FuzzLegacy(f *testing.F) {
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
