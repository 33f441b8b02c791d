package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"poold/internal/captcha"
	"poold/internal/history/dynamostore"
	"poold/internal/postgres"
	"poold/internal/targets"
)

// Store is a store outside Redis that pools.yaml names. It connects when it is first used.
type Store struct {
	Kind, Key string             // postgres or dynamodb, and the key in pools.yaml
	DB        *postgres.DB       // nil = it is the table
	Table     *dynamostore.Table // nil = it is a database
	Ready     string             // what Init has done
	Init      func(context.Context) error
	// Start prepares the store for the daemon. The error is a history.ErrDown, ctx's error, or a permanent one.
	Start func(context.Context) error
	Try   func(context.Context) (found string, err error) // checks the store and changes nothing
	Close func()
}

// Stores opens the stores outside Redis. The caller must close all returned stores, even if Stores also returns an
// error.
func Stores(ctx context.Context, set *targets.Set, log *slog.Logger) (all []Store, err error) {
	if set.Dedup.Backend == targets.DedupPostgres {
		all, err = addDatabase(all, "dedup.url", set.Dedup.URL, log) //nolint:contextcheck // it does not connect
		if err != nil {
			return all, err
		}
	}
	switch kept := set.History; kept.Backend {
	case targets.HistoryPostgres:
		return addDatabase(all, "history.url", kept.URL, log) //nolint:contextcheck // as above
	case targets.HistoryDynamoDB:
		table, err := dynamostore.Open(ctx, kept)
		if err != nil {
			return all, fmt.Errorf("history: %w", err)
		}
		ready := "the table " + kept.Table + " is ready"
		try := func(ctx context.Context) (string, error) { return ready, table.Check(ctx) }
		all = append(all, Store{
			Kind: "dynamodb", Key: "history", Table: table, Ready: ready, Init: table.Init, Start: table.Check, Try: try,
			Close: table.Close,
		})
	}
	return all, nil
}

func addDatabase(to []Store, key string, url captcha.Secret, log *slog.Logger) ([]Store, error) {
	db, err := postgres.Open(url.Reveal(), postgres.DefaultLimit, log)
	if err != nil {
		return to, fmt.Errorf("%s: %w", key, err)
	}
	start := func(ctx context.Context) error {
		if err := db.Migrate(ctx); errors.Is(err, postgres.ErrNewer) {
			return err
		}
		return ctx.Err() // db.Run tries again and logs every other fault
	}
	return append(to, Store{
		Kind: "postgres", Key: key, DB: db, Ready: "the tables of " + key + " are ready", Init: db.Migrate, Start: start,
		Try: db.Try, Close: db.Close,
	}), nil
}
