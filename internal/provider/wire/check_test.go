package wire

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

// A picture that is too large is refused with the code of its protocol.
func TestLargePictures(t *testing.T) {
	large := base64.StdEncoding.EncodeToString(append([]byte("GIF89a"), make([]byte, captcha.MostPicture-5)...))
	form := url.Values{"method": {"base64"}, "body": {large}}
	r := Request{Method: http.MethodPost, Path: "/in.php", Body: []byte(form.Encode())}
	testkit.Equal(t, "in.php", Read(r).Order.Bad, CodeTooBig)
	testkit.Equal(t, "createTask", readTask(t, `"type":"ImageToTextTask","body":"`+large+`"`).Bad, CodeTooBig)
}

// readTask parses a createTask call with the given fields of the task. These fields replace the
// default page and site key if they have the same names.
func readTask(t *testing.T, fields string) Submission {
	t.Helper()
	task := ""
	for name, value := range map[string]string{"websiteURL": page, "websiteKey": "s"} {
		if !strings.Contains(fields, `"`+name+`"`) {
			task += `"` + name + `":"` + value + `",`
		}
	}
	return Read(Request{Path: "/createTask", Body: []byte(`{"clientKey":"k","task":{` + task + fields + `}}`)}).Order
}
