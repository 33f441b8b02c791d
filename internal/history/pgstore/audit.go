package pgstore

import (
	"context"
	"time"

	"poold/internal/history"
	"poold/internal/postgres"
)

// entryRow is an entry as captcha_audit has it. In JSON its members are the columns.
type entryRow struct {
	Key    string         `json:"key"`
	At     time.Time      `json:"at"`
	ID     string         `json:"id"`
	Action history.Action `json:"action"`
	Target string         `json:"target"`
	Token  string         `json:"token"`
	Source string         `json:"source"`
	Image  string         `json:"image"`
	Price  int64          `json:"price"`
}

// entryRowOf is an entry's row.
func entryRowOf(e history.Entry) entryRow {
	return entryRow{
		Key: indexable(e.Key), At: e.At, ID: indexable(e.ID), Action: history.Action(storable(string(e.Action))),
		Target: indexable(e.Target), Token: storable(e.Token), Source: storable(e.Source), Image: storable(e.Image), Price: e.Price,
	}
}

// entry is the row's entry.
func (w *entryRow) entry() history.Entry {
	return history.Entry{
		Key: w.Key, At: w.At.UTC(), ID: w.ID, Action: w.Action,
		Target: w.Target, Token: w.Token, Source: w.Source, Image: w.Image, Price: w.Price,
	}
}

// keyDay is what the figures of keys are kept by.
type keyDay struct {
	Day string `json:"day"` // as 2006-01-02
	Key string `json:"key"`
}

// keyFigures are a row of captcha_audit_figures. In JSON its members are the columns.
type keyFigures struct {
	keyDay
	HandedOut int64 `json:"handed_out"`
	Bought    int64 `json:"bought"`
	Accepted  int64 `json:"accepted"`
	Rejected  int64 `json:"rejected"`
	Spent     int64 `json:"spent"`
	Unpriced  int64 `json:"unpriced"`
}

// WriteEntries keeps a batch; history.Audit says more.
func (s *Store) WriteEntries(ctx context.Context, batch []history.Entry) error {
	rows := make([]entryRow, 0, len(batch))
	for _, e := range batch {
		rows = append(rows, entryRowOf(e))
	}
	return failed("writing the audit", s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		fresh, err := audit.insert(ctx, tx, rows, s.o.KeepAudit)
		if err != nil || len(fresh) == 0 {
			return err
		}
		sums := map[keyDay]history.KeyFigures{}
		for i := range fresh {
			d := keyDay{fresh[i].At.UTC().Format(time.DateOnly), fresh[i].Key}
			sums[d] = sums[d].Plus(fresh[i].entry().Figures())
		}
		added := make([]keyFigures, 0, len(sums))
		for d, f := range sums {
			added = append(added, keyFigures{d, f.HandedOut, f.Bought, f.Accepted, f.Rejected, f.Spent, f.Unpriced})
		}
		return keyDays.add(ctx, tx, added)
	}))
}

// Entries reads the entries of a key; history.Audit says more.
func (s *Store) Entries(ctx context.Context, key string, q history.Query) (page history.Entries, err error) {
	rows, more, err := audit.page(ctx, s, "key", indexable(key), s.o.KeepAudit, q)
	if err != nil {
		return history.Entries{}, failed("reading the audit", err)
	}
	for i := range rows {
		page.List = append(page.List, rows[i].entry())
	}
	page.More = more
	return page, nil
}

// KeyDay are the figures of a UTC day by key; history.Audit says more.
func (s *Store) KeyDay(ctx context.Context, day time.Time) (map[string]history.KeyFigures, error) {
	type keyed struct {
		Key string
		history.KeyFigures
	}
	var rows []keyed
	if err := s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) (err error) {
		rows, err = postgres.Rows[keyed](ctx, tx, readKeyDay, day.UTC().Format(time.DateOnly), s.o.KeepAudit)
		return err
	}); err != nil {
		return nil, failed("reading the figures of keys", err)
	}
	keys := map[string]history.KeyFigures{}
	for _, r := range rows {
		keys[r.Key] = r.KeyFigures
	}
	return keys, nil
}

const readKeyDay = `select key, handed_out, bought, accepted, rejected, spent, unpriced from captcha_audit_figures
	where day = $1::date and day >= ((now() - $2::interval) at time zone 'UTC')::date`

// The statements of forgetAudit. There are few keys, and each is found by one step in the
// primary key, which has the oldest of it in front.
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
	if err := s.delete(ctx, forgetEntries, s.o.KeepAudit); err != nil {
		return failed("deleting old entries of the audit", err)
	}
	return failed("deleting old figures of keys", s.delete(ctx, forgetKeyDays, s.o.KeepAudit))
}
