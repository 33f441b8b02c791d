package simulated

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

const (
	testHex = "81dc9bdb52d04dc20036dbd8313ed055"
	testPNG = "\x89PNG\r\n\x1a\n"
)

// testPicture is a picture's base64.
func testPicture(bytes int) string {
	return base64.StdEncoding.EncodeToString([]byte(testPNG + strings.Repeat("\x00", bytes-len(testPNG))))
}

// submit is a legacy submit of a method, by POST.
func submit(t *testing.T, s *Service, fields string) string {
	t.Helper()
	return ask(t, s, http.MethodPost, "/in.php", "application/x-www-form-urlencoded", "key=k&"+fields)
}

// What a submit of each type lacks is refused in the protocol's words.
func TestEachTypeIsStrict(t *testing.T) {
	page, picture := "&pageurl="+url.QueryEscape(testPage), url.QueryEscape(testPicture(100))
	for _, c := range []struct {
		flavour              Flavour
		legacy, tasks        string // the task's fields; "" = not tried
		wantLegacy, wantTask string
	}{
		{CaptchaAI, "method=geetest&challenge=c" + page, `"type":"GeeTestTask","challenge":"c"`, wire.CodeBadParams, wire.CodeBadParams},
		{CaptchaAI, "method=geetest&gt=short&challenge=c" + page, `"type":"GeeTestTaskProxyless","gt":"short","challenge":"c"`, wire.CodeBadParams, wire.CodeBadParams},
		{CaptchaAI, "method=geetest&gt=" + testHex + page, `"type":"GeeTestTaskProxyless","gt":"` + testHex + `"`, wire.CodeBadParams, wire.CodeBadParams},
		{CaptchaAI, "method=geetest&challenge=c&gt=" + testHex, "", wire.CodePageurl, ""},
		{CaptchaAI, "method=geetest&version=4&gt=x" + page, `"type":"GeeTestTaskProxyless","version":4,"gt":"x"`, wire.CodeCaptchaID, wire.CodeCaptchaID},
		{TwoCaptcha, "method=geetest&version=4&gt=" + testHex + page, `"type":"GeeTestTaskProxyless","version":4,"gt":"` + testHex + `"`, wire.CodeBadParams, wire.CodeCaptchaID},
		{TwoCaptcha, "method=geetest_v4" + page, `"type":"GeeTestTaskProxyless","version":4`, wire.CodeCaptchaID, wire.CodeCaptchaID},
		{TwoCaptcha, "method=base64", `"type":"ImageToTextTask"`, wire.CodeNoImage, wire.CodeNoImage},
		{TwoCaptcha, "method=base64&body=%25", `"type":"ImageToTextTask","body":"%"`, wire.CodeUpload, wire.CodeImageKind},
		{TwoCaptcha, "method=base64&body=" + url.QueryEscape(testPicture(100_001)), `"type":"ImageToTextTask","body":"` + testPicture(100_001) + `"`, wire.CodeTooBig, wire.CodeTooBig},
		{CaptchaAI, "method=base64&body=" + url.QueryEscape(testPicture(1<<20+1)), `"type":"ImageToTextTask","body":"` + testPicture(1<<20+1) + `"`, wire.CodeTooBig, wire.CodeTooBig},
		{CaptchaAI, "method=base64&body=aGVsbG8%3D", `"type":"ImageToTextTask","body":"aGVsbG8="`, wire.CodeImageKind, wire.CodeImageKind},
		{CaptchaAI, "method=base64&numeric=5&body=" + picture, `"type":"ImageToTextTask","numeric":5,"body":"` + testPicture(100) + `"`, wire.CodeBadParams, wire.CodeBadParams},
		{CaptchaAI, "method=base64&min_len=x&body=" + picture, `"type":"ImageToTextTask","minLength":-1,"body":"` + testPicture(100) + `"`, wire.CodeBadParams, wire.CodeBadParams},
		{CaptchaAI, "method=base64&min_len=3&max_len=2&body=" + picture, `"type":"ImageToTextTask","minLength":3,"maxLength":2,"body":"` + testPicture(100) + `"`, wire.CodeBadParams, wire.CodeBadParams},
		{CaptchaAI, "method=base64&phrase=yes&body=" + picture, `"type":"ImageToTextTaskProxyless","body":"` + testPicture(100) + `"`, wire.CodeBadParams, wire.CodeNotSupported},
		{CaptchaAI, "method=rotate", `"type":"ImageToTextEnterpriseTask"`, wire.CodeBadParams, wire.CodeNotSupported},
	} {
		s := New(with(func(o *Options) { o.Flavour = c.flavour }))
		if got := submit(t, s, c.legacy); got != c.wantLegacy {
			t.Errorf("%.60s: %s, want %s", c.legacy, got, c.wantLegacy)
		}
		if c.tasks != "" {
			if got := post(t, s, "/createTask", create(c.tasks)); got["errorCode"] != c.wantTask || got["errorId"] == 0.0 {
				t.Errorf("%.60s: %v, want %s", c.tasks, got, c.wantTask)
			}
		}
		want(t, "sold", s.Totals().Submitted, 0)
	}
	s := New(constant)
	body := `{"clientKey":"k","languagePool":"de","task":{"type":"ImageToTextTask","body":"` + testPicture(100) + `"}}`
	want(t, "an unknown pool", post(t, s, "/createTask", body)["errorCode"], any(wire.CodeBadParams))
	for code, id := range map[string]int{wire.CodeNoImage: 3, wire.CodeTooBig: 4, wire.CodeImageKind: 15} {
		want(t, code, wire.ErrorID(code), id)
	}
}

// A GeeTest's values are written in the shape that was chosen, in plain text and in JSON.
func TestShapes(t *testing.T) {
	for _, row := range []struct {
		flavour     Flavour
		shape       Shape
		plain, json string // how the answers begin
	}{
		{CaptchaAI, "", "OK|challenge:ck7,validate:SIMULATED.geetest.", `{"status":1,"request":"challenge:ck7,validate:SIMULATED.`},
		{CaptchaAI, ShapeText, `OK|{"challenge":"ck7","seccode":"SIMULATED.`, `{"status":1,"request":"{\"challenge\":\"ck7\",`},
		{CaptchaAI, ShapeObject, `OK|{"challenge":"ck7","seccode":"SIMULATED.`, `{"status":1,"request":{"challenge":"ck7","seccode":"SIM`},
		{CaptchaAI, ShapeFields, `OK|{"challenge":"ck7","seccode":"SIMULATED.`, `{"challenge":"ck7","seccode":"SIMULATED.`},
		{TwoCaptcha, "", `OK|{"geetest_challenge":"ck7",`, `{"status":1,"request":{"geetest_challenge":"ck7",`},
		{TwoCaptcha, ShapeList, `OK|geetest_challenge:ck7,geetest_validate:`, `{"status":1,"request":"geetest_challenge:ck7,`},
		{TwoCaptcha, ShapeFields, `OK|{"geetest_challenge":"ck7",`, `{"geetest_challenge":"ck7",`},
	} {
		s := New(Options{Flavour: row.flavour, Shape: row.shape, Sigma: 0.1, Ledger: true})
		id, _ := strings.CutPrefix(submit(t, s, "method=geetest&challenge=c&gt="+testHex+"&pageurl="+url.QueryEscape(testPage)), "OK|")
		plain := poll(t, s, id)
		if !strings.HasPrefix(plain, row.plain) || plain != "OK|"+s.Sold()[0].Token {
			t.Errorf("%s %s: %s", row.flavour, row.shape, plain)
		}
		answered := get(t, s, "/res.php?key=k&action=get&json=1&id="+id)
		if !strings.HasPrefix(answered, row.json) || decode(t, answered)["status"] != 1.0 {
			t.Errorf("%s %s: %s", row.flavour, row.shape, answered)
		}
		if owner, ok := IdentityOf(answered); !ok || owner != s.Sold()[0].ID {
			t.Errorf("%s is of %s, %v", answered, owner, ok)
		}
	}
	// The tasks protocol has one shape, and names of its own.
	s := New(Options{Flavour: TwoCaptcha, Sigma: 0.1, UserAgent: "U"})
	for fields, names := range map[string][]string{
		`"type":"GeeTestTaskProxyless","gt":"` + testHex + `","challenge":"c"`:                        valueOrder[captcha.GeeTest],
		`"type":"GeeTestTaskProxyless","version":4,"initParameters":{"captcha_id":"` + testHex + `"}`: valueOrder[captcha.GeeTestV4],
	} {
		id, _ := post(t, s, "/createTask", create(fields))["taskId"].(float64)
		solved, _ := post(t, s, "/getTaskResult", `{"clientKey":"k","taskId":`+number2text(id)+`}`)["solution"].(map[string]any)
		want(t, "user agent", solved["userAgent"], any("U"))
		for _, name := range names {
			if text, _ := solved[name].(string); text == "" {
				t.Errorf("%s: no %s in %v", fields, name, solved)
			}
		}
	}
}

// A picture's bytes are in no document of the service.
func TestLedgerHasNoPicture(t *testing.T) {
	s := New(with(func(o *Options) { o.Ledger, o.LedgerHTTP = true, true }))
	image := testPNG + strings.Repeat("picture-canary-4711-", 10)
	submit(t, s, "method=base64&body="+url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(image))))
	text := get(t, s, "/ledger")
	var l Ledger
	if err := json.Unmarshal([]byte(text), &l); err != nil || len(l.Sales) != 1 || l.Sales[0].Identity.Picture.SHA256 == "" {
		t.Errorf("%v: %s", err, text)
	}
	if strings.Contains(text, "canary") || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(image))[20:60]) {
		t.Errorf("the ledger shows a picture: %s", text)
	}
}

// A report about a picture has a call of its own, as at anti-captcha.
func TestReportAboutAPicture(t *testing.T) {
	s := New(Options{Sigma: 0.1})
	picture, _ := post(t, s, "/createTask", `{"clientKey":"k","task":{"type":"ImageToTextTask","body":"`+testPicture(100)+`"}}`)["taskId"].(float64)
	other, _ := post(t, s, "/createTask", create(`"type":"TurnstileTaskProxyless"`))["taskId"].(float64)
	want(t, "a picture", post(t, s, "/reportIncorrectImageCaptcha", `{"clientKey":"k","taskId":`+number2text(picture)+`}`)["status"], any("success"))
	want(t, "another", post(t, s, "/reportIncorrectImageCaptcha", `{"clientKey":"k","taskId":`+number2text(other)+`}`)["errorCode"], any(wire.CodeNoTask))
}
