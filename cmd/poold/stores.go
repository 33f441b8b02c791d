package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/backend"
	"poold/internal/claims"
	"poold/internal/history"
	"poold/internal/history/pgstore"
	"poold/internal/history/redisstore"
	"poold/internal/targets"
)

// lookWait limits how long the start waits for the first checks of all stores together.
const lookWait = 2 * time.Second

// stores are the stores of the history and of the claims of shared solves. No store is connected at
// the start: while one is unavailable, the rows of the history wait in Redis.
type stores struct {
	opened []backend.Store
	sink   history.Sink          // nil if no history is kept
	health func() history.Health // nil if no history is kept
	active bool                  // the sender needs the rows of purchases; see purchase.Config
	runs   []part
	claims claims.Store
}

// openStores opens the stores that the sections history and dedup select, without a connection.
func (d *daemon) openStores(ctx context.Context, set *targets.Set) (err error) {
	s, kept := &d.stores, set.History
	if s.opened, err = backend.Stores(ctx, set, d.log); err != nil {
		return err
	}
	s.claims = claims.InRedis(d.redis)
	if kept.Backend == targets.HistoryRedis {
		s.sink = redisstore.New(d.redis, kept.Keep, kept.Audit)
	}
	for _, store := range s.opened {
		switch {
		case store.Table != nil:
			s.sink, s.active = store.Table, kept.ActiveItems
		case store.Key == "dedup.url":
			shared := claims.InPostgres(store.DB, d.redis.Prefix)
			s.claims, s.runs = shared, append(s.runs, shared.Run)
		default:
			rows := pgstore.New(store.DB, kept.Keep, kept.Audit)
			s.sink, s.runs = rows, append(s.runs, rows.Run)
		}
	}
	if s.sink != nil {
		sender := history.NewSender(d.pool, s.sink, d.log)
		s.health, s.runs = sender.Health, append(s.runs, sender.Run)
	}
	return s.check(ctx, d.log)
}

// check checks all stores at the same time. An error means that this program cannot use a store, such as
// one with another shape. The start goes on without a store that does not answer.
func (s *stores) check(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	var checks errgroup.Group
	for _, store := range s.opened {
		checks.Go(func() error {
			err := store.Start(ctx)
			if err != nil && ctx.Err() == nil && !errors.Is(err, history.ErrDown) {
				return fmt.Errorf("%s: %w", store.Key, err)
			}
			if err != nil {
				log.Warn("a store does not answer; the start goes on without it", "store", store.Key, "err", err)
			}
			return nil
		})
	}
	return checks.Wait()
}

func (s *stores) close() {
	for _, store := range s.opened {
		store.Close()
	}
}
