package model_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/pool"
	"poold/internal/redisdb/redistest"
)

// BenchmarkToken measures what one token of a target costs Redis, from the decision to its caller: a decision, the
// life of the order, and the take. A budget of all targets is set, and one order is in flight.
//
//	go test ./internal/model -run xxx -bench Token -benchtime 2000x
func BenchmarkToken(b *testing.B) {
	address, ctx := redistest.Server(b), context.Background()
	db := redis.NewClient(&redis.Options{Addr: address})
	p := pool.New(pool.Config{DB: db, Prefix: "c", Log: slog.New(slog.DiscardHandler)})
	if _, _, err := p.Beat(ctx); err != nil {
		b.Fatal(err)
	}
	query := pool.Query{ID: "a", Margin: time.Second, Lead: 20 * time.Second, Want: 1, Period: 30 * time.Second}
	redistest.Report(b, address, 1, func(i int) {
		o := &pool.Order{
			Name: fmt.Sprint("o", i), ID: "a", Account: "main", Key: "main.k", Life: time.Minute, Concurrency: 9, Depth: 1, Horizon: 21 * time.Second,
			Facts: "{}", Price: 1, Budgets: []pool.Budget{{Scope: "all", PerDay: 10_000_000}},
		}
		steps := []func() error{
			func() error { _, err := p.Decide(ctx, query); return err },
			func() error { _, _, err := p.Place(ctx, o); return err },
			func() error { _, err := p.Begin(ctx, o.Name, "n"); return err },
			func() error { _, err := p.Bought(ctx, o, fmt.Sprint("t", i), ""); return err },
			func() error {
				_, _, err := p.End(ctx, o, &pool.End{
					How: pool.Solved, Provider: "main", Value: fmt.Sprint("token ", i), Task: fmt.Sprint("t", i), Lifetime: time.Minute, Margin: time.Second, Lead: time.Second,
				})
				return err
			},
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
	})
}
