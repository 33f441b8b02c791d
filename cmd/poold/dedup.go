package main

import (
	"context"
	"errors"
	"log/slog"

	"poold/internal/backend"
	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/ondemand/pgclaims"
	"poold/internal/ondemand/redisclaims"
	"poold/internal/postgres"
	"poold/internal/redisdb"
	"poold/internal/solve"
	"poold/internal/targets"
)

// claims is the store of the claims on shared solves, with its background work.
type claims struct {
	solve.Claims
	savings

	db    *postgres.DB // nil if the claims are in Redis
	look  *firstLook   // nil if the start does not check this store
	run   part         // nil if the store has no background work
	close func()       // closes the store
}

// savings counts the requests that got a token from a shared solve, and returns the counts of each
// day.
type savings interface {
	solve.Savings
	Days(ctx context.Context) ([]dedup.SavingsDay, error)
}

// openClaims opens the store that the section dedup of pools.yaml selects. It does not wait for a
// connection. The store calls the function wake with the key of each claim that changed.
func openClaims(ctx context.Context, wanted targets.Dedup, prefix string, redis *redisdb.DB, wake func(captcha.ID), log *slog.Logger) (claims, error) {
	if wanted.Backend != targets.DedupPostgres {
		kept := redisclaims.New(redis, redisclaims.Options{Wake: wake})
		return claims{Claims: kept, savings: kept, close: func() {}}, nil
	}
	db, look, err := openPostgres(ctx, "dedup.url", wanted.URL, log)
	if err != nil {
		return claims{}, err
	}
	kept := pgclaims.New(db, pgclaims.Options{Prefix: prefix, Wake: wake})
	return claims{Claims: kept, savings: kept, db: db, look: look, run: kept.Run, close: func() { look.end(); db.Close() }}, nil
}

// openPostgres opens the PostgreSQL database with the address in the argument url. The argument key
// is the name of this setting in pools.yaml. openPostgres also starts a background check that
// creates the missing tables. The check fails if the schema is newer than this program. It does not
// fail if the database is unreachable, because the database may become reachable later.
func openPostgres(ctx context.Context, key string, url captcha.Secret, log *slog.Logger) (*postgres.DB, *firstLook, error) {
	db, err := backend.Database{Key: key, URL: url}.Open(log) //nolint:contextcheck // Open does not connect
	if err != nil {
		return nil, nil, err
	}
	return db, lookAt(ctx, key, func(ctx context.Context) error {
		if err := db.Migrate(ctx); errors.Is(err, postgres.ErrNewer) {
			return err
		}
		return nil
	}), nil
}
