//go:build !race

package solve_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/claims"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/redisdb"
	"poold/internal/testkit"
)

// storyClock is a schema of SQL functions for the current time. They read Unix milliseconds from a sequence that a
// test in a bubble can set. The search path finds them before the server's functions.
const storyClock = `
	create schema story;
	create sequence story.ms minvalue 0;
	create function story.clock_timestamp() returns timestamptz language sql volatile
		as $$select timestamptz 'epoch' + last_value * interval '1 millisecond' from story.ms$$;
	create function story.now() returns timestamptz language sql volatile as 'select story.clock_timestamp()';
	do $$begin execute format('alter database %I set search_path = story, pg_catalog', current_database()); end$$`

// The random stories also pass with the claims in PostgreSQL.
func TestDrawnStoriesInPostgres(t *testing.T) {
	server := postgrestest.Start(t)
	playDrawn(t, *drawnStories/2, func(t *testing.T) openClaims {
		t.Helper()
		address := server.Database(t)
		server.SQL(t, address, storyClock)
		return func(t *testing.T, r *drawnReplica) (claims.Store, func()) { return inPostgres(t, r, address) }
	})
}

// inPostgres opens the claims of a replica in a database with a storyClock.
func inPostgres(t *testing.T, r *drawnReplica, address string) (s claims.Store, stop func()) {
	t.Helper()
	db, err := postgres.Open(address, postgres.DefaultLimit, slog.New(slog.DiscardHandler))
	testkit.NoError(t, err)
	t.Cleanup(db.Close)
	testkit.NoError(t, db.Migrate(context.Background()))
	return &clockedStore{claims.InPostgres(db, "story"), db, &r.dead}, db.Close
}

// clockedStore is a claim store that sets the clock of its database before each step. Calls of a dead replica fail.
type clockedStore struct {
	claims.Store

	db   *postgres.DB
	dead *atomic.Bool
}

func (c *clockedStore) Load(ctx context.Context,
	key captcha.ID) (value []byte, version int64, now time.Time, err error) {
	if c.dead.Load() {
		return nil, 0, time.Time{}, redisdb.ErrDown
	}
	if err := c.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		_, err := tx.Exec(ctx, "select setval('story.ms', $1)", time.Now().UnixMilli())
		return err
	}); err != nil {
		return nil, 0, time.Time{}, err
	}
	return c.Store.Load(ctx, key)
}

func (c *clockedStore) Swap(ctx context.Context, key captcha.ID, version int64, to claims.Change) (bool, error) {
	if c.dead.Load() {
		return false, redisdb.ErrDown
	}
	return c.Store.Swap(ctx, key, version, to)
}
