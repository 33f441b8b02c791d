package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"poold/internal/listener"
	"poold/internal/pool"
	"poold/internal/pool/tokenid"
	"poold/internal/solve"
	"poold/internal/status"
)

// longToken has the length of a typical token.
var longToken = pool.Token{
	Order: "tok1", Value: strings.Repeat("03AFcWeA5", 67), // 603 bytes
	Provider: "solver", Born: day, Dies: day.Add(120 * time.Second), TTL: 78123 * time.Millisecond, Source: pool.FromPool,
}

// quietServer returns a Server without a log. The Server has only the dependencies that the given
// changes add.
func quietServer(t testing.TB, changes ...func(*Deps)) *Server {
	config := &fakeConfig{}
	config.set.Store(sampleSet(allKeys()...))
	deps := Deps{
		Config: config, Solver: endlessStock{}, IDs: fixedIDs(t),
		Metrics: NewMetrics("", "", "", func() (none listener.Connections) { return none }, func() int64 { return 0 }),
		Buyer:   &fakeBuyer{}, Status: status.NewCollector(status.Sources{}), Log: slog.New(slog.DiscardHandler),
	}
	for _, change := range changes {
		change(&deps)
	}
	return New(deps)
}

// audited adds an audit.
func audited(d *Deps) { d.Audit = true }

// fixedIDs makes ids with a secret that it keeps.
func fixedIDs(t testing.TB) *tokenid.Secret { return tokenid.New(openStock(t).db, "{captcha}:secret") }

type endlessStock struct{ Solver }

func (endlessStock) Await(context.Context, solve.Request) (pool.Token, error) { return longToken, nil }

type discardWriter struct {
	header http.Header
	status int
}

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *discardWriter) WriteHeader(status int)      { w.status = status }
func (w *discardWriter) FlushError() error           { return nil }

func (w *discardWriter) SetWriteDeadline(time.Time) error { return nil }
