package model_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/next/pool"
	"poold/internal/permits"
	old "poold/internal/pool"
	"poold/internal/redisdb/redistest"
)

// The benchmarks measure what one token of a target costs Redis, from the decision to its caller: two decisions, the
// life of the order, and the take. A budget of all targets is set, and one order is in flight. They compare the new
// core with the old one until it has taken its place.
//
//	go test ./internal/next/model -run xxx -bench Token -benchtime 2000x

func BenchmarkTokenNew(b *testing.B) {
	address, ctx := redistest.Server(b), context.Background()
	db := redis.NewClient(&redis.Options{Addr: address})
	p := pool.New(pool.Config{DB: db, Prefix: "c", Log: slog.New(slog.DiscardHandler)})
	if _, _, err := p.Beat(ctx); err != nil {
		b.Fatal(err)
	}
	query := pool.Query{ID: "a", Margin: time.Second, Lead: 20 * time.Second, Want: 1, Period: 30 * time.Second}
	redistest.CostOf(b, address, b.N, func(i int) {
		o := &pool.Order{
			Name: fmt.Sprint("o", i), ID: "a", Account: "main", Key: "main.k", Life: time.Minute, Concurrency: 9, Depth: 1, Horizon: 21 * time.Second,
			Facts: "{}", Price: 1, Budgets: []pool.Budget{{Scope: "all", PerDay: 10_000_000}},
		}
		steps := []func() error{
			func() error { _, err := p.Decide(ctx, pool.Changed, query); return err },
			func() error { _, _, err := p.Place(ctx, o); return err },
			func() error { _, err := p.Begin(ctx, o.Name, "n"); return err },
			func() error { _, err := p.Bought(ctx, o, fmt.Sprint("t", i), ""); return err },
			func() error {
				_, _, err := p.End(ctx, o, &pool.End{
					How: pool.Solved, Provider: "main", Value: fmt.Sprint("token ", i), Task: fmt.Sprint("t", i), Lifetime: time.Minute, Margin: time.Second, Lead: time.Second,
				})
				return err
			},
			func() error { _, err := p.Decide(ctx, pool.Changed, query); return err },
			func() error {
				_, err := p.Take(ctx, &pool.Call{Name: fmt.Sprint("c", i), ID: "a", Margin: time.Second, MostTickets: 9})
				return err
			},
		}
		for n, step := range steps {
			if err := step(); err != nil {
				b.Fatalf("step %d: %v", n, err)
			}
		}
	}).Report(b, 1)
}

func BenchmarkTokenOld(b *testing.B) {
	address, ctx := redistest.Server(b), context.Background()
	s, err := old.Open(old.Options{Addresses: "redis://" + address, Prefix: "c", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	permit := permits.New(s.DB)
	identity := captcha.Identity{Type: captcha.Turnstile, Sitekey: "k", Pageurl: "https://example.com/"}
	id := identity.ID()
	query := old.Query{ID: id, Margin: time.Second, Lead: 20 * time.Second, Want: 1}
	redistest.CostOf(b, address, b.N, func(i int) {
		order, task := old.Ref{Identity: id, Order: fmt.Sprint("o", i)}, fmt.Sprint("t", i)
		steps := []func() error{
			func() error { _, err := s.Tokens.LookAll(ctx, []old.Query{query}); return err },
			func() error { _, err := permit.Acquire(ctx, "main", order, 9, time.Minute, -1); return err },
			func() error {
				_, err := s.Orders.Book(ctx, old.Overall, order, old.Caps{PerDay: 10_000_000}, old.RedisTime(time.Now().Add(time.Hour).UnixMilli()))
				return err
			},
			func() error {
				_, err := s.Orders.Place(ctx, old.Order{Ref: order, Depth: 1, Margin: time.Second, Lead: 20 * time.Second, TTL: time.Minute, Price: 1, NotAfter: old.RedisTime(time.Now().Add(time.Hour).UnixMilli())})
				return err
			},
			func() error { _, err := s.Orders.MarkSubmitting(ctx, order); return err },
			func() error { _, err := s.Orders.ClaimTask(ctx, "main", task, order, time.Hour); return err },
			func() error { _, err := s.Orders.Submitted(ctx, order, task); return err },
			func() error {
				_, err := s.Orders.Settle(ctx, old.Landing{
					Ref: order, Call: task, Provider: "main", Task: task, Value: "token " + task, Lifetime: time.Minute, Lead: time.Second,
				})
				return err
			},
			func() error { return permit.Release(ctx, "main", order) },
			func() error { _, err := s.Tokens.LookAll(ctx, []old.Query{query}); return err },
			func() error { _, err := s.Tokens.Take(ctx, old.Request{ID: id, Margin: time.Second}); return err },
		}
		for n, step := range steps {
			if err := step(); err != nil {
				b.Fatalf("step %d: %v", n, err)
			}
		}
	}).Report(b, 1)
}
