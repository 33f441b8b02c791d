package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"poold/internal/testkit"
)

// requestAndHangUp requests a token, waits for the given moment and then for the given duration,
// and hangs up. It reports whether the daemon sent a token nevertheless. It closes only its own
// direction of the connection, so that it can still receive data from the daemon.
func requestAndHangUp(t *testing.T, p *process, query string, moment <-chan struct{}, patience time.Duration) (received bool) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Error(err)
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(conn, "GET /pool/login/token%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", query); err != nil {
		t.Error(err)
	}
	<-moment
	time.Sleep(patience)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) { // ENOTCONN: the response arrived before the hang-up
		t.Error(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("reading what may be an answer: %v", err)
	}
	return strings.HasPrefix(string(answer), "HTTP/1.1 200 ")
}

// Callers of two replicas hang up while they wait, and while a slow Redis sends the reply that
// contains their token. Every solved token reaches a caller or the stock.
func TestHangingUpOverHTTP(t *testing.T) {
	// The first exchange on a new connection takes three times the delay. This time must be far
	// below one second, the timeout of an exchange.
	const depth, delay = 60, 150 // ms
	t.Parallel()
	address, network := cuttable(t)
	o := quick()
	o.Median, o.Min, o.Max = 4*time.Second, 3*time.Second, 6*time.Second
	w := newWorld(t, o, terms{
		depth: depth, redis: address, pace: "first_poll: 2500ms, poll_interval: 250ms", provider: ", concurrency: 200", timeout: "60s",
	})
	replicas := []*process{w.start(t), w.start(t)}
	testkit.Within(t, 20*time.Second, "the orders to be placed", func() bool { // on a busy machine the first orders land while the last ones are placed
		s := replicas[0].target("login")
		return s.InFlight+s.Fresh == depth
	})
	if _, err := network.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type": "latency", "attributes": {"latency": %d}}`, delay))); err != nil {
		t.Fatal(err)
	}

	random := rand.New(rand.NewPCG(5, 6))
	var received atomic.Int64
	var s targetStatus
	// leave reports whether a token was given back.
	leave := func(callers int, query string, longest int, moment func() bool) bool {
		t.Helper()
		before := s.Returned
		var all sync.WaitGroup
		now := make(chan struct{})
		for i := range callers {
			patience := time.Duration(random.IntN(longest)) * time.Millisecond
			all.Go(func() {
				if requestAndHangUp(t, replicas[i%2], query, now, patience) {
					received.Add(1)
				}
			})
		}
		testkit.Within(t, 60*time.Second, "the moment to leave in", moment)
		close(now)
		all.Wait()
		// Orders for callers that hung up continue, so there may be a surplus of tokens.
		testkit.Within(t, 60*time.Second, "every token to be somewhere and nothing to be under way", func() bool {
			s = replicas[1].target("login")
			return s.Waiting == 0 && s.InFlight == 0 && s.Fresh >= depth && s.Hits+s.Waited-s.Returned == received.Load() &&
				int(s.Bought) == ledger(t, w.provider).Totals.Submitted
		})
		t.Logf("%s: %d callers got a token so far, %d tokens were given back", query, received.Load(), s.Returned)
		return s.Returned > before
	}
	given := leave(120, "?wait=60s", 2000, func() bool {
		now := replicas[0].target("login")
		return now.Hits+now.Waited > 0
	})
	for n := 0; !given; n++ { // on a busy machine all tokens may come before the first caller leaves
		if n == 4 {
			t.Fatal("nobody left in the moment in question")
		}
		given = leave(120, "?wait=60s", 2*delay, func() bool { return true })
	}
	if received.Load() == 0 {
		t.Error("no caller got a token")
	}
	for n := 0; !leave(60, "?wait=0s", 2*delay, func() bool { return true }); n++ {
		if n == 4 {
			t.Fatal("nobody left while a token was handed out")
		}
	}
	replicas[1].balance()
}
