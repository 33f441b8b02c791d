package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/backend"
	"poold/internal/captcha"
	"poold/internal/claims"
	"poold/internal/history"
	"poold/internal/history/dynamostore"
	"poold/internal/history/pgstore"
	"poold/internal/history/redisstore"
	"poold/internal/postgres"
	"poold/internal/targets"
)

// lookWait limits how long the start waits for the first checks of all stores together.
const lookWait = 2 * time.Second

// stores are the stores of the history and of the claims of shared solves. No store is connected at
// the start: while one is unavailable, the rows of the history wait in Redis.
type stores struct {
	sink    history.Sink // nil if no history is kept
	sender  *history.Sender
	active  bool // the sender needs the rows of purchases; see purchase.Config
	runs    []part
	claims  claims.Store
	dbs     map[string]*postgres.DB // by the key of the address in pools.yaml
	checks  map[string]storeCheck   // by the key in pools.yaml
	closers []func()
}

// storeCheck returns the fault of a store. An error that isDown lets the start go on.
type storeCheck func(context.Context) error

// openStores opens the stores that the sections history and dedup select, without a connection.
func (d *daemon) openStores(ctx context.Context, set *targets.Set) error {
	s := &d.stores
	s.dbs, s.checks = map[string]*postgres.DB{}, map[string]storeCheck{}
	wanted := set.History
	switch wanted.Backend {
	case targets.HistoryPostgres:
		db, err := s.openPostgres("history.url", wanted.URL, d.log) //nolint:contextcheck // it does not connect
		if err != nil {
			return err
		}
		kept := pgstore.New(db, wanted.Keep, wanted.Audit)
		s.sink, s.runs = kept, append(s.runs, kept.Run)
	case targets.HistoryDynamoDB:
		table, err := dynamostore.Open(ctx, backend.TableOptions(wanted))
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		s.sink, s.active, s.checks["history"] = table, wanted.ActiveItems, table.Check
		s.closers = append(s.closers, table.Close)
	case targets.HistoryRedis:
		s.sink = redisstore.New(d.redis, wanted.Keep, wanted.Audit)
	}
	if s.sink != nil {
		s.sender = history.NewSender(d.pool, s.sink, d.log)
		s.runs = append(s.runs, s.sender.Run)
	}
	s.claims = claims.InRedis(d.redis)
	if set.Dedup.Backend == targets.DedupPostgres {
		db, err := s.openPostgres("dedup.url", set.Dedup.URL, d.log) //nolint:contextcheck // it does not connect
		if err != nil {
			return err
		}
		s.claims = claims.InPostgres(db, d.redis.Prefix)
	}
	return s.check(ctx, d.log)
}

// openPostgres opens the database of a section. Its check makes the missing tables.
func (s *stores) openPostgres(key string, url captcha.Secret, log *slog.Logger) (*postgres.DB, error) {
	db, err := backend.Database{Key: key, URL: url}.Open(log)
	if err != nil {
		return nil, err
	}
	s.dbs[key], s.checks[key] = db, func(ctx context.Context) error {
		if err := db.Migrate(ctx); errors.Is(err, postgres.ErrNewer) {
			return err
		}
		return ctx.Err() // db.Run tries again and logs every other fault
	}
	s.closers = append(s.closers, db.Close)
	return db, nil
}

// check checks all stores at the same time. An error means that this program cannot use a store, such as
// one with another shape. The start goes on without a store that does not answer.
func (s *stores) check(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	var checks errgroup.Group
	for key, check := range s.checks {
		checks.Go(func() error {
			err := check(ctx)
			if err != nil && ctx.Err() == nil && !errors.Is(err, history.ErrDown) {
				return fmt.Errorf("%s: %w", key, err)
			}
			if err != nil {
				log.Warn("a store does not answer; the start goes on without it", "store", key, "err", err)
			}
			return nil
		})
	}
	return checks.Wait()
}

func (s *stores) close() {
	for _, end := range s.closers {
		end()
	}
}

// health returns the source of the history's health, or nil if no history is kept.
func (s *stores) health() func() history.Health {
	if s.sender == nil {
		return nil
	}
	return s.sender.Health
}
