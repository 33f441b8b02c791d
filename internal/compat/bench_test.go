package compat

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/redisdb/redistest"
)

// BenchmarkTask alternates a task and a take on an otherwise idle Redis. A task consists of a
// submission and a poll, and the poll gets a pooled token. The metric "x-take" is the duration of
// the task divided by the duration of the take.
func BenchmarkTask(b *testing.B) {
	log := slog.New(slog.DiscardHandler)
	store, err := pooltest.Open(pool.Options{Addresses: "redis://" + redistest.Server(b), Prefix: "captcha", Log: log})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	tasks := New(NewRecords(store.DB), store.Tokens, nil, log)
	on := Terms{Take: pool.Request{ID: target, Caller: caller, MaxWaiting: 20}, Supply: &supply{}}
	terms := func(Task) (Terms, error) { return on, nil }
	var takes, both time.Duration
	orders := 0
	for b.Loop() {
		for range 2 {
			orders++
			ref := pool.Ref{Identity: target, Order: fmt.Sprint("order", orders)}
			if _, err := store.Place(b.Context(), pool.Order{Ref: ref, Depth: 1000, TTL: time.Minute}); err != nil {
				b.Fatal(err)
			}
			if _, err := store.Settle(b.Context(), pool.Landing{Ref: ref, Provider: "p", Value: ref.Order, Lifetime: time.Minute}); err != nil {
				b.Fatal(err)
			}
		}
		began := time.Now()
		if _, err := store.Take(b.Context(), on.Take); err != nil {
			b.Fatal(err)
		}
		taken := time.Now()
		number, err := tasks.Submit(b.Context(), Task{Caller: caller, Identity: target, Type: captcha.Turnstile}, on)
		if err == nil {
			_, err = tasks.Poll(b.Context(), number, caller, terms)
		}
		if err != nil {
			b.Fatal(err)
		}
		takes, both = takes+taken.Sub(began), both+time.Since(taken)
	}
	b.ReportMetric(float64(both)/float64(takes), "x-take")
	tasks.stop()
	tasks.waiters.Wait()
}
