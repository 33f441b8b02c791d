package backend

import (
	"context"
	"fmt"
	"log/slog"

	"poold/internal/captcha"
	"poold/internal/history/dynamostore"
	"poold/internal/postgres"
	"poold/internal/targets"
)

// Database describes a PostgreSQL database that pools.yaml names.
type Database struct {
	Key string // the key in pools.yaml that holds the address, such as "history.url"
	URL captcha.Secret
}

// Databases lists the PostgreSQL databases in the file.
func Databases(set *targets.Set) []Database {
	var all []Database
	if set.Dedup.Backend == targets.DedupPostgres {
		all = append(all, Database{"dedup.url", set.Dedup.URL})
	}
	if set.History.Backend == targets.HistoryPostgres {
		all = append(all, Database{"history.url", set.History.URL})
	}
	return all
}

// Open returns a client of the database. The client connects when it is first used.
func (d Database) Open(log *slog.Logger) (*postgres.DB, error) {
	db, err := postgres.Open(d.URL.Reveal(), postgres.Options{Log: log})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Key, err)
	}
	return db, nil
}

// TableOptions converts the section history to the options of the DynamoDB table.
func TableOptions(wanted targets.History) dynamostore.Options {
	return dynamostore.Options{Table: wanted.Table, Endpoint: wanted.Endpoint, Region: wanted.Region, Keep: wanted.Keep, KeepAudit: wanted.Audit, Active: wanted.ActiveItems}
}

// Store is a store outside Redis that pools.yaml names. It connects when it is first used.
type Store struct {
	Kind, Key string // postgres or dynamodb, and the key in pools.yaml
	Ready     string // what Init has done
	Init      func(context.Context) error
	Try       func(context.Context) (found string, err error) // checks the store and changes nothing
	Close     func()
}

// Stores opens the stores outside Redis. The caller closes them, also those that it gets with an error.
func Stores(ctx context.Context, set *targets.Set) (all []Store, err error) {
	for _, d := range Databases(set) {
		db, err := d.Open(slog.New(slog.DiscardHandler)) //nolint:contextcheck // Open does not connect
		if err != nil {
			return all, err
		}
		all = append(all, Store{"postgres", d.Key, "the tables of " + d.Key + " are ready", db.Migrate, db.Try, db.Close})
	}
	if set.History.Backend == targets.HistoryDynamoDB {
		table, err := dynamostore.Open(ctx, TableOptions(set.History))
		if err != nil {
			return all, fmt.Errorf("history: %w", err)
		}
		ready := "the table " + set.History.Table + " is ready"
		try := func(ctx context.Context) (string, error) { return ready, table.Check(ctx) }
		all = append(all, Store{"dynamodb", "history", ready, table.Init, try, table.Close})
	}
	return all, nil
}
