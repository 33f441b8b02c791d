package redisdb

import (
	"cmp"
	"log/slog"
	"sync"
	"testing"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// opened opens a DB and closes it when the test ends.
func opened(t testing.TB, o Options) *DB {
	t.Helper()
	o.Prefix, o.Log = cmp.Or(o.Prefix, "captcha"), cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	db, err := Open(o)
	testkit.NoError(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return db
}

func running(t testing.TB, o Options) *DB {
	t.Helper()
	db := opened(t, o)
	var group sync.WaitGroup
	group.Go(func() { _ = db.Run(t.Context()) })
	t.Cleanup(group.Wait)
	return db
}
