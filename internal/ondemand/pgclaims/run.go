package pgclaims

import (
	"context"
	"sync"

	"poold/internal/captcha"
	"poold/internal/postgres"
)

// Run receives the notifications about ended and released solves, and deletes ended claims, until ctx
// ends. If the server was down at the start, Run connects later. Without Run, all calls would keep
// failing in this case.
func (c *Claims) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { c.db.Sweep(ctx, c.o.Clean, c.deleteEnded) })
	return c.db.Run(ctx, channel, func(key string) { c.o.Wake(captcha.ID(key)) })
}

// deleteEnded deletes ended claims. It skips rows that another transaction has locked. The next call
// deletes these rows.
func (c *Claims) deleteEnded(ctx context.Context) error {
	return wrapError("deleting ended claims", c.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
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
