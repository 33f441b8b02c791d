package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/backend"
	"poold/internal/history/dynamostore"
	"poold/internal/postgres"
	"poold/internal/provider"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

const (
	providerLimit = 20 * time.Second // timeout for the requests to one provider
	storeLimit    = 5 * time.Second  // timeout for the requests to one store
)

// report writes one line about a check. The line contains the fault or, if fault is nil, the text.
type report func(name, text string, fault error)

// checkLive tries Redis, the stores of dedup and history, and the key of each provider. checkLive
// buys nothing and writes only a short-lived key in Redis. checkLive prints one line for each check
// and returns the number of faults.
func checkLive(ctx context.Context, w io.Writer, set *targets.Set) (faults int, err error) {
	say := func(name, text string, fault error) {
		mark := "ok"
		if fault != nil {
			mark, text = "error", fault.Error()
			faults++
		}
		if _, failed := fmt.Fprintf(w, "%-5s  %s: %s\n", mark, name, text); failed != nil {
			err = failed
		}
	}
	// try runs the function trial with a timeout and reports the outcome.
	try := func(name string, limit time.Duration, trial func(context.Context) (string, error)) {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		text, fault := trial(limited)
		say(name, text, fault)
	}
	if set.Redis.Embedded() {
		say("redis", "embedded, keeps nothing over a restart", nil)
	} else {
		tryRedis(ctx, set.Redis, say)
	}
	for _, d := range backend.Databases(set) {
		try("postgres of "+d.Key, storeLimit, func(ctx context.Context) (string, error) { return tryDatabase(ctx, d) })
	}
	if set.History.Backend == targets.HistoryDynamoDB {
		try("dynamodb of history", storeLimit, func(ctx context.Context) (string, error) { return tryTable(ctx, set.History) })
	}
	for _, p := range set.Providers {
		try("provider "+p.Name, providerLimit, func(ctx context.Context) (string, error) { return tryProvider(ctx, p) })
	}
	return faults, err
}

// tryRedis reports whether poold can use Redis.
func tryRedis(ctx context.Context, wanted targets.Redis, say report) {
	quiet := slog.New(slog.DiscardHandler)
	redis.SetLogger(backend.RedisLog{Log: quiet})
	store, err := redisdb.Open(redisdb.Options{
		Addresses: wanted.URL.Reveal(), SentinelMaster: wanted.SentinelMaster, Prefix: wanted.Prefix, Log: quiet,
	})
	if err != nil {
		say("redis", "", err)
		return
	}
	defer func() { _ = store.Close() }()
	found := store.Try(ctx)
	for _, fault := range found.Faults {
		say("redis", "", errors.New(fault))
	}
	if len(found.Faults) == 0 {
		say("redis", fmt.Sprintf("%s, version %s, keeps an append-only file, evicts nothing", found.Where, cmp.Or(found.Version, "unknown")), nil)
	}
}

// tryDatabase reads the version of a database and checks its tables.
func tryDatabase(ctx context.Context, d backend.Database) (text string, err error) {
	db, err := d.Open(slog.New(slog.DiscardHandler)) //nolint:contextcheck // Open does not connect
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

func tryTable(ctx context.Context, wanted targets.History) (text string, err error) {
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

// tryProvider reads the balance of the account at a provider. If the service sells threads,
// tryProvider also reads the number of threads, and accepts a balance of 0.
func tryProvider(ctx context.Context, p targets.Provider) (text string, err error) {
	if p.API == targets.APISimulated {
		return "simulated, no site accepts its tokens", nil
	}
	config := backend.ProviderConfig(p)
	config.Balance = true
	client, err := provider.New(config)
	if err != nil {
		return "", err
	}
	defer client.Close()
	if err := client.ReadBalance(ctx); err != nil {
		return "", fmt.Errorf("reading the balance: %w", err)
	}
	threads, sold, err := client.Threads(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the threads: %w", err)
	}
	text = "accepts the key"
	balance := client.State(time.Now()).Balance
	if balance != nil {
		text += fmt.Sprintf("; balance %.6g", *balance)
	}
	switch {
	case sold && threads == 0:
		return "", fmt.Errorf("%s, threads 0: nothing can be bought", text)
	case sold:
		return fmt.Sprintf("%s, threads %d (concurrency %d)", text, threads, p.Concurrency), nil
	case balance != nil && *balance <= 0:
		return "", fmt.Errorf("%s: nothing can be bought", text)
	}
	return text, nil
}
