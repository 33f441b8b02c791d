package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/targets"
)

const acceptHTML = "Accept: text/html,application/xhtml+xml"

// logIn sends the login form with a key.
func (d *daemon) logIn(t *testing.T, key string, headers ...string) answer {
	t.Helper()
	form := url.Values{"key": {key}}.Encode()
	return d.send(t, "POST", "/login", strings.NewReader(form), append(headers, "Content-Type: application/x-www-form-urlencoded", acceptHTML)...)
}

// session logs in and returns the header Cookie of the session.
func (d *daemon) session(t *testing.T, key string) string {
	t.Helper()
	a := d.logIn(t, key, "Origin: http://"+d.addr)
	cookies, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	if err != nil || a.status != http.StatusSeeOther || a.header.Get("Location") != "/status" {
		t.Fatalf("the login: %d, %s, %v", a.status, a.header, err)
	}
	if cookies.SameSite != http.SameSiteStrictMode || !cookies.HttpOnly || cookies.Path != "/" || cookies.Secure || time.Until(cookies.Expires) < 11*time.Hour {
		t.Errorf("the cookie: %s", a.header.Get("Set-Cookie"))
	}
	return "Cookie: " + cookies.Name + "=" + cookies.Value
}

// A browser without a key gets the login form, and shows no password dialogue of its own. From the
// login to the logout, the browser gets the status page.
func TestLogInAndOut(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	a := d.ask(t, "GET", "/status", acceptHTML)
	a.check(t, "the form", 401, `<form method="post" action="/login">`)
	equal(t, "its challenge", strings.Join(a.header.Values("WWW-Authenticate"), ", "), "")
	d.logIn(t, "wrong").check(t, "a wrong key", 401, "The configuration file has no such key.")
	cookie := d.session(t, keyStatus)
	d.ask(t, "GET", "/status", acceptHTML, cookie).check(t, "the page", 200, `<span title="status ">looker</span>`, "Log out")
	d.ask(t, "GET", "/status.json", cookie).check(t, "the document", 200, `"targets"`)
	d.ask(t, "GET", "/status", acceptHTML, bearer(keyStatus)).check(t, "without a session", 200)
	a = d.send(t, "POST", "/logout", nil, cookie, "Origin: http://"+d.addr)
	if set := a.header.Get("Set-Cookie"); a.status != http.StatusSeeOther || !strings.HasPrefix(set, "poold_session=; ") || !strings.Contains(set, "1970") {
		t.Errorf("the logout: %d, %s", a.status, set)
	}
}

// A session has the scopes and targets of its key, but cannot take tokens. A session ends when a
// reload removes its key.
func TestASessionHasTheRightsOfItsKey(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "checkout", 1)
	all, staging, looker := d.session(t, keyAll), d.session(t, keyStaging), d.session(t, keyStatus)
	own := "Origin: http://" + d.addr
	d.ask(t, "POST", "/pool/checkout/pause", all, own).check(t, "the page of poold", 204)
	d.ask(t, "POST", "/pool/checkout/pause", all, "Origin: https://evil.example").check(t, "another site", 403)
	d.ask(t, "POST", "/pool/checkout/pause", all, "Sec-Fetch-Site: same-site").check(t, "another port", 403)
	d.ask(t, "POST", "/pool/checkout/pause", staging, own).check(t, "another target", 403)
	d.ask(t, "POST", "/pool/checkout/pause", looker, own).check(t, "without the scope", 403)
	d.ask(t, "GET", "/pool/checkout/token", all).check(t, "a take", 401)
	d.ask(t, "GET", "/pool/checkout/token", all, own).check(t, "a take by the page", 401)
	d.ask(t, "GET", "/status.json", bearer("wrong"), all).check(t, "a wrong key beside the cookie", 401)
	if a := d.ask(t, "GET", "/status", acceptHTML, staging); strings.Contains(a.body, "checkout") {
		t.Errorf("a session of a limited key: %s", a.body)
	}

	d.config.set.Store(sampleSet(allKeys()[1:]...))
	d.ask(t, "GET", "/status.json", all).check(t, "after the revocation", 401)
	d.ask(t, "GET", "/status", acceptHTML, all).check(t, "the page after the revocation", 401, `action="/login"`)
	d.ask(t, "GET", "/status.json", staging).check(t, "another session", 200)
}

func TestLoginRefusals(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	for name, headers := range map[string][]string{
		"another site": {"Origin: https://evil.example"}, "a sandbox": {"Origin: null"}, "an old browser": {"Referer: https://evil.example/"},
	} {
		if a := d.logIn(t, keyAll, headers...); a.status != 403 || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d, %s", name, a.status, a.header)
		}
	}
	if a := d.logIn(t, keyAll, "Origin: https://"+d.addr); !strings.Contains(a.header.Get("Set-Cookie"), "; Secure") {
		t.Errorf("behind a proxy with TLS: %s", a.header)
	}
	for range triesAMinute {
		d.logIn(t, "wrong")
	}
	a := d.logIn(t, "wrong")
	checkProblem(t, "too many wrong keys", a, 429, kernel.CodeRateLimited, "")
	d.logIn(t, keyAll).check(t, "the right key", 303)
}

// If the file has no keys, a login starts no session.
func TestLoginWithoutKeys(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	if a := d.logIn(t, "any"); a.status != http.StatusSeeOther || a.header.Get("Set-Cookie") != "" {
		t.Errorf("%d, %s", a.status, a.header)
	}
	d.config.set.Store(sampleSet(targets.Key{Name: "k", Scopes: []targets.Scope{targets.ScopeStatus}}))
	d.ask(t, "GET", "/status", acceptHTML).check(t, "after a key was added", 401, `action="/login"`)
}
