//go:build !race

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

	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/history/redisstore"
	"poold/internal/pool"
	"poold/internal/redisdb/redistest"
)

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
		t.Run(name, func(t *testing.T) {
			historytest.Test(t, over(addresses, nil))
			historytest.TestAudit(t, auditOver(addresses, nil))
		})
	}
}

// The embedded server does so too; it is slow, so that it is not asked for all.
func TestEmbedded(t *testing.T) {
	open := over("redis://embedded", redistest.Embedded(t).Dial)
	for _, name := range []string{"ARecordComesBackWhole", "ARecordIsKeptOnce", "PagesFollowEachOther", "FromAndTo", "ADaysFigures"} {
		t.Run(name, func(t *testing.T) { historytest.Suite[name](t, open) })
	}
	openAudit := auditOver("redis://embedded", redistest.Embedded(t).Dial)
	for _, name := range []string{"AnEntryComesBackWhole", "AnEntryIsKeptOnce", "EntriesOfOneMillisecond", "PagesOfEntries", "ADayByKey"} {
		t.Run(name, func(t *testing.T) { historytest.AuditSuite[name](t, openAudit) })
	}
}

// over opens two stores over one Redis under a prefix of their own.
func over(addresses string, dial func(context.Context, string, string) (net.Conn, error)) historytest.Open {
	return func(t testing.TB) []history.Store {
		s := opened(t, addresses, dial)
		return []history.Store{s[0], s[1]}
	}
}

// auditOver does so for the audit.
func auditOver(addresses string, dial func(context.Context, string, string) (net.Conn, error)) historytest.OpenAudit {
	return func(t testing.TB) []history.Audit {
		s := opened(t, addresses, dial)
		return []history.Audit{s[0], s[1]}
	}
}

func opened(t testing.TB, addresses string, dial func(context.Context, string, string) (net.Conn, error)) (s [2]*redisstore.Store) {
	prefix := fmt.Sprint("history", prefixes.Add(1))
	for i := range s {
		s[i] = redisstore.New(archive(t, addresses, prefix, dial), redisstore.Options{})
	}
	return s
}
