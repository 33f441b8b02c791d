package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

const page = "https://staging.example.com/login"

func TestATaskNumberIsPositiveDigits(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "007": 7, "99999999999": 99999999999} {
		if n, ok := TaskNumber(text); !ok || n != want {
			t.Errorf("%q: %d %v", text, n, ok)
		}
	}
	for _, text := range []string{"", "0", "-1", "+1", "1.0", "1e3", " 1", "x", strings.Repeat("9", 19)} {
		if _, ok := TaskNumber(text); ok {
			t.Errorf("%q is a number", text)
		}
	}
}

func TestAnswersHaveTheirShape(t *testing.T) {
	plain, object, task := &Call{InPHP: true}, &Call{InPHP: true, JSON: true}, &Call{Action: Poll}
	priced, texts := &Call{InPHP: true, Priced: true}, &Call{Text: true, Action: Poll, IDs: []string{"12"}}
	born := time.Unix(9, 0)
	solved := func(of captcha.Type, token string, extra map[string]string) Solution {
		return Solution{Type: of, Token: token, Extra: extra, Cost: "0", Made: born.Add(time.Millisecond), Born: born}
	}
	const geetest = `{"challenge":"c","validate":"v","seccode":"s"}`
	const ready = `{"errorId":0,"status":"ready","solution":`
	const times = `,"cost":"0","createTime":10,"endTime":9,"solveCount":1}`
	for _, row := range []struct {
		got  Reply
		want string
	}{
		{plain.Accepted("12"), "OK|12"}, {object.Accepted("12"), `{"status":1,"request":"12"}`},
		{task.Accepted("12"), `{"errorId":0,"taskId":12}`},
		{plain.Failed(CodeNotReady, ""), CodeNotReady},
		{object.Failed(CodeNotReady, "w"), `{"status":0,"request":"CAPCHA_NOT_READY","error_text":"w"}`},
		{task.Failed(CodeNotReady, "w"), `{"errorId":0,"status":"processing"}`},
		{texts.Failed(CodeNotReady, "w"), `{"errorId":0,"taskId":"12","status":"processing"}`},
		{task.Failed(CodeNoSlot, "w"), `{"errorId":2,"errorCode":"ERROR_NO_SLOT_AVAILABLE","errorDescription":"w"}`},
		{task.Failed("unheard of", ""), `{"errorId":1,"errorCode":"unheard of"}`},
		{task.Failed(CodeUnknownTask, ""), `{"errorId":16,"errorCode":"ERROR_NO_SUCH_CAPCHA_ID"}`},
		{plain.Balance(7), "7"}, {object.Balance(7), `{"status":1,"request":"7"}`},
		{task.Balance(0), `{"errorId":0,"balance":0}`},
		{plain.Reported(), "OK_REPORT_RECORDED"}, {task.Reported(), `{"errorId":0,"status":"success"}`},
		{priced.Solved(solved(captcha.Turnstile, "t", nil)), "OK|t|0"},
		{object.Solved(solved(captcha.Turnstile, "t", map[string]string{"userAgent": "a", "respKey": "r"})),
			`{"request":"t","respKey":"r","status":1,"user_agent":"a","useragent":"a"}`},
		{object.Solved(solved(captcha.GeeTest, geetest, nil)),
			`{"request":{"geetest_challenge":"c","geetest_seccode":"s","geetest_validate":"v"},"status":1}`},
		{task.Solved(solved(captcha.Turnstile, "t", map[string]string{"userAgent": "a", "token": "no", "respKey": "r"})),
			ready + `{"respKey":"r","token":"t","userAgent":"a"}` + times},
		{task.Solved(solved(captcha.Image, "t", nil)), ready + `{"text":"t"}` + times},
		{task.Solved(solved(captcha.GeeTest, geetest, map[string]string{"userAgent": "a"})),
			ready + `{"challenge":"c","seccode":"s","userAgent":"a","validate":"v"}` + times},
	} {
		testkit.Equal(t, "a reply", string(row.got.Body), row.want)
	}
}

// For each row of the table of types and each of its fields, servers read what clients write, in each protocol and
// under the names of each service. A new type or field needs no line here.
func TestServersReadWhatClientsWrite(t *testing.T) {
	const hex32 = "0123456789abcdef0123456789abcdef"
	image := []byte("GIF89a and more")
	sum := sha256.Sum256(image)
	special := map[string]string{
		"sitekey": "s", "pageurl": page, "gt": hex32, "captcha_id": hex32, "min_score": "0.3", "charset": "3",
		"language": "ru", "proxy": "u:p@s:s@[2001:db8::1]:8080", "proxy_type": "socks5", "challenge": "c", "max_length": "6",
	}
	for _, kind := range captcha.Kinds {
		full := captcha.Identity{Type: kind.Type}
		var needed []string
		for _, field := range kind.Fields {
			if field.Key == "" {
				continue
			}
			at := full.Ptr(field.Key)
			if !parse(at, cmp.Or(special[field.Key], "die rötlichen")) && !parse(at, "1") {
				t.Fatalf("%s: a value for %s", kind.Type, field.Key)
			}
			if field.Must {
				needed = append(needed, field.Key)
			}
		}
		least := captcha.Identity{Type: kind.Type}
		for _, key := range needed {
			parse(least.Ptr(key), special[key])
		}
		plain := full // without the variant that has its own name
		plain.Enterprise = false
		for _, id := range []captcha.Identity{full, plain, least} {
			var bytes []byte
			if id.Type == captcha.Image {
				id.Picture.SHA256, bytes = hex.EncodeToString(sum[:]), image
			}
			for _, service := range []string{"captchaai", "2captcha", "generic"} {
				form, err := InPHPForm(id, bytes, service)
				testkit.NoError(t, err)
				inPHP := Read(Request{Method: http.MethodPost, Path: "/in.php", Body: []byte(form.Encode())}).Order
				fields, err := CreateTaskBody(id, bytes, "https://hook.example/", service)
				testkit.NoError(t, err)
				tasks := Read(Request{Method: http.MethodPost, Path: "/createTask", Body: JSON(fields).Body}).Order
				for protocol, o := range map[string]Submission{"in_php": inPHP, "create_task": tasks} {
					if o.Identity != id || o.Bad != "" || o.Undone != nil || string(o.Image) != string(bytes) {
						t.Errorf("%s, %s: %+v, want %+v", service, protocol, o, id)
					}
				}
				testkit.Equal(t, service+": callback", tasks.CallbackURL, "https://hook.example/")
			}
		}
		if kind.Poolable && (kind.Margin <= 0 || kind.Lifetime <= kind.Margin || !kind.Has("pageurl")) ||
			kind.FirstPoll <= 0 ||
			(kind.Solution == "") == (kind.Values == nil) {
			t.Errorf("the row of %s is not complete", kind.Type)
		}
	}
	for _, key := range captcha.Keys() {
		if captcha.TypesWith(key) == nil {
			t.Errorf("no type has the key %s", key)
		}
	}
	odd := captcha.Identity{Type: captcha.Turnstile, Sitekey: "s", Pageurl: page, Invisible: true}
	_, err := InPHPForm(odd, nil, "generic")
	_, errTask := CreateTaskBody(odd, nil, "", "generic")
	if err == nil || errTask == nil {
		t.Error("a key of another type is left out without a word")
	}
}
