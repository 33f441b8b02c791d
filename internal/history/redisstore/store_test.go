package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/history/redisstore"
	"poold/internal/pool"
	"poold/internal/pool/redistest"
)

const keep = 7 * 24 * time.Hour

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

var prefixes atomic.Int64

// archive opens the archive of a Redis under a prefix.
func archive(t testing.TB, addresses, prefix string, dial func(context.Context, string, string) (net.Conn, error)) *pool.Archive {
	store, err := pool.Open(pool.Options{Addresses: addresses, Prefix: prefix, Log: slog.New(slog.DiscardHandler), Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store.Archive
}

// Redis keeps the history as the suite wants it, in a cluster too.
func TestStore(t *testing.T) {
	for name, addresses := range map[string]string{
		"single":  "redis://" + redistest.Server(t),
		"cluster": "redis://" + strings.Join(redistest.Cluster(t), ",redis://"),
	} {
		t.Run(name, func(t *testing.T) { historytest.Test(t, over(addresses, nil)) })
	}
}

// The embedded server does so too; it is slow, so that it is not asked for all.
func TestEmbedded(t *testing.T) {
	open := over("redis://embedded", redistest.Embedded(t).Dial)
	for _, name := range []string{"ARecordComesBackWhole", "ARecordIsKeptOnce", "PagesFollowEachOther", "FromAndTo", "ADaysFigures"} {
		t.Run(name, func(t *testing.T) { historytest.Suite[name](t, open) })
	}
}

// over opens two stores over one Redis under a prefix of their own.
func over(addresses string, dial func(context.Context, string, string) (net.Conn, error)) historytest.Open {
	return func(t testing.TB) (stores []history.Store) {
		prefix := fmt.Sprint("history", prefixes.Add(1))
		for range 2 {
			stores = append(stores, redisstore.New(archive(t, addresses, prefix, dial), keep))
		}
		return stores
	}
}
