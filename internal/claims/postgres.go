package claims

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"poold/internal/captcha"
	"poold/internal/postgres"
)

// channel is PostgreSQL's channel for wake-ups, and sweepEvery the interval between two deletions of expired rows.
const channel, sweepEvery = "poold_claims", 5 * time.Second

// postgresStore is a Store in the table captcha_cache.
type postgresStore struct {
	db     *postgres.DB
	prefix string // with a colon
}

// InPostgres returns the Store of an installation in a database. Other installations with other prefixes may share the
// database. Listen runs db; the caller closes it.
func InPostgres(db *postgres.DB, prefix string) Store { return &postgresStore{db, prefix + ":"} }

// down returns an error that is also a redisdb.ErrDown if the server is down.
func down(err error) error {
	if errors.Is(err, postgres.ErrDown) {
		return downError{err}
	}
	return err
}

func (s *postgresStore) Load(ctx context.Context, key captcha.ID) (v []byte, version int64, now time.Time, err error) {
	var text string
	err = s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		return tx.First(ctx, []any{&now, &version, &text}, `
			select clock_timestamp(), coalesce(version, 0), coalesce(value::text, '')
			from (values (1)) always left join captcha_cache on key = $1`, s.prefix+string(key))
	})
	return []byte(text), version, now, down(err)
}

// Swap may insert a row that was swept since Load: what its value said is long past.
func (s *postgresStore) Swap(ctx context.Context, key captcha.ID, version int64, to Change) (ok bool, err error) {
	row := s.prefix + string(key)
	err = s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		rows, err := tx.Exec(ctx, `insert into captcha_cache as c (key, version, value, kept_until)
				values ($1, $2, $3::text::jsonb, clock_timestamp() + $4::bigint * interval '1 millisecond')
			on conflict (key) do update set version = excluded.version, value = excluded.value, kept_until = excluded.kept_until
				where c.version = $5`, row, to.Version, string(to.Value), to.Keep.Milliseconds(), version)
		ok = rows == 1
		if err != nil || !ok || !to.Wake {
			return err
		}
		_, err = tx.Exec(ctx, "select pg_notify($1, $2)", channel, row) // sent by the commit
		return err
	})
	return ok && err == nil, down(err)
}

func (s *postgresStore) Listen(ctx context.Context, wake func(captcha.ID)) error {
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	sweeping.Go(func() { s.db.Sweep(ctx, sweepEvery, s.sweep) })
	return s.db.Run(ctx, channel, func(row string) {
		if key, ours := strings.CutPrefix(row, s.prefix); ours {
			wake(captcha.ID(key))
		}
	})
}

// sweep deletes expired rows. It leaves rows that another transaction has locked to the next call.
func (s *postgresStore) sweep(ctx context.Context) error {
	return s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		_, err := tx.Exec(ctx, `delete from captcha_cache where key in
			(select key from captcha_cache where kept_until <= clock_timestamp() for update skip locked)`)
		return err
	})
}
