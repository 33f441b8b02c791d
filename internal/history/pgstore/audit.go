package pgstore

import (
	"context"
	"time"

	"poold/internal/history"
	"poold/internal/postgres"
)

// WriteEntries implements history.Audit.
func (s *Store) WriteEntries(ctx context.Context, batch []history.Entry) error {
	return wrapError("writing the audit", s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		fresh, err := audit.insert(ctx, tx, batch, s.o.KeepAudit)
		if err != nil || len(fresh) == 0 {
			return err
		}
		type keyDay struct{ day, key string }
		sums := map[keyDay]history.KeyFigures{}
		for _, e := range fresh {
			d := keyDay{e.At.Format(time.DateOnly), e.Key}
			sums[d] = sums[d].Plus(e.Figures())
		}
		rows := make([]map[string]any, 0, len(sums))
		for d, f := range sums {
			rows = append(rows, figuresRow(map[string]any{"day": d.day, "key": d.key}, f.Counts()))
		}
		return keyDays.add(ctx, tx, rows)
	}))
}

// Entries implements history.Audit.
func (s *Store) Entries(ctx context.Context, key string, q history.Query) (history.Entries, error) {
	entries, more, err := audit.page(ctx, s, "key", indexable(key), s.o.KeepAudit, q)
	return history.Entries{List: entries, More: more}, wrapError("reading the audit", err)
}

// KeyDay implements history.Audit.
func (s *Store) KeyDay(ctx context.Context, day time.Time) (map[string]history.KeyFigures, error) {
	var (
		key string
		f   history.KeyFigures
	)
	keys := map[string]history.KeyFigures{}
	err := keyDays.read(ctx, s, day, s.o.KeepAudit, []any{&key}, f.Counts(), func() { keys[key] = f })
	if err != nil {
		return nil, wrapError("reading the figures of keys", err)
	}
	return keys, nil
}

// The SQL statements of forgetAudit. There are few API keys. Therefore forgetEntries first finds each
// key with one step in the index of the primary key, and then finds the oldest entries of the key.
const (
	forgetEntries = `with recursive names as (
			(select key from captcha_audit order by key limit 1)
			union all
			select (select key from captcha_audit where key > names.key order by key limit 1) from names where names.key is not null
		)
		delete from captcha_audit where (key, at, id) in (select old.key, old.at, old.id from names cross join lateral (
			select key, at, id from captcha_audit where key = names.key and at < now() - $1::interval
			order by at limit $2 for update skip locked) old limit $2)`
	forgetKeyDays = `delete from captcha_audit_figures where (day, key) in (select day, key from captcha_audit_figures
		where day < ((now() - $1::interval) at time zone 'UTC')::date order by day, key limit $2 for update skip locked)`
)

// forgetAudit deletes rows older than Options.KeepAudit.
func (s *Store) forgetAudit(ctx context.Context) error {
	if err := s.deleteBatches(ctx, forgetEntries, s.o.KeepAudit); err != nil {
		return wrapError("deleting old entries of the audit", err)
	}
	return wrapError("deleting old figures of keys", s.deleteBatches(ctx, forgetKeyDays, s.o.KeepAudit))
}
