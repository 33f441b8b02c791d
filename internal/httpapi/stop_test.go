package httpapi

import (
	"context"
	"testing"
)

// TestAnswersOfAStop: every answer that begins after the stop did tells its
// client not to use the connection again, whatever it is and whenever its
// request came.
func TestAnswersOfAStop(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	taking, goOn := make(chan struct{}), make(chan struct{})
	d.fill(t, "staging-login", 1)
	d.stock.taken = func(context.Context) {
		close(taking)
		<-goOn
	}
	early := make(chan answer, 1)
	go func() { early <- d.ask(t, "GET", "/pool/staging-login/token?wait=20s") }()
	<-taking
	if a := d.ask(t, "GET", "/healthz"); a.closing {
		t.Error("a connection ends without a stop")
	}
	d.Stopping()
	close(goOn)
	if a := <-early; a.status != 200 || !a.closing {
		t.Errorf("a request that came before: %d, closing %v", a.status, a.closing)
	}
	for _, request := range [][2]string{
		{"GET", "/pool/staging-login/token"}, {"POST", "/pool/staging-login/token"}, {"GET", "/pool/staging-login"}, {"POST", "/pool/staging-login/pause"},
		{"GET", "/status.json"}, {"GET", "/metrics"}, {"GET", "/healthz"}, {"GET", "/readyz"}, {"HEAD", "/healthz"}, {"GET", "/"},
		{"GET", "/no-such-path"}, {"PUT", "/healthz"}, {"GET", "/pool/no-such-target/token"}, {"POST", "/-/reload"}, {"POST", "/callback/solver/o-1/s1"},
	} {
		if a := d.ask(t, request[0], request[1]); !a.closing {
			t.Errorf("%s %s: %d leaves the connection open", request[0], request[1], a.status)
		}
	}
}
