package wire

import (
	"net/http"
	"testing"

	"poold/internal/captcha"
)

const gif = "R0lGODlh" // the first bytes of a picture

// The server accepts the requests that unmodified clients send by default. A field counts as unset if its value requests nothing.
func TestDefaultRequestsOfClientsAreAccepted(t *testing.T) {
	for name, row := range map[string]struct {
		query, body string // query of a GET of in.php; body of createTask
		check       func(captcha.Identity) bool
	}{
		"2captcha-ts and @2captcha/captcha-solver": {
			query: "googlekey=s&pageurl=https://e.example/&method=userrecaptcha&key=k&json=1&header_acao=1&soft_id=3898",
		},
		"2captcha-python": {
			query: "googlekey=s&pageurl=https://e.example/&method=userrecaptcha&version=v2&enterprise=0&key=k&soft_id=4580&lang=en&debug_dump=1",
		},
		"an image with a page": {
			query: "method=base64&body=" + gif + "&key=k&lang=en&pageurl=https://e.example/",
			check: func(id captcha.Identity) bool { return id.Pageurl == "" && id.Picture.Language == "en" },
		},
		"anticaptchaofficial, an image": {
			body: `{"clientKey":"k","task":{"type":"ImageToTextTask","body":"` + gif + `","phrase":null,"case":null,"numeric":null,"comment":null,
				"math":null,"minLength":null,"maxLength":null,"languagePool":"en"},"softId":0}`,
			check: func(id captcha.Identity) bool { return id.Picture.Language == "en" },
		},
		"anticaptchaofficial, reCAPTCHA v2": {
			body: `{"clientKey":"k","task":{"type":"RecaptchaV2TaskProxyless","websiteURL":"https://e.example/","websiteKey":"s",
				"websiteSToken":null,"recaptchaDataSValue":null},"softId":7,"revenueShareTronAddress":"T"}`,
		},
		"anticaptchaofficial for Python, an image": {
			body: `{"clientKey":"k","task":{"type":"ImageToTextTask","body":"` + gif + `","phrase":false,"case":true,"numeric":0,"math":false,
				"minLength":0,"maxLength":0,"comment":false,"websiteURL":"https://e.example/"},"softId":0}`,
			check: func(id captcha.Identity) bool {
				return id.Pageurl == "" && id.Picture.CaseSensitive && id.Picture.Instructions == ""
			},
		},
		"anticaptchaofficial for Python, hCaptcha": {
			body: `{"clientKey":"k","task":{"type":"HCaptchaTaskProxyless","websiteURL":"https://e.example/","websiteKey":"s",
				"userAgent":"","isInvisible":1,"enterprisePayload":null},"softId":0}`,
		},
		"CaptchaSharp": {
			body: `{"clientKey":"k","appId":"a","languagePool":"en","task":{"type":"TurnstileTaskProxyless","websiteURL":"https://e.example/",
				"websiteKey":"s","nocache":true}}`,
		},
	} {
		o := ReadLegacy(Request{Method: http.MethodGet, Path: "/in.php", RawQuery: row.query}).Order
		if row.body != "" {
			o = ReadTasks(Request{Method: http.MethodPost, Path: "/createTask", Body: []byte(row.body)}).Order
		}
		if o.Bad != "" || o.Undone != nil || o.Pingback != "" || row.check != nil && !row.check(o.Identity) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// An invalid field is named by its key in pools.yaml, or by its name in the protocol if it has
// no key.
func TestInvalidFieldsAreNamed(t *testing.T) {
	for query, want := range map[string]string{
		"method=rotate": "method",
		"method=userrecaptcha&googlekey=s&version=v3&min_score=7&pageurl=" + page: "min_score",
		"method=userrecaptcha&googlekey=s&invisible=maybe&pageurl=" + page:        "invisible",
		"method=base64": "body",
	} {
		if o := ReadLegacy(Request{Path: "/in.php", RawQuery: query}).Order; o.Bad == "" || o.BadField != want {
			t.Errorf("%s: %q in %q, want %q", query, o.Bad, o.BadField, want)
		}
	}
	for fields, want := range map[string]string{
		`"type":"FunCaptchaTask"`:                                           "type",
		`"type":"TurnstileTaskProxyless","websiteKey":["s"]`:                "websiteKey",
		`"type":"ImageToTextTask","languagePool":"de","body":"` + gif + `"`: "languagePool",
		`"type":"ImageToTextTask","numeric":9,"body":"` + gif + `"`:         "numeric",
		`"type":"RecaptchaV2TaskProxyless","isInvisible":"x"`:               "isInvisible",
		`"type":"TurnstileTaskProxyless","action":"a","pageAction":"b"`:     "",
	} {
		if o := readTask(t, fields); o.Bad == "" || o.BadField != want {
			t.Errorf("%s: %q in %q, want %q", fields, o.Bad, o.BadField, want)
		}
	}
}
