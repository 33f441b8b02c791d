package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/backend"
	"poold/internal/cli"
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

// checkLive tries Redis, the stores of dedup and history, and the key of each provider, and prints one
// line for each. It buys nothing and writes only a short-lived key in Redis.
func checkLive(ctx context.Context, c *cli.Console, set *targets.Set) error {
	faults := 0
	var err error
	try := func(name string, limit time.Duration, trial func(context.Context) (string, error)) {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		mark := "ok   "
		text, fault := trial(limited)
		if fault != nil {
			mark, text = "error", fault.Error()
			faults++
		}
		err = errors.Join(err, c.Print(mark+"  "+name+": "+text))
	}
	try("redis", storeLimit, func(ctx context.Context) (string, error) { return tryRedis(ctx, set.Redis) })
	for _, d := range backend.Databases(set) {
		try("postgres of "+d.Key, storeLimit, func(ctx context.Context) (string, error) { return tryDatabase(ctx, d) })
	}
	if set.History.Backend == targets.HistoryDynamoDB {
		try("dynamodb of history", storeLimit, func(ctx context.Context) (string, error) { return tryTable(ctx, set.History) })
	}
	for _, p := range set.Providers {
		try("provider "+p.Name, providerLimit, func(ctx context.Context) (string, error) { return tryProvider(ctx, p) })
	}
	if err == nil && faults > 0 {
		err = fmt.Errorf("live checks failed: %d", faults)
	}
	return err
}

// openStores opens the stores as the start does, without a connection: their libraries know rules that the file does not.
func openStores(ctx context.Context, set *targets.Set) error {
	for _, d := range backend.Databases(set) {
		db, err := d.Open(slog.New(slog.DiscardHandler)) //nolint:contextcheck // Open does not connect
		if err != nil {
			return err
		}
		db.Close()
	}
	if set.History.Backend != targets.HistoryDynamoDB {
		return nil
	}
	table, err := dynamostore.Open(ctx, backend.TableOptions(set.History))
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	table.Close()
	return nil
}

func tryRedis(ctx context.Context, wanted targets.Redis) (string, error) {
	if wanted.Embedded() {
		return "embedded, keeps nothing over a restart", nil
	}
	quiet := slog.New(slog.DiscardHandler)
	redis.SetLogger(backend.RedisLog{Log: quiet})
	store, err := redisdb.Open(backend.RedisOptions(wanted, wanted.URL.Reveal(), quiet))
	if err != nil {
		return "", err
	}
	defer func() { _ = store.Close() }()
	found := store.Try(ctx)
	if len(found.Faults) > 0 {
		return "", errors.New(strings.Join(found.Faults, "; "))
	}
	return fmt.Sprintf("%s, version %s, keeps an append-only file, evicts nothing", found.Where, cmp.Or(found.Version, "unknown")), nil
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
	text = "version " + found.Server + map[postgres.Schema]string{
		postgres.SchemaReady: ", tables ready",
		postgres.SchemaOld:   "; the next start brings its tables up to date",
		postgres.SchemaNone:  "; the next start makes its tables",
	}[found.Schema]
	if found.Schema != postgres.SchemaReady || d.Key != "dedup.url" {
		return text, nil
	}
	other, err := d.Open(slog.New(slog.DiscardHandler)) //nolint:contextcheck // Open does not connect
	if err != nil {
		return "", err
	}
	defer other.Close()
	if !hears(ctx, db, other) {
		text += "; notifications are lost, as behind a pooler in transaction mode: shared tokens come up to a second later"
	}
	return text, nil
}

// hears reports whether a notification of one client reaches another one before ctx ends. With one client, a pooler may
// deliver the notification on the connection of its sender.
func hears(ctx context.Context, listener, sender *postgres.DB) bool {
	const channel = "poold_check"
	ctx, stop := context.WithCancel(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer stop()
	arrived := make(chan struct{}, 1)
	listening.Go(func() {
		_ = listener.Run(ctx, channel, func(string) {
			select {
			case arrived <- struct{}{}:
			default:
			}
		})
	})
	for {
		_ = sender.Do(ctx, func(ctx context.Context, tx postgres.Tx) error { return tx.Notify(ctx, channel, "") })
		select {
		case <-arrived:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
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
	if p.Protocol == targets.ProtocolSimulated {
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
	balance := client.Balance()
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
