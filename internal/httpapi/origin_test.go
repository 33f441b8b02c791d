package httpapi

import (
	"net/http/httptest"
	"strings"
	"testing"

	"poold/internal/httpapi/kernel"
)

// hostile is a request that a browser sends for a page of another site.
type hostile struct {
	name    string
	method  string
	path    string
	headers []string
	status  int
}

// The text OWN in a header stands for the daemon's own address.
func hostileRequests() []hostile {
	take := "/pool/staging-login/token"
	return []hostile{
		{"img src", "GET", take, []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image", "Referer: https://evil.example/"}, 403},
		{"img src of an old browser", "GET", take, []string{"Referer: https://evil.example/page"}, 403},
		{"img src from another port of this machine", "GET", take, []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Dest: image"}, 403},
		{"script src", "GET", take, []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"}, 403},
		{"iframe", "GET", "/status", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		{"navigation by a link", "GET", take, []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-User: ?1"}, 403},
		{"form POST text/plain", "POST", take, []string{"Origin: https://evil.example", "Content-Type: text/plain", "Sec-Fetch-Site: cross-site"}, 403},
		{"form POST of an old browser", "POST", "/pool/staging-login/pause", []string{"Origin: https://evil.example", "Content-Type: application/x-www-form-urlencoded"}, 403},
		{"form POST of a report", "POST", "/pool/staging-login/token/tok1/report", []string{"Origin: https://evil.example", "Content-Type: application/json"}, 403},
		{"form POST of a replay", "POST", "/dead-letters/replay", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"fetch that throws tokens away", "DELETE", "/pool/staging-login/tokens", []string{"Origin: https://evil.example"}, 403},
		{"form POST from a sandbox", "POST", "/-/reload", []string{"Origin: null"}, 403},
		{"fetch no-cors", "POST", take, []string{"Origin: https://evil.example", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Site: cross-site"}, 403},
		{"fetch from another port", "POST", take, []string{"Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site"}, 403},
		{"POST from another port, of a browser that says no more", "POST", take, []string{"Origin: http://127.0.0.1:1"}, 403},
		{"POST from this host without a port", "POST", take, []string{"Origin: http://127.0.0.1"}, 403},
		{"img src from another port, of an old browser", "GET", take, []string{"Referer: http://127.0.0.1:1/page"}, 403},
		{"fetch from a name that ends like ours", "POST", take, []string{"Origin: http://evil.example#OWN"}, 403},
		{"fetch with our address as user", "POST", take, []string{"Origin: http://OWN@evil.example"}, 403},
		{"a word that is not known yet", "GET", take, []string{"Sec-Fetch-Site: neighbour-site"}, 403},
		{"preflight", "OPTIONS", take, []string{"Origin: https://evil.example", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization"}, 405},
		{"private network preflight", "OPTIONS", "/-/reload", []string{"Origin: https://evil.example", "Access-Control-Request-Private-Network: true"}, 405},
	}
}

// hostileWithoutKeys returns requests that are refused only if the file has no keys.
func hostileWithoutKeys() []hostile {
	take := "/pool/staging-login/token"
	return []hostile{
		{"DNS rebinding", "GET", take, []string{"Host: evil.example:8080", "Sec-Fetch-Site: same-origin"}, 421},
		{"DNS rebinding, POST", "POST", take, []string{"Host: evil.example", "Origin: http://evil.example", "Sec-Fetch-Site: same-origin"}, 421},
		{"DNS rebinding of the status", "GET", "/status", []string{"Host: rebind.example"}, 421},
		{"DNS rebinding of the metrics", "GET", "/metrics", []string{"Host: rebind.example"}, 421},
		{"a name under localhost", "GET", take, []string{"Host: evil.localhost"}, 421},
		{"localhost in front", "GET", take, []string{"Host: localhost.evil.example"}, 421},
		{"an address in front", "GET", take, []string{"Host: 127.0.0.1.evil.example"}, 421},
		{"the unspecified address", "GET", take, []string{"Host: 0.0.0.0:8080"}, 421},
		{"the unspecified address, v6", "GET", take, []string{"Host: [::]:8080"}, 421},
		{"an address in the network", "GET", take, []string{"Host: 192.168.1.2"}, 421},
		{"a short form", "GET", take, []string{"Host: 127.1"}, 421},
		{"a number", "GET", take, []string{"Host: 2130706433"}, 421},
		{"a proxy", "GET", take, []string{"Forwarded: for=192.0.2.1"}, 403},
		{"a proxy, as most say it", "GET", take, []string{"X-Forwarded-For: 192.0.2.1"}, 403},
		{"a proxy that names a host", "GET", "/status", []string{"x-forwarded-host: poold.example.com"}, 403},
		{"a proxy that names nothing", "GET", "/status", []string{"X-Forwarded-Proto: "}, 403},
		{"cross-site look at the status", "GET", "/status.json", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"cross-site style sheet", "GET", "/status.css", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: style"}, 403},
	}
}

// TestPagesOfOtherSitesAreRefused: a page of another site takes no token, changes nothing and
// sees nothing.
func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.config.reload, d.buyer.replay = nil, nil // a call of these functions panics
	for _, h := range append(hostileRequests(), hostileWithoutKeys()...) {
		a := d.ask(t, h.method, h.path, withOwnAddress(h.headers, d.addr)...)
		code := map[int]kernel.Code{403: kernel.CodeForbidden, 421: kernel.CodeMisdirected, 405: kernel.CodeMethod}[h.status]
		checkProblem(t, h.name, a, h.status, code, "")
		if a.header.Get("Access-Control-Allow-Origin") != "" || a.header.Get("Access-Control-Allow-Private-Network") != "" {
			t.Errorf("%s: the page may read the answer: %v", h.name, a.header)
		}
	}
	equal(t, "the stock was asked to", d.stock.countCalls(), 0)
}

// TestPagesOfOtherSitesCannotUseBasic: a browser that knows a key sends the key with every request.
// Each route that changes something therefore refuses requests from pages of other sites.
func TestPagesOfOtherSitesCannotUseBasic(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.config.reload, d.buyer.replay = nil, nil
	for _, h := range hostileRequests() {
		if h.path == "/status" {
			continue // reading the status is allowed; the CSP forbids the frame
		}
		d.ask(t, h.method, h.path, append(withOwnAddress(h.headers, d.addr), basic(keyAll))...).check(t, h.name, h.status)
	}
	equal(t, "the stock was asked to", d.stock.countCalls(), 0)
	d.fill(t, "staging-login", 2)
	// No page can make a browser send a Bearer token without a preflight.
	d.ask(t, "POST", "/pool/staging-login/token", bearer(keyAll), "Origin: https://app.example.com", "Sec-Fetch-Site: cross-site").check(t, "bearer", 200)
	// If the file has keys, a proxy and a public host name are normal.
	d.ask(t, "POST", "/pool/staging-login/token", basic(keyAll), "Host: poold.example.com", "Origin: https://poold.example.com", "X-Forwarded-For: 192.0.2.1").check(t, "behind a proxy", 200)
	d.ask(t, "GET", "/status", basic(keyAll), "Host: poold.example.com", "Sec-Fetch-Site: cross-site").check(t, "a link to the status", 200)
}

// TestLocalProgramsAndPagesAreServed: programs on this machine and the user's own browser are
// served.
func TestLocalProgramsAndPagesAreServed(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.fill(t, "staging-login", 10)
	for name, headers := range map[string][]string{
		"curl":           {"User-Agent: curl/8", "Accept: */*"},
		"localhost":      {"Host: localhost:8080"},
		"LOCALHOST":      {"Host: LOCALHOST"},
		"another 127":    {"Host: 127.8.9.10:99"},
		"v6":             {"Host: [::1]:8080"},
		"v6 alone":       {"Host: [::1]"},
		"typed":          {"Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-User: ?1"},
		"our own page":   {"Sec-Fetch-Site: same-origin", "Origin: http://OWN", "Referer: http://OWN/status"},
		"an old browser": {"Referer: http://OWN/status"},
		"an odd key":     {"Authorization: Bearer whatever"},
	} {
		d.ask(t, "POST", "/pool/staging-login/token", withOwnAddress(headers, d.addr)...).check(t, name, 200)
	}
	for _, path := range []string{"/healthz", "/readyz"} { // load balancers may send any Host
		d.ask(t, "GET", path, "Host: 10.1.2.3:8080", "X-Forwarded-For: 192.0.2.1").check(t, path, 200)
	}
}

// TestKeylessDaemonRefusesOtherMachines: after a reload that removes the keys, a daemon that
// listens to the network refuses other machines, even with a forged Host.
func TestKeylessDaemonRefusesOtherMachines(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), "GET", "/pool/staging-login/token", nil) // a request without a loopback socket
	request.Host = "localhost"
	d.Handler().ServeHTTP(recorder, request)
	if recorder.Code != 403 {
		t.Errorf("%d %s", recorder.Code, recorder.Body)
	}
}

// TestLoopbackHost tests Host headers that an HTTP client does not send.
func TestLoopbackHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost:1": true, "127.0.0.1": true, "::1": true, "[::ffff:127.0.0.1]:80": true,
		"": false, ":80": false, "[::1%lo]:80": false, "localhost:80:80": false, "localhost.": false, "[localhost": false, "127.0.0.1, evil.example": false,
		"[::ffff:192.0.2.1]": false, "0177.0.0.1": false, "localhost@evil.example": false, "evil.example#localhost": false,
	} {
		equal(t, host, loopbackHost(host), want)
	}
}

func withOwnAddress(headers []string, addr string) []string {
	replaced := make([]string, len(headers))
	for i, line := range headers {
		replaced[i] = strings.ReplaceAll(line, "OWN", addr)
	}
	return replaced
}
