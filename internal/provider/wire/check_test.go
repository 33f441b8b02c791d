package wire

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

// The largest picture is read, and a larger one is refused with the code of its protocol.
func TestLargePictures(t *testing.T) {
	for size, want := range map[int]string{captcha.MostPicture: "", captcha.MostPicture + 1: CodeTooBig} {
		picture := append([]byte("GIF89a"), make([]byte, size-len("GIF89a"))...)
		form, err := InPHPForm(captcha.Identity{Type: captcha.Image}, picture, "generic")
		testkit.NoError(t, err)
		r := Request{Method: http.MethodPost, Path: "/in.php", Body: []byte(form.Encode())}
		testkit.Equal(t, "in.php", Read(r).Order.Bad, want)
		body := base64.StdEncoding.EncodeToString(picture)
		testkit.Equal(t, "createTask", readTask(t, `"type":"ImageToTextTask","body":"`+body+`"`).Bad, want)
	}
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
