//go:build !race

package solve_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/ondemand/pgclaims"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/redisdb"
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
		return func(t *testing.T, r *drawnReplica) claimStore { return inPostgres(t, r, address) }
	})
}

// inPostgres opens the claims of a replica in a database with a storyClock. Claims.Run does not run, so the replica
// gets no notifications.
func inPostgres(t *testing.T, r *drawnReplica, address string) claimStore {
	t.Helper()
	db, err := postgres.Open(address, postgres.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	c := &clockedClaims{Claims: pgclaims.New(db, pgclaims.Options{Prefix: "story", Wake: func(captcha.ID) {}}), db: db, dead: &r.dead}
	return claimStore{c, c, db.Close}
}

// clockedClaims is a claim store that sets the clock of its database before each call. Calls of a dead replica fail.
type clockedClaims struct {
	*pgclaims.Claims

	db   *postgres.DB
	dead *atomic.Bool
}

func (c *clockedClaims) set(ctx context.Context) error {
	if c.dead.Load() {
		return redisdb.ErrDown
	}
	return c.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		_, err := tx.Exec(ctx, "select setval('story.ms', $1)", time.Now().UnixMilli())
		return err
	})
}

func (c *clockedClaims) Enter(ctx context.Context, e dedup.ClaimEntry) (dedup.Claim, error) {
	if err := c.set(ctx); err != nil {
		return dedup.Claim{}, err
	}
	return c.Claims.Enter(ctx, e)
}

func (c *clockedClaims) Hold(ctx context.Context, key captcha.ID, fence int64, id captcha.ID) (mine, wanted bool, err error) {
	if err := c.set(ctx); err != nil {
		return false, false, err
	}
	return c.Claims.Hold(ctx, key, fence, id)
}

func (c *clockedClaims) Release(ctx context.Context, key captcha.ID, fence int64, id captcha.ID) error {
	if err := c.set(ctx); err != nil {
		return err
	}
	return c.Claims.Release(ctx, key, fence, id)
}

func (c *clockedClaims) End(ctx context.Context, key captcha.ID, fence int64, e dedup.ClaimEnd) (bool, error) {
	if err := c.set(ctx); err != nil {
		return false, err
	}
	return c.Claims.End(ctx, key, fence, e)
}

func (c *clockedClaims) Count(ctx context.Context, requests map[dedup.SavingsSource]int) error {
	if err := c.set(ctx); err != nil {
		return err
	}
	return c.Claims.Count(ctx, requests)
}
