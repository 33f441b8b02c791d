package httpapi

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/delivery"
	"poold/internal/pool"
	"poold/internal/status"
)

// longToken is as long as the tokens of the large services are.
var longToken = pool.Token{
	ID: "tok1", Value: strings.Repeat("03AFcWeA5", 67), // 603 bytes
	Provider: "solver", Born: day, Dies: day.Add(120 * time.Second), TTL: 78123 * time.Millisecond, Source: pool.FromPool,
}

// BenchmarkToken takes tokens over one kept-alive loopback connection.
func BenchmarkToken(b *testing.B) {
	d, conn := benchmarked(b)
	defer d()
	reader := bufio.NewReader(conn)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.WriteString(conn, "GET /pool/staging-login/token HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			b.Fatal(err)
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != 200 {
			b.Fatal(response, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}

func benchmarked(b *testing.B) (stop func(), conn net.Conn) {
	b.Helper()
	s := quietServer(false, audited(b))
	server := httptest.NewUnstartedServer(nil)
	server.Listener = delivery.CountListener(server.Listener)
	server.Config = s.HTTPServer()
	server.Start()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	return func() { _ = conn.Close(); server.Close() }, conn
}

// BenchmarkHandler is the same without a network: what this package itself costs.
func BenchmarkHandler(b *testing.B) {
	handler := quietServer(true, audited(b)).Handler()
	request := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/pool/staging-login/token", nil)
	request.Header.Set("Authorization", "Bearer "+keyAll)
	w := &nowhere{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		handler.ServeHTTP(w, request)
	}
	if w.status != 0 && w.status != 200 {
		b.Fatal(w.status)
	}
}

// quietServer logs nothing and has no dependencies, unless changes add them.
func quietServer(keys bool, changes ...func(*Deps)) *Server {
	set := sampleSet()
	if keys {
		set = sampleSet(allKeys()...)
	}
	config := &fakeConfig{}
	config.set.Store(set)
	deps := Deps{
		Config: config, Stock: endless{}, Refill: &fakeRefill{}, Metrics: NewMetrics("", ""),
		Buyer: &fakeBuyer{}, Status: status.NewCollector(status.Sources{}), Log: slog.New(slog.DiscardHandler),
	}
	for _, change := range changes {
		change(&deps)
	}
	return New(deps)
}

// audited adds an audit that works until the benchmark ends, and keeps nothing.
func audited(b *testing.B) func(*Deps) {
	auditor := history.NewAuditor(nothing{}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = auditor.Run(ctx) })
	b.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return func(d *Deps) { d.Auditor = auditor }
}

type nothing struct{}

func (nothing) WriteEntries(context.Context, []history.Entry) error { return nil }

// endless is a stock that never ends and remembers nothing.
type endless struct{ Stock }

func (endless) Take(context.Context, pool.Request) (pool.Token, error) { return longToken, nil }

// nowhere is a ResponseWriter that keeps nothing.
type nowhere struct {
	header http.Header
	status int
}

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(status int)      { w.status = status }
func (w *nowhere) FlushError() error           { return nil }

func (w *nowhere) SetWriteDeadline(time.Time) error { return nil }
