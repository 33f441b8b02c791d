package wire

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"poold/internal/captcha"
)

// Each invalid submit is refused with the code of its protocol.
func TestInvalidParametersAreRefusedWithTheirCode(t *testing.T) {
	const hex32 = "0123456789abcdef0123456789abcdef"
	gif := func(bytes int) string {
		return base64.StdEncoding.EncodeToString(append([]byte("GIF89a"), make([]byte, bytes-6)...))
	}
	small, large := gif(100), gif(captcha.MostPicture+1)
	for _, row := range []struct {
		legacy, want        string // additional fields, which replace earlier values; "" = the protocol is not tested
		tasks, wantForTasks string
	}{
		{"method=", CodeNoMethod, `"minScore":0.3`, CodeNotSupported},
		{"method=rotate", CodeNoMethod, `"type":"RotateTask"`, CodeNotSupported},
		{"googlekey=", CodeGooglekey, `"type":"RecaptchaV2TaskProxyless","websiteKey":""`, CodeBadParams},
		{"googlekey=a+b", CodeGooglekey, `"type":"RecaptchaV2TaskProxyless","websiteKey":"a b"`, CodeBadParams},
		{"method=turnstile", CodeBadParams, `"type":"TurnstileTaskProxyless","websiteKey":""`, CodeBadParams},
		{"pageurl=", CodePageurl, `"type":"TurnstileTaskProxyless","websiteURL":""`, CodeBadParams},
		{"pageurl=/login", CodePageurl, `"type":"TurnstileTaskProxyless","websiteURL":"x"`, CodeBadParams},
		{"pageurl=ftp://example.com/", CodePageurl, `"type":"RecaptchaV2TaskProxyless","isInvisible":"yes"`, CodeBadParams},
		{"invisible=yes", CodeBadParams, "", ""},
		{"version=v4", CodeBadParams, "", ""},
		{"version=v3&min_score=high", CodeBadParams, "", ""},
		{"version=v3&min_score=1.5", CodeBadParams, `"type":"RecaptchaV3TaskProxyless","minScore":7`, CodeBadParams},
		{"version=v3&min_score=NaN", CodeBadParams, `"type":"RecaptchaV3TaskProxyless","minScore":-1`, CodeBadParams},
		{"proxy=192.0.2.1&proxytype=HTTP", CodeBadProxy, `"type":"RecaptchaV2Task","proxyAddress":"192.0.2.1","proxyType":"http"`, CodeBadProxy},
		{"proxy=192.0.2.1:80", CodeBadProxy, `"type":"RecaptchaV2Task","proxyAddress":"192.0.2.1","proxyPort":80`, CodeBadProxy},
		{"proxy=u@192.0.2.1:80&proxytype=HTTP", CodeBadProxy, "", ""},
		{"proxytype=HTTP", CodeBadParams, "", ""},
		{"pingback=example.com", CodeBadParams, "", ""},

		{"method=geetest&challenge=c", CodeBadParams, `"type":"GeeTestTaskProxyless","challenge":"c"`, CodeBadParams},
		{"method=geetest&gt=short&challenge=c", CodeBadParams, `"type":"GeeTestTaskProxyless","gt":"short","challenge":"c"`, CodeBadParams},
		{"method=geetest&gt=" + hex32, CodeBadParams, `"type":"GeeTestTaskProxyless","gt":"` + hex32 + `"`, CodeBadParams},
		{"method=geetest&challenge=c&pageurl=&gt=" + hex32, CodePageurl, "", ""},
		{"method=geetest&version=4&gt=x", CodeCaptchaID, `"type":"GeeTestTaskProxyless","version":4,"gt":"x"`, CodeCaptchaID},
		{"method=geetest_v4", CodeCaptchaID, `"type":"GeeTestTaskProxyless","version":4`, CodeCaptchaID},

		{"method=base64", CodeNoImage, `"type":"ImageToTextTask"`, CodeNoImage},
		{"method=base64&body=%25", CodeUpload, `"type":"ImageToTextTask","body":"%"`, CodeImageKind},
		{"method=base64&body=" + url.QueryEscape(large), CodeTooBig, `"type":"ImageToTextTask","body":"` + large + `"`, CodeTooBig},
		{"method=base64&body=aGVsbG8%3D", CodeImageKind, `"type":"ImageToTextTask","body":"aGVsbG8="`, CodeImageKind},
		{"method=base64&numeric=5&body=" + url.QueryEscape(small), CodeBadParams, `"type":"ImageToTextTask","numeric":5,"body":"` + small + `"`, CodeBadParams},
		{"method=base64&min_len=x&body=" + url.QueryEscape(small), CodeBadParams, `"type":"ImageToTextTask","minLength":-1,"body":"` + small + `"`, CodeBadParams},
		{"method=base64&min_len=3&max_len=2&body=" + url.QueryEscape(small), CodeBadParams,
			`"type":"ImageToTextTask","minLength":3,"maxLength":2,"body":"` + small + `"`, CodeBadParams},
		{"method=base64&phrase=yes&body=" + url.QueryEscape(small), CodeBadParams, `"type":"ImageToTextTaskProxyless","body":"` + small + `"`, CodeNotSupported},
		{"", "", `"type":"ImageToTextEnterpriseTask","body":"` + small + `"`, CodeNotSupported},
	} {
		if row.legacy != "" {
			fields := url.Values{"method": {"userrecaptcha"}, "googlekey": {"s"}, "pageurl": {page}}
			more, err := url.ParseQuery(row.legacy)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range more {
				fields[name] = value
			}
			r := Request{Method: http.MethodPost, Path: "/in.php", Body: []byte(fields.Encode())}
			if got := ReadLegacy(r).Order.Bad; got != row.want {
				t.Errorf("%.70s: %q, want %q", row.legacy, got, row.want)
			}
		}
		if row.tasks != "" {
			if got := readTask(t, row.tasks).Bad; got != row.wantForTasks {
				t.Errorf("%.70s: %q, want %q", row.tasks, got, row.wantForTasks)
			}
		}
	}
	for fields, want := range map[string]string{
		`"callbackUrl":"x","task":{"type":"TurnstileTaskProxyless","websiteURL":"` + page + `","websiteKey":"s"}`: CodeBadParams,
		`"languagePool":"de","task":{"type":"ImageToTextTask","body":"` + small + `"}`:                            CodeBadParams,
		`"task":null`: CodeTaskAbsent,
	} {
		r := Request{Path: "/createTask", Body: []byte(`{"clientKey":"k",` + fields + `}`)}
		if got := ReadTasks(r).Order.Bad; got != want {
			t.Errorf("%s: %q, want %q", fields, got, want)
		}
	}
}

// readTask parses a createTask call with the given fields of the task. These fields replace the
// default page and site key if they have the same names.
func readTask(t *testing.T, fields string) Order {
	t.Helper()
	task := ""
	for name, value := range map[string]string{"websiteURL": page, "websiteKey": "s"} {
		if !strings.Contains(fields, `"`+name+`"`) {
			task += `"` + name + `":"` + value + `",`
		}
	}
	return ReadTasks(Request{Path: "/createTask", Body: []byte(`{"clientKey":"k","task":{` + task + fields + `}}`)}).Order
}
