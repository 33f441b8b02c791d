package check

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"poold/internal/backend"
	"poold/internal/history/dynamostore"
	"poold/internal/postgres"
	"poold/internal/targets"
)

// storeLimit is how long one store has to answer.
const storeLimit = 5 * time.Second

// tryStores says how the stores of the sections dedup and history would serve.
func tryStores(ctx context.Context, set *targets.Set, say func(who, what string, bad bool)) {
	tell := func(who string, try func(context.Context) (string, error)) {
		limited, cancel := context.WithTimeout(ctx, storeLimit)
		defer cancel()
		what, fault := try(limited)
		if fault != nil {
			what = fault.Error()
		}
		say(who, what, fault != nil)
	}
	for _, d := range backend.Databases(set) {
		tell("postgres of "+d.Key, func(ctx context.Context) (string, error) { return tryDatabase(ctx, d) })
	}
	if set.History.Backend == targets.HistoryDynamoDB {
		tell("dynamodb of history", func(ctx context.Context) (string, error) { return tryTable(ctx, set.History) })
	}
}

// tryDatabase asks a database for its version and for the tables.
func tryDatabase(ctx context.Context, d backend.Database) (what string, err error) {
	db, err := d.Open(slog.New(slog.DiscardHandler)) //nolint:contextcheck // it connects to nothing
	if err != nil {
		return "", err
	}
	defer db.Close()
	found, err := db.Try(ctx)
	if err != nil {
		return "", err
	}
	return "version " + found.Server + map[postgres.Schema]string{
		postgres.SchemaReady: ", tables ready",
		postgres.SchemaOld:   "; the next start brings its tables up to date",
		postgres.SchemaNone:  "; the next start makes its tables",
	}[found.Schema], nil
}

// tryTable asks DynamoDB for the table.
func tryTable(ctx context.Context, wanted targets.History) (what string, err error) {
	table, err := dynamostore.Open(ctx, backend.TableOptions(wanted))
	if err != nil {
		return "", err
	}
	defer table.Close()
	if err := table.Check(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("the table %s is ready", wanted.Table), nil
}
