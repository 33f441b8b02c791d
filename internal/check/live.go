package check

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/backend"
	"poold/internal/provider"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

// liveLimit is how long one provider has to answer.
const liveLimit = 20 * time.Second

// checkLive tries Redis, the stores of dedup and history, and each provider's key. It buys
// and changes nothing, and writes a line about each of them or about each fault. It returns
// the number of faults.
func checkLive(ctx context.Context, w io.Writer, set *targets.Set) (wrong int, err error) {
	say := func(who, what string, bad bool) {
		mark := "ok"
		if bad {
			mark = "WRONG"
			wrong++
		}
		if _, failed := fmt.Fprintf(w, "%-5s  %s: %s\n", mark, who, what); failed != nil {
			err = failed
		}
	}
	if set.Redis.Embedded() {
		say("redis", "embedded, keeps nothing over a restart", false)
	} else if err := tryRedis(ctx, set.Redis, say); err != nil {
		return wrong, err
	}
	tryStores(ctx, set, say)
	for _, p := range set.Providers {
		what, fault := tryProvider(ctx, p)
		if fault != nil {
			what = fault.Error()
		}
		say("provider "+p.Name, what, fault != nil)
	}
	return wrong, err
}

// tryRedis says how Redis would serve. Its error is about an address of the file.
func tryRedis(ctx context.Context, wanted targets.Redis, say func(who, what string, bad bool)) error {
	quiet := slog.New(slog.DiscardHandler)
	redis.SetLogger(backend.RedisLog{Log: quiet})
	store, err := redisdb.Open(redisdb.Options{
		Addresses: wanted.URL.Reveal(), SentinelMaster: wanted.SentinelMaster, Prefix: wanted.Prefix, Log: quiet,
	})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	found := store.Try(ctx)
	for _, fault := range found.Faults {
		say("redis", fault, true)
	}
	if len(found.Faults) == 0 {
		say("redis", fmt.Sprintf("%s, version %s, keeps an append-only file, evicts nothing, gives all rights", found.Where, cmp.Or(found.Version, "unknown")), false)
	}
	return nil
}

// tryProvider asks a provider for the account's balance, and for its threads where it
// sells them: then the balance may be 0.
func tryProvider(ctx context.Context, p targets.Provider) (what string, err error) {
	if p.API == targets.APISimulated {
		return "simulated, its tokens open nothing", nil
	}
	ctx, cancel := context.WithTimeout(ctx, liveLimit)
	defer cancel()
	config := backend.ProviderConfig(p)
	config.Balance = true
	client, err := provider.New(config)
	if err != nil {
		return "", err
	}
	defer client.Close()
	if err := client.ReadBalance(ctx); err != nil {
		return "", fmt.Errorf("the key or the service: %w", err)
	}
	threads, sold, err := client.Threads(ctx)
	if err != nil {
		return "", fmt.Errorf("asking for the threads: %w", err)
	}
	what = "takes the key"
	balance := client.State(time.Now()).Balance
	if balance != nil {
		what += fmt.Sprintf("; balance %.6g", *balance)
	}
	switch {
	case sold && threads == 0:
		return "", fmt.Errorf("%s, threads 0: nothing can be bought", what)
	case sold:
		return fmt.Sprintf("%s, threads %d (concurrency %d)", what, threads, p.Concurrency), nil
	case balance != nil && *balance <= 0:
		return "", fmt.Errorf("%s: nothing can be bought", what)
	}
	return what, nil
}
