package wire

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"poold/internal/captcha"
)

// checkOrder checks the invariants of an order.
func checkOrder(t *testing.T, o Submission) {
	t.Helper()
	if o.Bad != "" {
		return
	}
	id := o.Identity
	switch {
	case !slices.Contains(captcha.SolvableTypes(), id.Type):
		t.Errorf("an order of type %q", id.Type)
	case (id.Type == captcha.Image) != (len(o.Image) > 0 && id.Picture.SHA256 != ""):
		t.Errorf("a picture that is none: %+v", id)
	case !(id.MinScore >= 0 && id.MinScore <= 1):
		t.Errorf("a score of %v", id.MinScore)
	}
}

func FuzzInPHP(f *testing.F) {
	form := "application/x-www-form-urlencoded"
	for _, seed := range []struct{ kind, query, body string }{
		{"", "key=k&method=userrecaptcha&googlekey=g&pageurl=https://e.example/&version=v3&min_score=0.3&json=1", ""},
		{form, "", "key=k&method=turnstile&sitekey=s&pageurl=https://e.example/&action=a&proxy=u:p@h:1&proxytype=HTTP"},
		{"application/json", "", `{"key":"k","method":"base64","body":"iVBORw0KGgo=","json":1,"min_len":2}`},
		{"multipart/form-data; boundary=b", "",
			"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nGIF89a\r\n--b--\r\n"},
		{form, "", "key=k&key=k"}, {"text/plain", "action=get&ids=1,2,x", "{"}, {form, "action=reportbad&id=1", "%zz"},
	} {
		f.Add(seed.kind, seed.query, []byte(seed.body), true)
	}
	f.Fuzz(func(t *testing.T, kind, query string, body []byte, submits bool) {
		r := Request{Method: http.MethodPost, Path: "/res.php", ContentType: kind, RawQuery: query, Body: body}
		if submits {
			r.Path = "/in.php"
		}
		c := Read(r)
		switch {
		case submits != (c.Action == Submit), (c.Action == Poll || c.Action == Report) && len(c.IDs) == 0:
			t.Errorf("%+v", c)
		case submits:
			checkOrder(t, c.Order)
		}
		if reply := c.Failed(CodeBadParams, query); c.JSON != json.Valid(reply.Body) {
			t.Errorf("%q", reply.Body)
		}
	})
}

func FuzzCreateTask(f *testing.F) {
	for _, body := range []string{
		`{"clientKey":"k","task":{"type":"RecaptchaV3TaskProxyless","websiteURL":"https://e.example/","websiteKey":"g",` +
			`"minScore":0.3,"pageAction":"a"}}`,
		`{"clientKey":"k","task":{"type":"TurnstileTask","websiteURL":"https://e.example/","websiteKey":"g",` +
			`"proxyType":"http","proxyAddress":"h","proxyPort":1}}`,
		`{"clientKey":"k","taskId":"12345678901"}`, `{"clientKey":"k","taskId":12345678901}`,
		`{"clientKey":"k","task":{"type":"ImageToTextTask","body":"iVBORw0KGgo="},"languagePool":"rn"}`,
		`{"clientKey":"k","clientkey":"l"}`, `{} {}`, `[`, `{"task":null}`,
	} {
		f.Add("/createTask", []byte(body))
		f.Add("/getTaskResult", []byte(body))
	}
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		c := Read(Request{Method: http.MethodPost, Path: path, Body: body})
		if c.Action == Submit {
			checkOrder(t, c.Order)
		}
		if n, ok := TaskNumber(c.IDs[0]); ok && (n <= 0 || strings.Trim(c.IDs[0], "0123456789") != "") {
			t.Errorf("%q is %d", c.IDs[0], n)
		}
		if utf8.Valid(body) && c.Bad == "" && !json.Valid(body) {
			t.Errorf("%q was read", body)
		}
	})
}
