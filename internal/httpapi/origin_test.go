package httpapi

import (
	"net/http/httptest"
	"strings"
	"testing"

	"poold/internal/targets"
	"poold/internal/testkit"
)

// TestPagesOfOtherSitesAreRefused: a browser's request for a page of another site takes no token and
// changes nothing, both without keys and with the Basic credentials that a browser adds.
func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	const take = "/pool/staging-login/token"
	for kind, set := range map[string]*targets.Set{"keyless": sampleSet(), "Basic": sampleSet(allKeys()...)} {
		d := start(t, set, nil, nil)
		d.config.reload, d.buyer.replay = nil, nil // a call of these functions panics
		for _, h := range []struct {
			name, method, path string
			headers            []string
		}{
			{"img src", "GET", take, []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image",
				"Referer: https://evil.example/"}},
			{"img src of an old browser", "GET", take, []string{"Referer: https://evil.example/page"}},
			{"img src from another port of this machine", "GET", take,
				[]string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Dest: image"}},
			{"img src from another port, of an old browser", "GET", take, []string{"Referer: http://127.0.0.1:1/page"}},
			{"form POST text/plain", "POST", take,
				[]string{"Origin: https://evil.example", "Content-Type: text/plain", "Sec-Fetch-Site: cross-site"}},
			{"form POST of an old browser", "POST", "/pool/staging-login/pause",
				[]string{"Origin: https://evil.example", "Content-Type: application/x-www-form-urlencoded"}},
			{"form POST of a replay", "POST", "/dead-letters/replay", []string{"Sec-Fetch-Site: cross-site"}},
			{"fetch that throws tokens away", "DELETE", "/pool/staging-login/tokens", []string{"Origin: https://evil.example"}},
			{"form POST from a sandbox", "POST", "/-/reload", []string{"Origin: null"}},
			{"POST from this host without a port", "POST", take, []string{"Origin: http://127.0.0.1"}},
			{"fetch with our address as user", "POST", take, []string{"Origin: http://OWN@evil.example"}},
			{"a word that is not known yet", "GET", take, []string{"Sec-Fetch-Site: neighbour-site"}},
		} {
			headers := withOwnAddress(h.headers, d.addr)
			if kind == "Basic" {
				headers = append(headers, basic(keyAll))
			}
			a := d.ask(t, h.method, h.path, headers...)
			checkProblem(t, kind+", "+h.name, a, 403, CodeForbidden, "")
		}
		testkit.Equal(t, kind+": the stock was asked to", d.stock.countCalls(), 0)
	}
}

// TestNamesOfOtherHostsAreMisdirected: without keys, a name that an attacker's DNS resolves to this
// machine is refused.
func TestNamesOfOtherHostsAreMisdirected(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	for _, host := range []string{
		"evil.example:8080", "evil.localhost", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0:8080",
		"[::]:8080", "192.168.1.2", "127.1", "2130706433", ":80", "localhost.", "0177.0.0.1", "[::ffff:192.0.2.1]",
	} {
		checkProblem(t, host, d.ask(t, "GET", "/status", "Host: "+host, "Sec-Fetch-Site: same-origin"), 421, CodeMisdirected,
			"")
	}
	for _, header := range []string{"Forwarded: for=192.0.2.1", "X-Forwarded-Proto: ",
		"x-forwarded-host: poold.example.com"} {
		checkProblem(t, header, d.ask(t, "GET", "/status", header), 403, CodeForbidden, "")
	}
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
	// a request without a loopback socket
	request := httptest.NewRequestWithContext(t.Context(), "GET", "/pool/staging-login/token", nil)
	request.Host = "localhost"
	d.handler.ServeHTTP(recorder, request)
	testkit.Equal(t, "status", recorder.Code, 403)
}

func withOwnAddress(headers []string, addr string) []string {
	replaced := make([]string, len(headers))
	for i, line := range headers {
		replaced[i] = strings.ReplaceAll(line, "OWN", addr)
	}
	return replaced
}
