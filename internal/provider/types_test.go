package provider

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// identities returns identities of a type: the first has a value in each field of the type, the next ones all but
// enterprise and all but a proxy, and the last one what a solve needs.
func identities(kind captcha.Kind) []captcha.Identity {
	values := map[string]string{
		"pageurl": "https://example.com/login?a=b&c=d", "proxy": "u:p@s:s@[2001:db8::1]:8080", "proxy_type": "socks5",
		"gt": hex32, "captcha_id": hex32, "charset": "digits_or_letters", "max_length": "8", "language": "ru",
		"instructions": "rötlich",
	}
	full, least := captcha.Identity{Type: kind.Type}, captcha.Identity{Type: kind.Type}
	for _, f := range targets.RequestFields() {
		if !kind.Has(f.Key) {
			continue
		}
		byKind := map[reflect.Kind]string{reflect.Bool: "true", reflect.Int: "7", reflect.Float64: "0.35"}[f.Type.Kind()]
		value := cmp.Or(values[f.Key], byKind, f.Key+"&+=")
		_, _ = fmt.Sscan(value, full.Ptr(f.Key))
		if slices.Contains(kind.Must(), f.Key) {
			_, _ = fmt.Sscan(value, least.Ptr(f.Key))
		}
	}
	plain, direct := full, full
	plain.Enterprise, direct.Proxy, direct.ProxyType = false, "", ""
	return slices.Compact([]captcha.Identity{full, plain, direct, least})
}

// A token without a field that its identity has would be sold as one with it. So each protocol sends each field of a
// type, or refuses the identity.
func TestCompleteFields(t *testing.T) {
	for _, kind := range captcha.Kinds {
		list := identities(kind)
		full, least := list[0], list[len(list)-1]
		for _, field := range targets.RequestFields() {
			if !kind.Has(field.Key) {
				continue
			}
			with, without := least, least
			if field.Key == "proxy" || field.Key == "proxy_type" { // neither without the other
				with.Proxy, with.ProxyType = full.Proxy, full.ProxyType
			}
			value := func(id *captcha.Identity) reflect.Value { return reflect.ValueOf(id.Ptr(field.Key)).Elem() }
			value(&with).Set(value(&full))
			value(&without).SetZero()
			for _, d := range dialects() {
				protocol := protocolOf(targets.Provider{Protocol: d.api, Service: d.profile})
				sent, err := protocol.submit(request(with))
				if rest, _ := protocol.submit(request(without)); err == nil && sent.body == rest.body {
					t.Errorf("%s drops %s of %s: send it, or return an error", d.api, field.Key, kind.Type)
				}
			}
		}
	}
}

// The calls of each protocol are those of testdata/requests.txt: submits of each type, with the differences between
// services, then the other calls (threads and balance if the service has them, a poll, reports) and the pace of polls.
// A new type or field needs no line here.
func TestRequests(t *testing.T) {
	image := base64.StdEncoding.EncodeToString(thePicture())
	short := strings.NewReplacer(url.QueryEscape(image), "PICTURE", image, "PICTURE", url.QueryEscape(callbackURL),
		"CALLBACK", callbackURL, "CALLBACK", url.QueryEscape(canary), "KEY",
		strings.ReplaceAll(jsonKey, "&", `\u0026`), "KEY")
	var text strings.Builder
	services := append([]string{other}, targets.Services()...)
	for _, kind := range captcha.Kinds {
		for _, id := range identities(kind) {
			for _, d := range dialects() {
				sentTo := map[string][]string{} // services, by what they are sent
				for _, service := range services {
					var got []received
					c, _ := newServedClient(t, targets.Provider{Protocol: d.api, Service: service}, recorder(t, &got, d.sold))
					r := request(id)
					r.CallbackURL = callbackURL
					task, err := c.Submit(t.Context(), r)
					sent := fmt.Sprintf("%s: %v\n", d.api, err)
					if fault := (*Error)(nil); !errors.As(err, &fault) || fault.Code != NotAsked {
						if err != nil || task != "5" || len(got) != 1 {
							t.Fatalf("%+v: %q, %v after %d requests", id, task, err, len(got))
						}
						sent = fmt.Sprintf("%s %s, %s\n\t%s\n", got[0].method, got[0].uri, got[0].kind, short.Replace(got[0].body))
					}
					sentTo[sent] = append(sentTo[sent], service)
				}
				for _, sent := range slices.Sorted(maps.Keys(sentTo)) {
					fmt.Fprintf(&text, "# %s to %s\n%s", kind.Type, strings.Join(sentTo[sent], ", "), sent)
				}
			}
		}
	}
	for _, d := range dialects() {
		for _, service := range services {
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
		r := Submission{Identity: captcha.Identity{Type: captcha.Image}, Image: make([]byte, size)}
		_, err := c.Submit(t.Context(), r)
		if fault := (*Error)(nil); errors.As(err, &fault) && fault.Code == NotAsked {
			continue // the protocol has no pictures
		}
		testkit.NoError(t, err)
		r.Image = nil
		testkit.AtMost(t, string(d.api)+": bytes held after the submit of a picture", held(), before+size/2)
	}
}
