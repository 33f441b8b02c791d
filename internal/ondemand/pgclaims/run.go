package pgclaims

import (
	"context"
	"errors"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/postgres"
	"poold/internal/redisdb"
)

// Run hears of solves that ended or were let go, and deletes what has ended, until ctx ends. Without it
// a server that comes up later is not used.
func (c *Claims) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { c.clean(ctx) })
	return c.db.Run(ctx, channel, func(key string) { c.o.Wake(captcha.ID(key)) })
}

func (c *Claims) clean(ctx context.Context) {
	ticker := time.NewTicker(c.o.Clean)
	defer ticker.Stop()
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err, fault := c.forget(ctx), ""
		// An outage of the server is logged by postgres.DB.Run.
		if err != nil && ctx.Err() == nil && (!errors.Is(err, redisdb.ErrDown) || errors.Is(err, postgres.ErrNoTable)) {
			fault = err.Error()
		}
		if fault != "" && fault != logged {
			c.o.Log.Error("postgres does not delete what has ended", "err", err)
		}
		logged = fault
	}
}

// forget deletes what has ended. Rows that a transaction is changing are left for the
// next time.
func (c *Claims) forget(ctx context.Context) error {
	return failed("deleting what has ended", c.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		for _, statement := range []string{
			`delete from captcha_cache where key in (select key from captcha_cache
				where kept_until <= clock_timestamp() for update skip locked)`,
			`update captcha_cache set solution = null where key in (select key from captcha_cache
				where ends_at <= clock_timestamp() and solution is not null for update skip locked)`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "delete from captcha_savings where day <= "+today+" - $1::integer", keptDays)
		return err
	}))
}
