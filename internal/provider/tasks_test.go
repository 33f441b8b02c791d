package provider

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
)

// What cannot be expressed is the target's fault and costs no call.
func TestCannotBeAsked(t *testing.T) {
	proxied := func(proxy captcha.Secret) captcha.Identity {
		id := v2
		id.Proxy, id.ProxyType = proxy, "http"
		return id
	}
	for _, row := range []struct {
		api   string
		id    captcha.Identity
		image []byte
	}{
		{APILegacy, captcha.Identity{Type: "rotate"}, nil},
		{APITasks, captcha.Identity{Type: "rotate"}, nil},
		{APITasks, proxied("secret-user:secret-word@example.com"), nil},
		{APITasks, proxied("secret-user:secret-word@:80"), nil},
		{APITasks, proxied("secret-word:0"), nil},
		{APITasks, proxied("secret-word:70000"), nil},
		{APILegacy, captcha.Identity{Type: captcha.Image}, nil}, // without its bytes
		{APITasks, captcha.Identity{Type: captcha.Image}, nil},
		{APITasks, captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{Language: "de"}}, thePicture()},
		{APITasks, captcha.Identity{Type: captcha.Image, Proxy: "192.0.2.1:80", ProxyType: "http"}, thePicture()},
	} {
		c, _, w, _ := wired(t, Config{API: row.api})
		_, err := c.Submit(context.Background(), Request{Identity: row.id, Image: row.image})
		if e := faultOf(t, err); e.Class != Parameters || e.Code != NotAsked || e.Unknown || w.count() != 0 {
			t.Errorf("%+v: %v after %d calls", row.id, err, w.count())
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the proxy: %v", err)
		}
	}
}

func TestTasksOtherCalls(t *testing.T) {
	var got []received
	c, _ := serve(t, Config{API: APITasks, Balance: true},
		recorder(t, &got, `{"errorId":0,"status":"processing","balance":12.5}`))
	ctx := context.Background()
	for _, task := range []string{"77", "9007199254740993", "0077", "6a2f41a3-c54c-fce8-32d2-0324e1c32e22", "-5"} {
		_, _ = c.Poll(ctx, task, v2)
	}
	if err := c.ReadBalance(ctx); err != nil {
		t.Error(err)
	}
	keyJSON, _ := json.Marshal(canary)
	key := `{"clientKey":` + string(keyJSON)
	for i, want := range []string{
		key + `,"taskId":77}`, key + `,"taskId":9007199254740993}`, key + `,"taskId":"0077"}`,
		key + `,"taskId":"6a2f41a3-c54c-fce8-32d2-0324e1c32e22"}`, key + `,"taskId":-5}`, key + `}`,
	} {
		path := "/getTaskResult"
		if i == 5 {
			path = "/getBalance"
		}
		if got[i].body != want || got[i].uri != path {
			t.Errorf("call %d is %s %s, want %s %s", i, got[i].uri, got[i].body, path, want)
		}
	}
	if b := c.State(time.Now()).Balance; b == nil || *b != 12.5 {
		t.Errorf("balance %v, want 12.5", b)
	}
}

func TestTasksSubmitReplies(t *testing.T) {
	for reply, want := range map[string]string{
		`{"errorId":0,"taskId":77}`:       "77",
		`{"errorId":"0","taskId":"0077"}`: "0077",
		`{"errorId":0,"errorCode":"","taskId":"6a2f41a3-c54c-fce8-32d2-0324e1c32e22","status":"idle"}`: "6a2f41a3-c54c-fce8-32d2-0324e1c32e22",
		`{"taskId":9007199254740993}`:                           "9007199254740993",
		`{"errorId":1,"errorCode":"ERROR_PAGEURL","taskId":77}`: "ERROR_PAGEURL",
		`{"errorId":14,"errorCode":null}`:                       "ERROR_NO_SUCH_METHOD",
		`{"errorCode":"ERROR_BAD_REQUEST"}`:                     "ERROR_BAD_REQUEST",

		`{"errorId":0,"taskId":0}`:      unknown,
		`{"errorId":0,"taskId":-77}`:    unknown,
		`{"errorId":0,"taskId":7.7}`:    unknown,
		`{"errorId":0,"taskId":null}`:   unknown,
		`{"errorId":0,"taskId":{}}`:     unknown,
		`{"errorId":0,"taskId":[77]}`:   unknown,
		`{"errorId":0,"taskId":"a\tb"}`: unknown,
		`{"errorId":0}`:                 unknown,
		`{"errorId":0,"taskId":7`:       unknown,
		`{"errorId":[],"errorCode":{}}`: unknown,
		`[{"errorId":0,"taskId":77}]`:   unknown,
		`77`:                            unknown,
		``:                              unknown,
		`OK|77`:                         unknown,
		`<html>`:                        unknown,
		`{"errorId":1,"errorCode":"CAPCHA_NOT_READY"}`: unknown,
	} {
		c, _, _, says := wired(t, Config{API: APITasks, Profile: generic})
		says(http.StatusOK, reply)
		if got := gist(c.Submit(context.Background(), Request{Identity: v2})); got != want {
			t.Errorf("%s is taken for %q, want %q", reply, got, want)
		}
	}
}

func TestTasksPollReplies(t *testing.T) {
	for _, row := range []struct {
		kind               captcha.Type
		reply, want, agent string
	}{
		{captcha.RecaptchaV2, `{"errorId":0,"status":"ready","solution":{"gRecaptchaResponse":"03AF","userAgent":"U"}}`, "03AF", "U"},
		{captcha.RecaptchaV3, `{"errorId":0,"status":"ready","solution":{"gRecaptchaResponse":"03AF","token":"other"}}`, "03AF", ""},
		{captcha.HCaptcha, `{"errorId":0,"status":"ready","solution":{"token":"P1_x"}}`, "P1_x", ""},
		{captcha.Turnstile, `{"errorId":0,"status":"ready","solution":{"token":"0.x","gRecaptchaResponse":"other"}}`, "0.x", ""},
		{captcha.Turnstile, `{"errorId":0,"status":"ready","solution":{"gRecaptchaResponse":"0.x"}}`, "0.x", ""},
		{captcha.RecaptchaV2, `{"errorId":0,"status":"processing"}`, notReady, ""},
		{captcha.RecaptchaV2, `{"errorId":0,"status":"idle","solution":{}}`, notReady, ""},
		{captcha.RecaptchaV2, `{"errorId":1,"errorCode":"CAPTCHA_NOT_READY"}`, notReady, ""},
		{captcha.RecaptchaV2, `{"errorId":12,"errorCode":"ERROR_CAPTCHA_UNSOLVABLE"}`, "ERROR_CAPTCHA_UNSOLVABLE", ""},
		{captcha.RecaptchaV2, `{"errorId":0,"status":"failed"}`, "status failed", ""},
		{captcha.RecaptchaV2, `{"errorId":0,"status":"ready"}`, capacity, ""},
		{captcha.RecaptchaV2, `{"errorId":0,"status":"ready","solution":"03AF"}`, capacity, ""},
		{captcha.RecaptchaV2, `{"errorId":0,"status":"ready","solution":{"gRecaptchaResponse":7}}`, capacity, ""},
		{captcha.RecaptchaV2, `{"errorId":0,"status":"ready","solution":{"text":"x"}}`, capacity, ""},
		{captcha.RecaptchaV2, `{"errorId":0,"status":7}`, capacity, ""},
		{captcha.RecaptchaV2, `{"errorId":0}`, capacity, ""},
		{captcha.RecaptchaV2, `{"errorId":0,"status":"ready","solu`, capacity, ""},
	} {
		c, _, _, says := wired(t, Config{API: APITasks, Profile: twoCaptcha})
		says(http.StatusOK, row.reply)
		s, err := c.Poll(context.Background(), "1", captcha.Identity{Type: row.kind})
		if got := gist(s.Token, err); got != row.want || s.UserAgent != row.agent {
			t.Errorf("%s is taken for %q by %q, want %q by %q", row.reply, got, s.UserAgent, row.want, row.agent)
		}
	}
}

func FuzzTasks(f *testing.F) {
	for _, seed := range []string{
		`{"errorId":0,"taskId":77}`, `{"errorId":0,"status":"ready","solution":{"token":"t","userAgent":"U"}}`,
		`{"errorId":0,"status":"ready","solution":{"challenge":"c","validate":"v","seccode":"s"}}`,
		`{"errorId":0,"status":"ready","solution":{"text":"zwei wörter"}}`,
		`{"errorId":12}`, `{"errorId":1,"errorCode":"ERROR_X"}`, `{"errorId":0,"balance":"1e3"}`, `{"errorId":0,"status":"idle"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		checkAnswer(t, readCreated, reply, longTask)
		checkAnswer(t, readTasksBalance, reply, 0)
		for _, kind := range captcha.SolvableTypes() {
			checkSolution(t, func(b []byte) (answer, error) { return readResult(b, kind) }, reply, kind)
		}
	})
}
