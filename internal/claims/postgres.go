package claims

import (
	"context"
	"errors"
	"time"

	"poold/internal/captcha"
	"poold/internal/postgres"
)

// sweepEvery is the interval between two deletions of expired rows.
const sweepEvery = 5 * time.Second

// Postgres is a Store in the table captcha_cache.
type Postgres struct {
	db     *postgres.DB
	prefix string // with a colon
}

// InPostgres returns the Store of an installation in a database. Other installations with other prefixes may share the
// database. The caller closes db.
func InPostgres(db *postgres.DB, prefix string) *Postgres { return &Postgres{db, prefix + ":"} }

// Run runs db, and deletes expired rows until ctx ends.
func (s *Postgres) Run(ctx context.Context) error { return s.db.Run(ctx, sweepEvery, s.sweep) }

// down returns an error that is also a redisdb.ErrDown if the server is down.
func down(err error) error {
	if errors.Is(err, postgres.ErrDown) {
		return downError{err}
	}
	return err
}

// Load implements Store.
func (s *Postgres) Load(ctx context.Context, key captcha.ID) (v []byte, version int64, now time.Time, err error) {
	var text string
	err = s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		return tx.First(ctx, []any{&now, &version, &text}, `
			select clock_timestamp(), coalesce(version, 0), coalesce(value::text, '')
			from (values (1)) always left join captcha_cache on key = $1`, s.prefix+string(key))
	})
	return []byte(text), version, now, down(err)
}

// Swap implements Store. It may insert a row again that was deleted after Load, because an expired value no longer
// matters.
func (s *Postgres) Swap(ctx context.Context, key captcha.ID, version int64, to Change) (ok bool, err error) {
	err = s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		rows, err := tx.Exec(ctx, `insert into captcha_cache as c (key, version, value, kept_until)
				values ($1, $2, $3::text::jsonb, clock_timestamp() + $4::bigint * interval '1 millisecond')
			on conflict (key) do update set version = excluded.version, value = excluded.value, kept_until = excluded.kept_until
				where c.version = $5`, s.prefix+string(key), to.Version, string(to.Value), to.Keep.Milliseconds(), version)
		ok = rows == 1
		return err
	})
	return ok && err == nil, down(err)
}

// sweep deletes expired rows. It leaves rows that another transaction has locked to the next call.
func (s *Postgres) sweep(ctx context.Context) error {
	return s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		_, err := tx.Exec(ctx, `delete from captcha_cache where key in
			(select key from captcha_cache where kept_until <= clock_timestamp() for update skip locked)`)
		return err
	})
}
