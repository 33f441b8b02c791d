package provider

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// For each type, a submit has the fields that this table lists, in both protocols. The table also
// shows the differences between profiles.
func TestFieldsOfEachType(t *testing.T) {
	const page, site = "https://example.com/login", "a-sitekey"
	image := thePicture()
	body := base64.StdEncoding.EncodeToString(image)
	picture := captcha.Picture{
		SHA256: strings.Repeat("0f", 32), Charset: captcha.DigitsOrLetters, CaseSensitive: true, MinLength: 4, MaxLength: 6,
		Phrase: true, Math: true, Language: "en", Instructions: "die rötlichen",
	}
	type form = map[string]string
	type task = map[string]any
	for _, row := range []struct {
		profile string
		id      captcha.Identity
		form    form
		task    task
	}{
		{captchaAI, captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: site, Pageurl: page, Invisible: true},
			form{"method": "userrecaptcha", "googlekey": site, "pageurl": page, "invisible": "1"},
			task{"type": "RecaptchaV2TaskProxyless", "websiteURL": page, "websiteKey": site, "isInvisible": true}},
		{other, captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: site, Pageurl: page, Enterprise: true,
			Proxy: "192.0.2.1:1080", ProxyType: "socks5"},
			form{"method": "userrecaptcha", "googlekey": site, "pageurl": page, "enterprise": "1", "proxy": "192.0.2.1:1080",
				"proxytype": "SOCKS5"},
			task{"type": "RecaptchaV2EnterpriseTask", "websiteURL": page, "websiteKey": site,
				"proxyType": "socks5", "proxyAddress": "192.0.2.1", "proxyPort": 1080.0}},
		{captchaAI, captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: site, Pageurl: page, Enterprise: true,
			Action: "homepage", MinScore: 0.3},
			form{"method": "userrecaptcha", "googlekey": site, "pageurl": page, "version": "v3", "enterprise": "1",
				"action": "homepage", "min_score": "0.3"},
			task{"type": "RecaptchaV3TaskProxyless", "websiteURL": page, "websiteKey": site, "isEnterprise": true,
				"pageAction": "homepage", "minScore": 0.3}},
		{captchaAI, captcha.Identity{Type: captcha.Turnstile, Sitekey: site, Pageurl: page, Action: "a", Data: "c&d",
			Proxy: "u:p@s:s@[2001:db8::1]:8080", ProxyType: "http"},
			form{"method": "turnstile", "sitekey": site, "pageurl": page, "action": "a", "data": "c&d",
				"proxy": "u:p@s:s@[2001:db8::1]:8080", "proxytype": "HTTP"},
			task{"type": "TurnstileTask", "websiteURL": page, "websiteKey": site, "action": "a", "data": "c&d", "proxyType": "http",
				"proxyAddress": "2001:db8::1", "proxyPort": 8080.0, "proxyLogin": "u", "proxyPassword": "p@s:s"}},
		{twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: site, Pageurl: page, DataS: "s+/="},
			form{"method": "userrecaptcha", "googlekey": site, "pageurl": page, "data-s": "s+/="},
			task{"type": "RecaptchaV2TaskProxyless", "websiteURL": page, "websiteKey": site, "recaptchaDataSValue": "s+/="}},
		{twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: site, Pageurl: page, Enterprise: true, DataS: "s"},
			form{"method": "userrecaptcha", "googlekey": site, "pageurl": page, "data-s": "s", "enterprise": "1"},
			task{"type": "RecaptchaV2EnterpriseTaskProxyless", "websiteURL": page, "websiteKey": site, "enterprisePayload": task{"s": "s"}}},
		{twoCaptcha, captcha.Identity{Type: captcha.HCaptcha, Sitekey: site, Pageurl: page, RQData: "r", UserAgent: "U"},
			form{"method": "hcaptcha", "sitekey": site, "pageurl": page, "data": "r", "userAgent": "U"},
			task{"type": "HCaptchaTaskProxyless", "websiteURL": page, "websiteKey": site, "userAgent": "U",
				"enterprisePayload": task{"rqdata": "r"}}},
		{capSolver, captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: site, Pageurl: page, Enterprise: true},
			form{"method": "userrecaptcha", "googlekey": site, "pageurl": page, "version": "v3", "enterprise": "1"},
			task{"type": "ReCaptchaV3EnterpriseTaskProxyLess", "websiteURL": page, "websiteKey": site}},
		{capSolver, captcha.Identity{Type: captcha.Turnstile, Sitekey: site, Pageurl: page, Action: "a", Data: "d"},
			form{"method": "turnstile", "sitekey": site, "pageurl": page, "action": "a", "data": "d"},
			task{"type": "AntiTurnstileTaskProxyLess", "websiteURL": page, "websiteKey": site,
				"metadata": task{"action": "a", "cdata": "d"}}},
		{capMonster, captcha.Identity{Type: captcha.Turnstile, Sitekey: site, Pageurl: page, Action: "a", Data: "d"},
			form{"method": "turnstile", "sitekey": site, "pageurl": page, "action": "a", "data": "d"},
			task{"type": "TurnstileTaskProxyless", "websiteURL": page, "websiteKey": site, "pageAction": "a", "data": "d"}},
		{captchaAI, captcha.Identity{Type: captcha.GeeTest, GT: "g", Challenge: "c", Pageurl: page},
			form{"method": "geetest", "gt": "g", "challenge": "c", "pageurl": page},
			task{"type": "GeeTestTaskProxyless", "websiteURL": page, "gt": "g", "challenge": "c"}},
		{twoCaptcha, captcha.Identity{Type: captcha.GeeTest, GT: "g", Challenge: "c", APIServer: "a", Pageurl: page,
			Proxy: "192.0.2.1:80", ProxyType: "http"},
			form{"method": "geetest", "gt": "g", "challenge": "c", "api_server": "a", "pageurl": page, "proxy": "192.0.2.1:80",
				"proxytype": "HTTP"},
			task{"type": "GeeTestTask", "websiteURL": page, "gt": "g", "challenge": "c", "geetestApiServerSubdomain": "a",
				"proxyType": "http", "proxyAddress": "192.0.2.1", "proxyPort": 80.0}},
		{twoCaptcha, captcha.Identity{Type: captcha.GeeTestV4, CaptchaID: "i", Pageurl: page},
			form{"method": "geetest_v4", "captcha_id": "i", "pageurl": page},
			task{"type": "GeeTestTaskProxyless", "websiteURL": page, "version": 4.0, "initParameters": task{"captcha_id": "i"}}},
		{other, captcha.Identity{Type: captcha.GeeTestV4, CaptchaID: "i", Pageurl: page},
			form{"method": "geetest_v4", "captcha_id": "i", "pageurl": page},
			task{"type": "GeeTestTaskProxyless", "websiteURL": page, "version": 4.0, "gt": "i"}},
		{captchaAI, captcha.Identity{Type: captcha.GeeTestV4, CaptchaID: "i", Pageurl: page},
			form{"method": "geetest", "gt": "i", "version": "4", "pageurl": page},
			task{"type": "GeeTestTaskProxyless", "websiteURL": page, "version": 4.0, "gt": "i"}},
		{captchaAI, captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{SHA256: picture.SHA256, Charset: captcha.Digits}},
			form{"method": "base64", "body": body, "numeric": "1"},
			task{"type": "ImageToTextTask", "body": body, "numeric": 1.0}},
		{twoCaptcha, captcha.Identity{Type: captcha.Image, Picture: picture},
			form{"method": "base64", "body": body, "numeric": "3", "regsense": "1", "min_len": "4", "max_len": "6", "phrase": "1",
				"calc": "1", "lang": "en", "textinstructions": "die rötlichen"},
			task{"type": "ImageToTextTask", "body": body, "numeric": 3.0, "case": true, "minLength": 4.0, "maxLength": 6.0, "phrase": true,
				"math": true, "comment": "die rötlichen"}},
		{captchaAI, captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{MinLength: 4, MaxLength: 6}},
			form{"method": "base64", "body": body, "min_len": "4", "max_len": "6", "minLen": "4", "maxLen": "6"},
			task{"type": "ImageToTextTask", "body": body, "minLength": 4.0, "maxLength": 6.0}},
	} {
		r := Request{Identity: row.id, Pingback: pingback}
		if row.id.Type == captcha.Image {
			r.Image = image
		}
		var got []received
		c, _ := newServedClient(t, targets.Provider{Service: row.profile}, recorder(t, &got, `{"status":1,"request":"0123"}`))
		if task, err := c.Submit(t.Context(), r); err != nil || task != "0123" {
			t.Fatalf("%+v: %q, %v", row.id, task, err)
		}
		want := url.Values{"key": {canary}, "json": {"1"}, "pingback": {pingback}}
		for name, value := range row.form {
			want.Set(name, value)
		}
		if fields, err := url.ParseQuery(got[0].body); err != nil || !reflect.DeepEqual(fields, want) {
			t.Errorf("%s %+v sends\n%v, want\n%v", row.profile, row.id, fields, want)
		}
		c, _ = newServedClient(t, targets.Provider{Protocol: targets.ProtocolCreateTask, Service: row.profile},
			recorder(t, &got, `{"errorId":0,"taskId":5}`))
		if _, err := c.Submit(t.Context(), r); err != nil {
			t.Fatalf("%+v: %v", row.id, err)
		}
		var sent task
		err := json.Unmarshal([]byte(got[1].body), &sent)
		wanted := task{"clientKey": canary, "task": row.task, "callbackUrl": pingback}
		if language := row.id.Picture.Language; language != "" {
			wanted["languagePool"] = language
		}
		if err != nil || !reflect.DeepEqual(sent, wanted) {
			t.Errorf("%s %+v sends\n%v, want\n%v", row.profile, row.id, sent, wanted)
		}
		for i, want := range []received{
			{method: "POST", uri: "/in.php", kind: "application/x-www-form-urlencoded"},
			{method: "POST", uri: "/createTask", kind: "application/json"},
		} {
			if want.body = got[i].body; got[i] != want {
				t.Errorf("%+v is sent as %+v", row.id, got[i])
			}
		}
	}
}

// All texts of a solution except the token are passed on, in both protocols. The service may say when the token
// expires.
func TestSolutionsTravelWhole(t *testing.T) {
	soon := time.Now().Add(time.Minute).UnixMilli()
	for _, row := range []struct {
		api          targets.Protocol
		reply, extra string
	}{
		{targets.ProtocolInPHP, `{"status":1,"request":"P1_x","useragent":"U","respKey":"E0|y","price":"0.1","n":7,"none":""}`, `{"respKey":"E0\u007cy","userAgent":"U"}`},
		{targets.ProtocolInPHP, "OK|P1_x", ""},
		{targets.ProtocolCreateTask, `{"status":"ready","solution":{"token":"P1_x","gRecaptchaResponse":"P1_x","respKey":"E0","bad":"a\u0000","o":{}}}`, `{"respKey":"E0"}`},
		{targets.ProtocolCreateTask, fmt.Sprintf(`{"status":"ready","solution":{"gRecaptchaResponse":"P1_x","expireTime":%d}}`, soon), ""},
		{targets.ProtocolCreateTask, `{"status":"ready","solution":{"gRecaptchaResponse":"P1_x","expireTime":1e19}}`, ""},
		{targets.ProtocolCreateTask, `{"status":"ready","solution":{"gRecaptchaResponse":"P1_x","expireTime":-5,"né":"ü"}}`, `{"né":"ü"}`},
	} {
		c, _, _, says := newScriptedClient(t, targets.Provider{Protocol: row.api, Service: twoCaptcha})
		says(http.StatusOK, row.reply)
		s, err := c.Poll(t.Context(), "1", captcha.Identity{Type: captcha.HCaptcha})
		if err != nil || s.Token != "P1_x" || string(s.Extra) != row.extra {
			t.Errorf("%s has %q, %v", row.reply, s.Extra, err)
		}
		if says := strings.Contains(row.reply, fmt.Sprint(soon)); says != (s.Expires.UnixMilli() == soon) || !says && !s.Expires.IsZero() {
			t.Errorf("%s expires at %v", row.reply, s.Expires)
		}
	}
}

// A callback has the same texts, wherever a service puts them.
func TestSolutionsOfCallbacksTravelWhole(t *testing.T) {
	for _, row := range []struct{ query, body, extra string }{
		{"id=5&code=tok&useragent=U&respKey=R", "", `{"respKey":"R","userAgent":"U"}`},
		{"", `{"id":5,"code":"tok","userAgent":"U","respKey":"R"}`, `{"respKey":"R","userAgent":"U"}`},
		{"", `{"taskId":5,"status":"ready","userAgent":"U","solution":{"gRecaptchaResponse":"tok","respKey":"R","expireTime":1900000000000}}`, `{"respKey":"R","userAgent":"U"}`},
		{"id=5&code=tok", "", ""},
	} {
		query, err := url.ParseQuery(row.query)
		testkit.NoError(t, err)
		c, err := ReadCallback(query, []byte(row.body))
		if err != nil || c.Solution.Token != "tok" || string(c.Solution.Extra) != row.extra {
			t.Errorf("%s%s has %q, %v", row.query, row.body, c.Solution.Extra, err)
		}
		if says := strings.Contains(row.body, "expireTime"); says == c.Solution.Expires.IsZero() {
			t.Errorf("%s expires at %v", row.body, c.Solution.Expires)
		}
	}
}

// After a submit, neither the client nor its open connection refers to the picture in any form.
func TestAPictureIsNotKept(t *testing.T) {
	const size = 8 << 20
	for _, api := range []targets.Protocol{targets.ProtocolInPHP, targets.ProtocolCreateTask} {
		c, _ := newServedClient(t, targets.Provider{Protocol: api}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, `{"status":1,"request":"5","errorId":0,"taskId":5}`)
		})
		held := func() uint64 {
			runtime.GC()
			runtime.GC() // the second collection empties a sync.Pool
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := held()
		r := Request{Identity: captcha.Identity{Type: captcha.Image}, Image: make([]byte, size)}
		_, err := c.Submit(t.Context(), r)
		testkit.NoError(t, err)
		r.Image = nil
		testkit.AtMost(t, string(api)+": bytes held after the submit of a picture", held(), before+size/2)
	}
}
