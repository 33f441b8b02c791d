//go:build !race

package redisstore_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/history/redisstore"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

var prefixes atomic.Int64

// opened opens the Redis at a place.
func opened(t testing.TB, p redistest.Place, prefix string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(redisdb.Options{
		Addresses: p.Addresses, SentinelMaster: p.SentinelMaster, Dial: p.Dial, Prefix: prefix, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Redis keeps the history as the suite wants it, in a cluster too.
func TestStore(t *testing.T) {
	for name, addresses := range map[string]string{
		"single":  "redis://" + redistest.Server(t),
		"cluster": "redis://" + strings.Join(redistest.Cluster(t), ",redis://"),
	} {
		t.Run(name, func(t *testing.T) {
			historytest.Test(t, over(redistest.Place{Addresses: addresses}))
			historytest.TestAudit(t, auditOver(redistest.Place{Addresses: addresses}))
		})
	}
}

// The embedded server does so too; it is slow, so that it is not asked for all.
func TestEmbedded(t *testing.T) {
	open := over(redistest.Place{Addresses: "redis://embedded", Dial: redistest.Embedded(t).Dial})
	for _, name := range []string{"ARecordComesBackWhole", "ARecordIsKeptOnce", "PagesFollowEachOther", "FromAndTo", "ADaysFigures"} {
		t.Run(name, func(t *testing.T) { historytest.Suite[name](t, open) })
	}
	openAudit := auditOver(redistest.Place{Addresses: "redis://embedded", Dial: redistest.Embedded(t).Dial})
	for _, name := range []string{"AnEntryComesBackWhole", "AnEntryIsKeptOnce", "EntriesOfOneMillisecond", "PagesOfEntries", "ADayByKey"} {
		t.Run(name, func(t *testing.T) { historytest.AuditSuite[name](t, openAudit) })
	}
}

// over opens two stores over one Redis under a prefix of their own.
func over(p redistest.Place) historytest.Open {
	return func(t testing.TB) []history.Store {
		s := stores(t, p)
		return []history.Store{s[0], s[1]}
	}
}

// auditOver does so for the audit.
func auditOver(p redistest.Place) historytest.OpenAudit {
	return func(t testing.TB) []history.Audit {
		s := stores(t, p)
		return []history.Audit{s[0], s[1]}
	}
}

func stores(t testing.TB, p redistest.Place) (s [2]*redisstore.Store) {
	prefix := fmt.Sprint("history", prefixes.Add(1))
	for i := range s {
		s[i] = redisstore.New(opened(t, p, prefix), redisstore.Options{})
	}
	return s
}
