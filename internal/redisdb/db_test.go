package redisdb

import (
	"cmp"
	"log/slog"
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
		testkit.NoError(t, db.Close())
	})
	return db
}

func running(t testing.TB, o Options) *DB {
	t.Helper()
	db := opened(t, o)
	testkit.Run(t, db.Run)
	return db
}
