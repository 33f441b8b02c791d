package check

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"poold/internal/backend"
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
func checkLive(ctx context.Context, p *printer, set *targets.Set, stores []backend.Store) error {
	faults := 0
	var err error
	try := func(name string, limit time.Duration, trial func(context.Context) (string, error)) {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		class := "ok"
		text, fault := trial(limited)
		if fault != nil {
			class, text = "error", fault.Error()
			faults++
		}
		err = errors.Join(err, p.print(finding{class, targets.Problem{Text: name + ": " + text}}))
	}
	try("redis", storeLimit, func(ctx context.Context) (string, error) { return tryRedis(ctx, set.Redis) })
	for _, s := range stores {
		try(s.Kind+" of "+s.Key, storeLimit, s.Try)
	}
	for _, p := range set.Providers {
		try("provider "+p.Name, providerLimit, func(ctx context.Context) (string, error) { return tryProvider(ctx, p) })
	}
	if err == nil && faults > 0 {
		err = fmt.Errorf("live checks failed: %d", faults)
	}
	return err
}

func tryRedis(ctx context.Context, wanted targets.Redis) (string, error) {
	if wanted.Embedded() {
		return "embedded, keeps nothing over a restart", nil
	}
	logging.Disable()
	store, err := redisdb.Open(backend.RedisOptions(wanted, wanted.URL.Reveal(), slog.New(slog.DiscardHandler)))
	if err != nil {
		return "", err
	}
	defer func() { _ = store.Close() }()
	return store.Try(ctx)
}

// tryProvider reads the balance of the account at a provider. If the service sells threads,
// tryProvider also reads the number of threads, and accepts a balance of 0.
func tryProvider(ctx context.Context, p targets.Provider) (text string, err error) {
	if p.Protocol == targets.ProtocolSimulated {
		return "simulated, no site accepts its tokens", nil
	}
	p.Balance = true
	client := provider.New(p, nil, func(string, string) {})
	defer client.Close()
	if err := client.ReadBalance(ctx); err != nil {
		if refused, is := errors.AsType[*provider.Error](err); is {
			if does, remedy := client.Advice(refused.Code); remedy != "" {
				err = fmt.Errorf("%w: the service %s: %s", err, does, remedy)
			}
		}
		return "", fmt.Errorf("reading the balance: %w", err)
	}
	threads, sold, err := client.Threads(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the threads: %w", err)
	}
	text = "accepts the key"
	balance := client.Balance()
	if balance == nil && !sold {
		text = "is not asked: it has no free call that tries the key"
	}
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
