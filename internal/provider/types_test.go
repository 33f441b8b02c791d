package provider

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// The calls of each protocol are those of testdata/requests.txt: submits of each type, with the differences between
// services, then the other calls (threads and balance if the service has them, a poll, reports) and the pace of polls.
func TestRequests(t *testing.T) {
	const page, site = "https://example.com/login", "a-sitekey"
	picture := captcha.Picture{
		SHA256: strings.Repeat("0f", 32), Charset: captcha.DigitsOrLetters, CaseSensitive: true, MinLength: 4, MaxLength: 6,
		Phrase: true, Math: true, Language: "en", Instructions: "die rötlichen",
	}
	image := base64.StdEncoding.EncodeToString(thePicture())
	short := strings.NewReplacer(url.QueryEscape(image), "PICTURE", image, "PICTURE", url.QueryEscape(pingback),
		"PINGBACK", pingback, "PINGBACK", url.QueryEscape(canary), "KEY", strings.ReplaceAll(jsonKey, "&", `\u0026`), "KEY")
	var text strings.Builder
	for _, row := range []struct {
		profile string
		id      captcha.Identity
	}{
		{other, captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: site, Pageurl: page}},
		{captchaAI, captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: site, Pageurl: page, Invisible: true}},
		{other, captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: site, Pageurl: page, Enterprise: true,
			Proxy: "192.0.2.1:1080", ProxyType: "socks5"}},
		{captchaAI, captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: site, Pageurl: page, Enterprise: true,
			Action: "homepage", MinScore: 0.3}},
		{captchaAI, captcha.Identity{Type: captcha.Turnstile, Sitekey: site, Pageurl: page, Action: "a",
			Data: "c&d", Proxy: "u:p@s:s@[2001:db8::1]:8080", ProxyType: "http"}},
		{twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: site, Pageurl: page, DataS: "s+/="}},
		{twoCaptcha, captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: site, Pageurl: page, Enterprise: true,
			DataS: "s"}},
		{twoCaptcha, captcha.Identity{Type: captcha.HCaptcha, Sitekey: site, Pageurl: page, RQData: "r", UserAgent: "U"}},
		{capSolver, captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: site, Pageurl: page, Enterprise: true}},
		{capSolver, captcha.Identity{Type: captcha.Turnstile, Sitekey: site, Pageurl: page, Action: "a", Data: "d"}},
		{capMonster, captcha.Identity{Type: captcha.Turnstile, Sitekey: site, Pageurl: page, Action: "a", Data: "d"}},
		{captchaAI, captcha.Identity{Type: captcha.GeeTest, GT: "g", Challenge: "c", Pageurl: page}},
		{twoCaptcha, captcha.Identity{Type: captcha.GeeTest, GT: "g", Challenge: "c", APIServer: "a",
			Pageurl: page, Proxy: "192.0.2.1:80", ProxyType: "http"}},
		{twoCaptcha, captcha.Identity{Type: captcha.GeeTestV4, CaptchaID: "i", Pageurl: page}},
		{other, captcha.Identity{Type: captcha.GeeTestV4, CaptchaID: "i", Pageurl: page}},
		{captchaAI, captcha.Identity{Type: captcha.GeeTestV4, CaptchaID: "i", Pageurl: page}},
		{captchaAI, captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{SHA256: picture.SHA256,
			Charset: captcha.Digits}}},
		{twoCaptcha, captcha.Identity{Type: captcha.Image, Picture: picture}},
		{captchaAI, captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{MinLength: 4, MaxLength: 6}}},
	} {
		r := Request{Identity: row.id, Pingback: pingback}
		if row.id.Type == captcha.Image {
			r.Image = thePicture()
		}
		fmt.Fprintf(&text, "# %s, %s\n", row.profile, row.id.Type)
		for _, d := range dialects() {
			var got []received
			c, _ := newServedClient(t, targets.Provider{Protocol: d.api, Service: row.profile}, recorder(t, &got, d.sold))
			task, err := c.Submit(t.Context(), r)
			if fault := (*Error)(nil); errors.As(err, &fault) && fault.Code == NotAsked {
				fmt.Fprintf(&text, "%s: %v\n", d.api, err)
				continue
			}
			if err != nil || task != "5" || len(got) != 1 {
				t.Fatalf("%+v: %q, %v after %d requests", row.id, task, err, len(got))
			}
			fmt.Fprintf(&text, "%s %s, %s\n\t%s\n", got[0].method, got[0].uri, got[0].kind, short.Replace(got[0].body))
		}
	}
	for _, d := range dialects() {
		for _, service := range []string{captchaAI, twoCaptcha, capMonster, capSolver, other} {
			fmt.Fprintf(&text, "# %s, %s: other calls, and the reports of a good and a bad token\n", service, d.api)
			var got []received
			c, _ := newServedClient(t, targets.Provider{Protocol: d.api, Service: service, Balance: true},
				recorder(t, &got, d.sold))
			_, _, _ = c.Threads(t.Context())
			_ = c.ReadBalance(t.Context())
			_, _ = c.Poll(t.Context(), "77", v2)
			for _, call := range got {
				fmt.Fprintf(&text, "%s %s %s\n", call.method, call.uri, short.Replace(call.body))
			}
			types := map[string][]captcha.Type{}
			for _, kind := range captcha.SolvableTypes() {
				calls := paceAndReports(t, targets.Provider{Protocol: d.api, Service: service}, kind)
				types[calls] = append(types[calls], kind)
			}
			for _, calls := range slices.Sorted(maps.Keys(types)) {
				fmt.Fprintf(&text, "%s: %s", types[calls], short.Replace(calls))
			}
		}
	}
	testkit.Published(t, "testdata/requests.txt", text.String())
}

// paceAndReports describes the polls of a task, and the reports of its token as accepted and as refused.
func paceAndReports(t *testing.T, provider targets.Provider, kind captcha.Type) string {
	t.Helper()
	var got []received
	c, j := newServedClient(t, provider, recorder(t, &got, spoken[provider.Protocol].sold))
	first, interval := c.Pace(kind)
	text := fmt.Sprintf("polls after %v, each %v\n", first, interval)
	for _, accepted := range []bool{true, false} {
		got = nil
		if err := c.Report(t.Context(), "77", kind, accepted); errors.Is(err, ErrNoReport) {
			testkit.Equal(t, "calls of a report that is not offered", len(got), 0)
			text += "\tno report\n"
			continue
		}
		if len(got) != 1 || !strings.HasPrefix(j.last(), report) {
			t.Fatalf("%+v: %d calls, %s", provider, len(got), j.last())
		}
		text += fmt.Sprintf("\t%s %s\n", got[0].uri, got[0].body)
	}
	return text
}

// After a submit, neither the client nor its open connection refers to the picture in any form.
func TestAPictureIsNotKept(t *testing.T) {
	const size = 8 << 20
	for _, d := range dialects() {
		c, _ := newServedClient(t, targets.Provider{Protocol: d.api}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, d.sold)
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
		if fault := (*Error)(nil); errors.As(err, &fault) && fault.Code == NotAsked {
			continue // the protocol has no pictures
		}
		testkit.NoError(t, err)
		r.Image = nil
		testkit.AtMost(t, string(d.api)+": bytes held after the submit of a picture", held(), before+size/2)
	}
}
