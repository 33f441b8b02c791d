package permits_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/permits"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// The order that has a permit in each test.
var order = pool.Ref{Identity: captcha.Identity{Type: captcha.Turnstile, Sitekey: "x"}.ID(), Order: "order"}

// The methods of Permits, by their names.
var calls = map[string]func(ctx context.Context, s *permits.Permits) error{
	"Acquire": func(ctx context.Context, s *permits.Permits) error {
		_, err := s.Acquire(ctx, "p", pool.Ref{Identity: order.Identity, Order: "new"}, 9, time.Minute, -1)
		return err
	},
	"Release":         func(ctx context.Context, s *permits.Permits) error { return s.Release(ctx, "p", order) },
	"ReleaseUnplaced": func(ctx context.Context, s *permits.Permits) error { return s.ReleaseUnplaced(ctx, "p", order) },
	"Providers": func(ctx context.Context, s *permits.Permits) error {
		_, err := s.Providers(ctx)
		return err
	},
	"Holders": func(ctx context.Context, s *permits.Permits) error {
		_, err := s.Holders(ctx, "p")
		return err
	},
	"InFlight": func(ctx context.Context, s *permits.Permits) error {
		_, err := s.InFlight(ctx, []string{"p"})
		return err
	},
	"Standing": func(ctx context.Context, s *permits.Permits) error {
		_, err := s.Standing(ctx, "p")
		return err
	},
	"ProbeNow": func(ctx context.Context, s *permits.Permits) error {
		_, err := s.ProbeNow(ctx, "p")
		return err
	},
	"ReportFault": func(ctx context.Context, s *permits.Permits) error {
		return s.ReportFault(ctx, "p", permits.Fault{Kind: "outage"})
	},
	"ReportUp":       func(ctx context.Context, s *permits.Permits) error { return s.ReportUp(ctx, "p", 0) },
	"ReportRefusal":  func(ctx context.Context, s *permits.Permits) error { return s.ReportRefusal(ctx, "p") },
	"ReportAccepted": func(ctx context.Context, s *permits.Permits) error { return s.ReportAccepted(ctx, "p") },
}

// A call fails with ErrDown if Redis refuses any command of the call. No order then gets a permit. If
// Redis refuses every command, the call changes nothing.
func TestCallsFailIfRedisRefusesACommand(t *testing.T) {
	of := reflect.TypeFor[*permits.Permits]()
	for i := range of.NumMethod() {
		name := of.Method(i).Name
		if calls[name] == nil {
			t.Fatalf("calls lacks %s", name)
		}
		for n, more := 0, true; more; n++ {
			synctest.Test(t, func(t *testing.T) {
				redis := redistest.InBubble(t)
				open := func() *permits.Permits {
					db, err := redisdb.Open(redisdb.Options{Addresses: redistest.BubbleAddress, Prefix: "test", Dial: redis.Dial, Log: slog.New(slog.DiscardHandler)})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = db.Close() })
					return permits.New(db)
				}
				before, s := open(), open()
				if p, err := before.Acquire(t.Context(), "p", order, 9, time.Minute, -1); err != nil || !p.OK {
					t.Fatal(p, err)
				}
				was, end := redis.Dump(), redis.RefuseFrom(n)
				err := calls[name](t.Context(), s)
				refused := end()
				if more = len(refused) > 0; more != errors.Is(err, redisdb.ErrDown) || !more && err != nil {
					t.Errorf("%s, refused from command %d on (%v): %v", name, n, refused, err)
				}
				if n == 0 && redis.Dump() != was {
					t.Errorf("%s changed Redis without an answer:\n%s\nwas:\n%s", name, redis.Dump(), was)
				}
				if orders, err := before.Holders(t.Context(), "p"); more && (err != nil || len(orders) != 1) {
					t.Errorf("%s, refused from command %d on: %v have permits, %v", name, n, orders, err)
				}
			})
		}
	}
}
