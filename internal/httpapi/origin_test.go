package httpapi

import (
	"net/http/httptest"
	"strings"
	"testing"

	"poold/internal/targets"
	"poold/internal/testkit"
)

// TestStrangersTakeNothing: without keys, only programs of this machine and the user's own pages get a token, and with
// keys, no page of another site gets one by the Basic credentials that a browser adds. In testdata/strangers.txt, OWN
// is the daemon's address. The line below the headers of a request has the code of the answer without keys, that of the
// answer to the same request with a Basic, and the sender. TestEachRouteRefusesExactly has the other routes.
func TestStrangersTakeNothing(t *testing.T) {
	for i, set := range []*targets.Set{sampleSet(), sampleSet(allKeys()...)} {
		d := start(t, set, nil, nil)
		eachCase(t, "strangers.txt", func(headers, want string) {
			list := strings.Split(strings.ReplaceAll(headers, "OWN", d.addr), "; ")
			if len(set.Server.Keys) > 0 {
				list = append(list, basic(keyAll))
			}
			code := Code(strings.Fields(want)[i])
			for _, method := range []string{"GET", "POST"} {
				if code == "served" {
					d.fill(t, "staging-login", 1)
				}
				a := d.ask(t, method, "/pool/staging-login/token", list...)
				if code == "served" {
					a.check(t, want, 200)
				} else {
					checkProblem(t, want, a, NewProblem(code, "").Status, code, "")
				}
			}
		})
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
