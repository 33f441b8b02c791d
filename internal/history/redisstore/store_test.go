//go:build !race

package redisstore_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/history/redisstore"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	redistest.Main(m)
}

const week = 7 * 24 * time.Hour

var prefixes atomic.Int64

func openDB(t testing.TB, p redistest.Place, prefix string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(redisdb.Options{Addresses: p.Addresses, Dial: p.Dial, Prefix: prefix,
		Log: slog.New(slog.DiscardHandler)})
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// replicas returns a function that opens two stores of one Redis under a new prefix.
func replicas(p redistest.Place) historytest.Open {
	return func(t testing.TB, orders, handouts time.Duration) (list []history.Sink) {
		prefix := fmt.Sprint("history", prefixes.Add(1))
		for range 2 {
			list = append(list, redisstore.New(openDB(t, p, prefix), orders, handouts))
		}
		return list
	}
}

// Stores on each kind of Redis pass the suite.
func TestStore(t *testing.T) {
	for name, p := range map[string]redistest.Place{
		"single":   {Addresses: "redis://" + redistest.Server(t)},
		"cluster":  {Addresses: "redis://" + strings.Join(redistest.Cluster(t), ",redis://")},
		"embedded": {Addresses: "redis://embedded", Dial: redistest.Embedded(t).Dial},
	} {
		t.Run(name, func(t *testing.T) { historytest.Test(t, replicas(p)) })
	}
}
