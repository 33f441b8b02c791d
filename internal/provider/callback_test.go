package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

const token = "03AFcWeA4711-the-token_of.a|task"

func valuesOf(t testing.TB, query string) url.Values {
	t.Helper()
	v, err := url.ParseQuery(query)
	testkit.NoError(t, err)
	return v
}

// verdictOf describes a callback about a reCAPTCHA: by its token, or by the class and code of
// its error.
func verdictOf(c Callback, err error) string {
	var e *Error
	switch {
	case errors.Is(err, ErrCallback):
		return unreadableVerdict
	case err != nil:
		return "(other) " + err.Error()
	case errors.As(c.Err, &e):
		return e.Class.String() + " " + e.Code
	case c.Err != nil:
		return "(other) " + c.Err.Error()
	case !IsAnswer(captcha.RecaptchaV2, c.Solution.Token):
		return unreadableVerdict
	}
	return c.Solution.Token
}

func TestCallbackForms(t *testing.T) {
	esc := url.QueryEscape(token)
	const ua = "Mozilla/5.0 (X11)"
	for _, row := range []struct {
		name, query, body string
		task, agent       string
	}{
		{"a GET of captchaai", "id=0071234567&code=" + esc, "", "0071234567", ""},
		{"a GET of ucaptcha", "captcha_id=6a2f41a3-c54c&status=1&code=" + esc, "", "6a2f41a3-c54c", ""},
		{"without an id", "code=" + esc, "", "", ""},
		{"an id of null", "", `{"id":null,"code":"` + token + `"}`, "", ""},
		{"an id of 0", "", `{"id":0,"code":"` + token + `"}`, "", ""},
		{"with a user agent", "id=5&useragent=" + url.QueryEscape(ua) + "&code=" + esc, "", "5", ua},
		{"with an odd user agent", "id=5&user_agent=a%0Ab&code=" + esc, "", "5", ""},
		{"with too long a user agent", "id=5&user_agent=" + strings.Repeat("x", 16<<10+1) + "&code=" + esc, "", "5", ""},
		{"said twice", "id=5&id=5&captcha_id=5&code=" + esc + "&code=" + esc, "", "5", ""},
		{"with unknown fields", "x=1&x=2&x=%ff&id=5&code=" + esc, "", "5", ""},
		{"a form of 2captcha", "", "id=71234567890&code=" + esc, "71234567890", ""},
		{"a form with a charset", "", "id=5&code=" + esc + "\r\n", "5", ""},
		{"a form without a type", "", "id=5&code=" + esc, "5", ""},
		{"a form over a query", "id=6&code=another&status=0", "id=5&code=" + esc, "5", ""},
		{"a form beside a query", "id=5", "code=" + esc, "", ""},
		{"a type without a body", "id=5&code=" + esc, " \n", "5", ""},
		{"JSON", "", `{"id":"0071234567","code":"` + token + `","userAgent":"` + ua + `"}`, "0071234567", ua},
		{"JSON with a number", "", `{"id":9007199254740993,"code":"` + token + `"}`, "9007199254740993", ""},
		{"JSON without a type", "", " \n{\"id\":5,\"code\":\"" + token + `"}`, "5", ""},
		{"JSON after a mark", "", "\ufeff{\"id\":5,\"code\":\"" + token + `"}`, "5", ""},
		{"JSON over a query", "code=ERROR_X&id=7", `{"id":5,"code":"` + token + `"}`, "5", ""},
		{"a result", "",
			`{"errorId":0,"status":"ready","taskId":77,"solution":{"gRecaptchaResponse":"` + token + `","userAgent":"` + ua +
				`"},"cost":"0.002"}`, "77", ua},
		{"a result in text", "",
			`{"errorId":"0","errorCode":"","status":"ready","taskId":"6a2f41a3","solution":{"token":"` + token + `"}}`, "6a2f41a3", ""},
		{"a result with both names", "",
			`{"taskId":7,"solution":{"token":"` + token + `","gRecaptchaResponse":"` + token +
				`","respKey":{"a":[1]}},"userAgent":7}`, "7", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := ReadCallback(valuesOf(t, row.query), []byte(row.body))
			if got := verdictOf(c, err); got != token || c.Task != row.task || agentOf(c.Solution) != row.agent {
				t.Errorf("%q of task %q by %q (%v)", got, c.Task, agentOf(c.Solution), err)
			}
		})
	}
}

// unreadableVerdict is the verdict on an invalid pingback.
const unreadableVerdict = "(unreadable)"

type verdict struct{ query, body, want string }

// verdicts lists pingbacks without a token.
var verdicts = []verdict{
	// These pingbacks have an error code in place of a token.
	{"id=5&code=ERROR_CAPTCHA_UNSOLVABLE", "", "task ERROR_CAPTCHA_UNSOLVABLE"},
	{"code=ERROR_CAPTCHA_UNSOLVABLE", "", "task ERROR_CAPTCHA_UNSOLVABLE"},
	{"id=5&code=ERROR_BAD_TOKEN_OR_PAGEURL", "", "parameters ERROR_BAD_TOKEN_OR_PAGEURL"},
	{"id=5&code=ERROR_ZERO_BALANCE", "", "task ERROR_ZERO_BALANCE"},
	{"id=5&code=ERROR_WRONG_USER_KEY", "", "task ERROR_WRONG_USER_KEY"},
	{"id=5&code=ERROR_NO_SLOT_AVAILABLE", "", "task ERROR_NO_SLOT_AVAILABLE"},
	{"id=5&code=IP_BANNED", "", "task IP_BANNED"},
	{"id=5&code=ERROR:%201001", "", "task ERROR: 1001"},
	{"id=5&code=ERROR_NEVER+heard%20of+it%C3%A9", "", "task ERROR_NEVER heard of it"},
	{"id=5&code=ERROR_" + strings.Repeat("X", 500), "", "task ERROR_" + strings.Repeat("X", longCode-6)},
	{"id=5&code=https%3A%2F%2Fexample.com%2Fhelp", "", "parameters https://example.com/help"},
	{"captcha_id=5&status=0", "", "task status 0"},
	{"", "id=5&status=failed", "task status failed"},
	{"", `{"id":5,"code":"ERROR_PAGEURL"}`, "parameters ERROR_PAGEURL"},
	{"", `{"errorId":12,"errorCode":"ERROR_CAPTCHA_UNSOLVABLE","errorDescription":"x"}`, "task ERROR_CAPTCHA_UNSOLVABLE"},
	{"", `{"errorId":12,"taskId":0}`, "task ERROR_CAPTCHA_UNSOLVABLE"},
	{"", `{"errorId":999}`, "task errorId 999"},
	{"", `{"errorCode":"ERROR_X","status":"processing"}`, "task ERROR_X"},
	{"", `{"errorId":0,"status":"failed","taskId":5}`, "task status failed"},
	{"", `{"errorId":1,"errorCode":"ERROR_X","solution":{"token":"` + token + `"}}`, unreadableVerdict},
	{"", `{"errorId":1,"errorCode":"no ` + token + `","solution":{"token":"` + token + `"}}`, unreadableVerdict},
	{"", `{"errorId":1,"errorCode":"é"}`, "task unprintable"},
	{"", `{"errorId":1,"errorCode":"a\u0007b"}`, "task ab"},
	{"code=" + url.QueryEscape(token), `{"errorId":1,"errorCode":"ERROR_X"}`, "task ERROR_X"},

	{"id=5&code=tok", "<html>", unreadableVerdict},
}

// unreadableQueries and unreadableBodies are pingbacks without reliable content.
var (
	unreadableQueries = []string{
		"", "id=5", "id=5&code=", "status=0", "id=5&status=1", "id=5&code=CAPCHA_NOT_READY",
		"id=5&status=0&code=CAPTCHA_NOT_READY", "id=5&status=processing&code=tok", "id=5&code=a%20b", "id=5&code=a+b",
		"id=5&code=a%00b", "id=5&code=tok%0A", "id=5&code=t%C3%B6k", "id=5&code=%ff", "id=a%20b&code=tok", "id=a%1fb&code=tok", "id=a%20b&code=ERROR_X",
		"id=" + strings.Repeat("7", longTask+1) + "&code=tok", "code=" + strings.Repeat("x", 65537),
	}
	unreadableBodies = []string{
		"id=5&code=%zz", "id=5;code=tok", "id=5&code=\xff", "--x--", `{"id":5,"code":"tok"`, `{"id":5,"code":"tok"]`,
		`{"id":5,"code":"tok"}}`, `{"id":5,"code":"tok"} {"id":6}`, `[{"id":5,"code":"tok"}]`, `null`,
		"{\"id\":5,\"code\":\"\xff\"}", `{"id":5,"code":"\ud800"}`, `{"id":5,"code":7}`, `{"id":5,"code":{}}`,
		`{"id":-5,"code":"tok"}`, `{"id":5.5,"code":"tok"}`, `{"id":5,"id":6,"code":"tok"}`, `{"id":5,"code":"tok","Code":"tik"}`,
		`{"taskId":5,"status":"ready","solution":{"token":"a"},"solution":{"token":"b"}}`,
		`{"taskId":5,"status":"ready","solution":{"token":7}}`, `{"taskId":5,"status":"ready","solution":"tok"}`,
		`{"taskId":5,"status":"ready","solution":["tok"]}`,
		`{"taskId":5,"status":"ready","solution":{"text":"two words"}}`,
		`{"taskId":5,"status":"ready","solution":{"solution":{"token":"tok"}}}`,
		`{"taskId":5,"status":"ready","solution":null}`, `{"taskId":5,"errorId":0,"status":"processing"}`,
		`{"taskId":5,"status":"idle","solution":{"token":"tok"}}`, `{"errorId":1,"errorCode":"CAPTCHA_NOT_READY"}`,
		`{"errorId":"none","code":"tok"}`, `{"errorId":-1,"code":"tok"}`, `{"status":0,"request":"CAPCHA_NOT_READY"}`,
		`{"id":5,"code":"` + strings.Repeat("x", 65536) + `"}`, strings.Repeat(`{"solution":`, 5000),
		strings.Repeat(`{"a":`, 13000),
	}
)

// ReadCallback reads the solutions of each type, in all forms in which services send them.
func TestCallbackOfEachType(t *testing.T) {
	const list = "challenge:c,validate:v,seccode:v|jordan"
	const object = `{"geetest_challenge":"c","geetest_validate":"v","geetest_seccode":"v|jordan"}`
	const v4 = `{"captcha_id":"i","lot_number":"l","pass_token":"p","gen_time":1767323045,"captcha_output":"o"}`
	for _, row := range []struct {
		kind        captcha.Type
		query, body string
		want        string
	}{
		{captcha.GeeTest, "id=5&code=" + url.QueryEscape(list), "", list},
		{captcha.GeeTest, "", "id=5&code=" + url.QueryEscape(object), object},
		{captcha.GeeTest, "", `{"taskId":5,"status":"ready","solution":{ "challenge":"c", "validate":"v", "seccode":"s" }}`,
			`{"challenge":"c","validate":"v","seccode":"s"}`},
		{captcha.GeeTestV4, "id=5", `{"taskId":5,"errorId":0,"status":"ready","solution":` + v4 + `}`, v4},
		{captcha.GeeTest, "", `{"taskId":5,"status":"ready","solution":{"challenge":"c","validate":"v"}}`, unreadableVerdict},
		{captcha.GeeTest, "", `{"taskId":5,"status":"ready","solution":` + v4 + `}`, "(not of the type)"},
		{captcha.GeeTest, "code=tok", `{"taskId":5,"status":"ready","solution":{"challenge":"c","validate":"v","seccode":"s"}}`, `{"challenge":"c","validate":"v","seccode":"s"}`},
		{captcha.GeeTest, "id=5&code=" + url.QueryEscape("challenge:c,validate:v"), "", "(not of the type)"},
		{captcha.Image, "id=5&code=two+w%C3%B6rds", "", "two wörds"},
		{captcha.Image, "", `{"taskId":5,"status":"ready","solution":{"text":"two wörds"}}`, "two wörds"},
		{captcha.Image, "id=5&code=a%0Ab", "", unreadableVerdict},
		{captcha.Image, "id=5&code=+", "", unreadableVerdict},
		{captcha.Image, "id=5&code=%EF%BF%BD", "", unreadableVerdict},
		{captcha.Image, "id=5&code=" + strings.Repeat("x", longText+1), "", "(not of the type)"},
		{captcha.Turnstile, "id=5&code=two+words", "", "(not of the type)"},
	} {
		c, err := ReadCallback(valuesOf(t, row.query), []byte(row.body))
		got := c.Solution.Token
		switch {
		case errors.Is(err, ErrCallback):
			got = unreadableVerdict
		case err == nil && c.Err == nil && !IsAnswer(row.kind, got):
			got = "(not of the type)"
		}
		if got != row.want || got == c.Solution.Token && c.Task != "5" {
			t.Errorf("%s %s %s: %q of task %q (%v, %v), want %q", row.kind, row.query, row.body, got, c.Task, err, c.Err, row.want)
		}
	}
	// A refusal with a value, which its code quotes, is unreadable.
	c, err := ReadCallback(nil, []byte(`{"errorId":1,"errorCode":"ERROR_X no long-pass-token-4711",`+
		`"solution":{"captcha_id":"i","lot_number":"l","pass_token":"long-pass-token-4711","gen_time":"1","captcha_output":"o"}}`))
	testkit.Equal(t, "a refusal", verdictOf(c, err), unreadableVerdict)
}

func TestCallbackVerdicts(t *testing.T) {
	rows := verdicts
	for _, query := range unreadableQueries {
		rows = append(rows, verdict{query, "", unreadableVerdict})
	}
	for _, body := range unreadableBodies {
		rows = append(rows, verdict{"", body, unreadableVerdict})
	}
	for _, row := range rows {
		c, err := ReadCallback(valuesOf(t, row.query), []byte(row.body))
		if got := verdictOf(c, err); got != row.want {
			t.Errorf("%.200s %.200s: %q, want %q", row.query, row.body, got, row.want)
		}
		if c.Err != nil && c.Solution != (Solution{}) || err != nil && c != (Callback{}) {
			t.Errorf("%.200s %.200s: %+v beside an error", row.query, row.body, c)
		}
	}
}

func FuzzReadCallback(f *testing.F) {
	for _, seed := range []struct{ query, body string }{
		{"id=5&code=" + url.QueryEscape(token), ""},
		{"captcha_id=5&status=0", ""},
		{"id=5", "code=ERROR_X&useragent=U"},
		{"", `{"id":5,"code":"` + token + `","id":"5"}`},
		{"", `{"taskId":5,"errorId":0,"status":"ready","solution":{"gRecaptchaResponse":"tok","userAgent":"U"}}`},
		{"code=x", `{"errorId":12,"errorCode":"ERROR_X tok"}`},
		{"", `{"taskId":5,"status":"ready","solution":{"challenge":"c","validate":"v","seccode":"s"}}`},
		{"", `{"taskId":5,"status":"ready","solution":{"text":"zwei wörter"}}`},
		{"", "id=5&code=%zz"},
	} {
		f.Add(seed.query, []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, query string, body []byte) {
		values, _ := url.ParseQuery(query) // the part of the query that can be parsed
		c, err := ReadCallback(values, body)
		if err != nil {
			if !errors.Is(err, ErrCallback) || c != (Callback{}) {
				t.Fatalf("%+v beside %v", c, err)
			}
			// The error contains only texts of this package, so it cannot contain a token.
			if !strings.HasPrefix(err.Error(), ErrCallback.Error()+": ") || !hasOwnCause(err) {
				t.Fatalf("error %q", err)
			}
			return
		}
		if c.Task != "" && !isGraphic(c.Task, longTask) {
			t.Fatalf("task %q", c.Task)
		}
		if c.Err == nil {
			if !captcha.IsReadable(c.Solution.Token, maxReply) {
				t.Fatalf("solution %+v", c.Solution)
			}
			return
		}
		e := faultOf(t, c.Err)
		if c.Solution != (Solution{}) || e.Class != Task && e.Class != Parameters ||
			e.Code == "" || len(e.Code) > longCode || captcha.Printable(e.Code) != e.Code {
			t.Fatalf("%+v with %+v", c, e)
		}
		var doc struct{ Solution struct{ Token string } }
		if json.Unmarshal(body, &doc) == nil && len(doc.Solution.Token) >= longCode &&
			strings.Contains(fmt.Sprint(c.Err), doc.Solution.Token) {
			t.Fatalf("the error shows the token: %v", c.Err)
		}
	})
}

// hasOwnCause reports whether the cause of an error is one of this package's texts.
func hasOwnCause(err error) bool {
	cause, _ := strings.CutPrefix(err.Error(), ErrCallback.Error()+": ")
	return slices.Contains([]string{
		"too long", "not a well-formed form", "not a well-formed JSON object", "the id is not a task id", "the task is not ready",
		"a refusal with a token", "no readable token",
	}, cause)
}
