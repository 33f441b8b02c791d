package main

import (
	"context"
	"errors"
	"log/slog"

	"poold/internal/backend"
	"poold/internal/captcha"
	"poold/internal/ondemand"
	"poold/internal/ondemand/dedup"
	"poold/internal/ondemand/pgclaims"
	"poold/internal/ondemand/redisclaims"
	"poold/internal/postgres"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

// claims is where callers of /solve that ask for the same find each other.
type claims struct {
	ondemand.Claims
	savings

	look  *firstLook // nil = none is needed
	run   part       // nil = nothing is to be run
	close func()     // what it opened
}

// savings counts them.
type savings interface {
	ondemand.Savings
	Days(ctx context.Context) ([]dedup.SavingsDay, error)
}

// openClaims opens what the section dedup names, without waiting for it. wake is called with
// the keys of claims that changed.
func openClaims(ctx context.Context, wanted targets.Dedup, prefix string, redis *redisdb.DB, wake func(captcha.ID), log *slog.Logger) (claims, error) {
	if wanted.Backend != targets.DedupPostgres {
		kept := redisclaims.New(redis, redisclaims.Options{Wake: wake})
		return claims{Claims: kept, savings: kept, close: func() {}}, nil
	}
	db, look, err := openPostgres(ctx, "dedup.url", wanted.URL, prefix, log)
	if err != nil {
		return claims{}, err
	}
	kept := pgclaims.New(db, pgclaims.Options{Prefix: prefix, Wake: wake})
	return claims{Claims: kept, savings: kept, look: look, run: kept.Run, close: func() { look.end(); db.Close() }}, nil
}

// openPostgres opens the database that a key of the file names, and begins a look that makes
// its tables. A newer schema is the look's fault. A database that is away is none, because it
// may come later.
func openPostgres(ctx context.Context, key string, url captcha.Secret, prefix string, log *slog.Logger) (*postgres.DB, *firstLook, error) {
	db, err := backend.Database{Key: key, URL: url, Prefix: prefix}.Open(log) //nolint:contextcheck // it connects to nothing
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
