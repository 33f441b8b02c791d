package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/events"
	"poold/internal/testkit"
)

// load sends requests for tokens. It counts the outcomes.
type load struct {
	served, failed atomic.Int64 // number of tokens, and of answers that are neither a token nor a 503
	why            atomic.Value // reason of the last failure
	quick          atomic.Int64 // number of responses with 503 within 300 ms
	workers        sync.WaitGroup
}

// run starts concurrent callers that request tokens until ctx ends.
func (l *load) run(ctx context.Context, p *process, callers int, pause time.Duration) {
	for range callers {
		l.workers.Go(func() {
			client := &http.Client{Timeout: 10 * time.Second, Transport: daemontest.Checking(&http.Transport{})}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				began := time.Now()
				switch _, code, err := p.take(context.WithoutCancel(ctx), client, "login", "?wait=0s"); code {
				case http.StatusOK:
					l.served.Add(1)
				case http.StatusServiceUnavailable:
					if time.Since(began) < 300*time.Millisecond {
						l.quick.Add(1)
					}
				default:
					l.failed.Add(1)
					l.why.Store(fmt.Sprint(code, err))
				}
				time.Sleep(pause)
			}
		})
	}
}

// Redis is gone under load. When this is known, callers get a 503 immediately. Nothing is bought. When
// Redis is back, tokens are handed out, and nothing of the outage is left.
func TestRedisIsGoneUnderLoad(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	address, network := cuttable(t)
	w := newWorld(t, quick(), terms{depth: 40, redis: address, provider: ", concurrency: 30"})
	p := w.start(t)
	w.atRest(t, p, 30*time.Second)
	goroutines := p.metrics()["go_goroutines"]
	l := &load{}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	l.run(ctx, p, 10, 100*time.Millisecond)
	testkit.Within(t, 20*time.Second, "hand-outs", func() bool { return l.served.Load() > 20 })

	network.Stop()
	atOnce := func() {
		t.Helper()
		before := l.quick.Load()
		testkit.Within(t, 30*time.Second, "a 503 at once while Redis is known to be away",
			func() bool { return l.quick.Load() > before+20 })
	}
	atOnce()
	sold := ledger(t, w.provider).Totals.Submitted
	before := l.served.Load()
	atOnce()
	testkit.Equal(t, "tasks sold, without Redis", ledger(t, w.provider).Totals.Submitted, sold)
	testkit.Equal(t, "tokens handed out, without Redis", l.served.Load(), before)
	testkit.NoError(t, network.Start())
	testkit.Within(t, 20*time.Second, "tokens to be handed out again", func() bool { return l.served.Load() > before })
	p.tells(events.RedisUp)
	end()
	l.workers.Wait()
	w.atRest(t, p, 30*time.Second)
	if l.failed.Load() > 0 {
		t.Errorf("%d requests failed otherwise: %v", l.failed.Load(), l.why.Load())
	}
	bought, books := p.balance(), ledger(t, w.provider)
	testkit.Equal(t, "bought by poold's count", bought, books.Totals.Submitted)
	testkit.Within(t, 20*time.Second, "the goroutines to end",
		func() bool { return p.metrics()["go_goroutines"] <= goroutines+4 })
	t.Logf("%d served, %d times a quick 503, %d bought", l.served.Load(), l.quick.Load(), bought)
}
