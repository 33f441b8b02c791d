package ondemand

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/ondemand/pgclaims"
	"poold/internal/ondemand/redisclaims"
	"poold/internal/permits"
	"poold/internal/pool"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/purchase"
	"poold/internal/redisdb/redistest"
)

// endTimer is a Claims that stores the time at which a solve ends.
type endTimer struct {
	Claims
	ended *atomic.Int64 // Unix ns
}

func (c endTimer) End(ctx context.Context, key captcha.ID, fence int64, e dedup.ClaimEnd) (bool, error) {
	c.ended.Store(time.Now().UnixNano())
	return c.Claims.End(ctx, key, fence, e)
}

// BenchmarkWake uses real servers. It measures the time from the end of a shared solve until the last
// of 200 callers, at three replicas, has the token.
func BenchmarkWake(b *testing.B) {
	for _, backend := range []string{"redis", "postgres"} {
		b.Run(backend, func(b *testing.B) {
			var ended atomic.Int64
			replicas := replicasOn(b, backend, &ended)
			var took []time.Duration
			for i := range b.N {
				var callers sync.WaitGroup
				for n := range 200 {
					callers.Go(func() {
						if _, err := replicas[n%3].Solve(b.Context(), sharing(request(fmt.Sprint(i)))); err != nil {
							b.Error(err)
						}
					})
				}
				callers.Wait()
				took = append(took, time.Since(time.Unix(0, ended.Load())))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// replicasOn starts three replicas that keep their claims in the given backend.
func replicasOn(b *testing.B, backend string, ended *atomic.Int64) []*Service {
	b.Helper()
	log := slog.New(slog.DiscardHandler)
	address, database := redistest.Server(b), ""
	if backend == "postgres" {
		database = postgrestest.Start(b).Database(b)
	}
	seller := &service{lead: 300 * time.Millisecond, interval: 100 * time.Millisecond, tasks: map[string]task{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	run := func(part func(context.Context) error) { running.Go(func() { _ = part(ctx) }) }
	var services []*Service
	for range 3 {
		var s *Service
		store, err := pool.Open(pool.Options{
			Addresses: "redis://" + address, Prefix: "bench", Log: log,
			OnChange: func(id captcha.ID) { s.Wake(id) },
		})
		if err != nil {
			b.Fatal(err)
		}
		buyer := purchase.NewBuyer(struct {
			*pool.Orders
			*permits.Permits
		}{store.Orders, permits.New(store.DB)}, b.TempDir(), noObserver{}, log)
		buyer.SetProviders([]purchase.Entry{{Provider: seller, Concurrency: 50}})
		kept := redisclaims.New(store.DB, redisclaims.Options{Wake: func(key captcha.ID) { s.Wake(key) }})
		parts := Parts{
			Tokens: store.Tokens, Guests: store.Guests, Buyer: buyer, Savings: kept,
			HasTarget: func(captcha.ID) bool { return false }, Log: log,
		}
		parts.Claims = endTimer{kept, ended}
		if database != "" {
			db, err := postgres.Open(database, postgres.Options{Log: log})
			if err != nil {
				b.Fatal(err)
			}
			if err := db.Migrate(b.Context()); err != nil {
				b.Fatal(err)
			}
			claims := pgclaims.New(db, pgclaims.Options{Wake: func(key captcha.ID) { s.Wake(key) }})
			parts.Claims, parts.Savings = endTimer{claims, ended}, claims
			run(claims.Run)
			b.Cleanup(db.Close)
		}
		s = New(parts)
		run(store.Run)
		run(buyer.Run)
		run(s.Run)
		services = append(services, s)
		b.Cleanup(func() { _ = store.Close() })
	}
	b.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return services
}
