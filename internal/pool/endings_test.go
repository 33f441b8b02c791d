package pool

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/redisdb/redistest"
)

// idle opens a store without background work, so that days pass quickly in a bubble.
func idle(t *testing.T, redis *redistest.Bubble) *replica {
	t.Helper()
	s, err := openStore(Options{Addresses: "redis://bubble", Prefix: "test", Dial: redis.Dial, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// If a call that ends an order is retried, the order ends once, and the retry gets the same answer.
// A different call finds no order. Remembers returns true for as long as documented.
func TestEndingsAreRemembered(t *testing.T) {
	for _, solved := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			redis := redistest.InBubble(t)
			s, other := idle(t, redis), idle(t, redis)
			order := Ref{identity("x"), "order"}
			remembered := func(want bool) {
				t.Helper()
				if got, err := other.Remembers(t.Context(), order); err != nil || got != want {
					t.Errorf("remembers = %v, %v; want %v", got, err, want)
				}
			}
			end := func(call string, want EndResult) {
				t.Helper()
				var how EndResult
				var err error
				if solved {
					how, err = s.Settle(t.Context(), Landing{Ref: order, Call: call, Provider: "p", Value: "v", Lifetime: 2 * time.Minute})
				} else {
					how, err = s.Fail(t.Context(), Failure{Ref: order, Call: call, Bought: true})
				}
				if err != nil || how != want {
					t.Errorf("ending it by %q = %v, %v; want %v", call, how, err, want)
				}
			}
			end("first", Gone)
			remembered(false)
			place(t, s, order.Identity, order.Order)
			remembered(false)
			end("first", Ended)
			end("first", Ended)
			end("second", Gone)
			end("", Gone)
			end("first", Ended)
			known := time.Minute
			if solved {
				known = 2*time.Minute + saleKept
			}
			time.Sleep(known - time.Millisecond)
			remembered(true)
			end("first", Ended)
			time.Sleep(2 * time.Millisecond)
			remembered(false)
			end("first", Gone)
			figures := look(t, s, order.Identity).Figures
			if want := map[bool][2]int64{true: {1, 0}, false: {0, 1}}[solved]; figures.Solved != want[0] || figures.Failed != want[1] {
				t.Errorf("%d solved, %d failed, want %v", figures.Solved, figures.Failed, want)
			}
		})
	}
}
