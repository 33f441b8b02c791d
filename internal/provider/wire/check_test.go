package wire

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

// Each invalid submit is refused with the code of its protocol.
func TestInvalidParametersAreRefusedWithTheirCode(t *testing.T) {
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
		{"invisible=yes", CodeBadParams, "", ""},
		{"version=v4", CodeBadParams, "", ""},
		{"version=v3&min_score=high", CodeBadParams, "", ""},
		{"version=v3&min_score=1.5", CodeBadParams, `"type":"RecaptchaV3TaskProxyless","minScore":7`, CodeBadParams},
		{"version=v3&min_score=NaN", CodeBadParams, `"type":"RecaptchaV3TaskProxyless","minScore":-1`, CodeBadParams},
		{"version=v3&min_score=Inf", CodeBadParams, `"type":"RecaptchaV2TaskProxyless","isInvisible":"yes"`, CodeBadParams},

		{"method=base64", CodeNoImage, `"type":"ImageToTextTask"`, CodeNoImage},
		{"method=base64&body=%25", CodeUpload, `"type":"ImageToTextTask","body":"%"`, CodeUpload},
		{"method=base64&body=" + url.QueryEscape(large), CodeTooBig, `"type":"ImageToTextTask","body":"` + large + `"`, CodeTooBig},
		{"method=base64&body=aGVsbG8%3D", CodeImageKind, `"type":"ImageToTextTask","body":"aGVsbG8="`, CodeImageKind},
		{"method=base64&numeric=5&body=" + url.QueryEscape(small), CodeBadParams,
			`"type":"ImageToTextTask","numeric":5,"body":"` + small + `"`, CodeBadParams},
		{"method=base64&min_len=x&body=" + url.QueryEscape(small), CodeBadParams, "", ""},
		{"method=base64&phrase=yes&body=" + url.QueryEscape(small), CodeBadParams,
			`"type":"ImageToTextTaskProxyless","body":"` + small + `"`, CodeNotSupported},
		{"", "", `"type":"ImageToTextEnterpriseTask","body":"` + small + `"`, CodeNotSupported},
	} {
		if row.legacy != "" {
			fields := url.Values{"method": {"userrecaptcha"}, "googlekey": {"s"}, "pageurl": {page}}
			more, err := url.ParseQuery(row.legacy)
			testkit.NoError(t, err)
			for name, value := range more {
				fields[name] = value
			}
			r := Request{Method: http.MethodPost, Path: "/in.php", Body: []byte(fields.Encode())}
			testkit.Equal(t, fmt.Sprintf("%.70s", row.legacy), ReadLegacy(r).Order.Bad, row.want)
		}
		if row.tasks != "" {
			testkit.Equal(t, fmt.Sprintf("%.70s", row.tasks), readTask(t, row.tasks).Bad, row.wantForTasks)
		}
	}
	for fields, want := range map[string]string{
		`"languagePool":"de","task":{"type":"ImageToTextTask","body":"` + small + `"}`: CodeBadParams,
		`"task":null`: CodeTaskAbsent,
	} {
		r := Request{Path: "/createTask", Body: []byte(`{"clientKey":"k",` + fields + `}`)}
		testkit.Equal(t, fields, ReadTasks(r).Order.Bad, want)
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
