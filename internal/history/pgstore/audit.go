package pgstore

import (
	"context"
	"encoding/json"
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

// entryColumns of captcha_audit, in the order of entryRow.fields.
const entryColumns = `key, at, id, action, target, token, source, image, price`

// entries are what Entries reads.
var entries = listing{table: "captcha_audit", columns: entryColumns, by: "key", at: "at"}

// fields are where the columns are read into.
func (w *entryRow) fields() []any {
	return []any{&w.Key, &w.At, &w.ID, &w.Action, &w.Target, &w.Token, &w.Source, &w.Image, &w.Price}
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
	text, err := json.Marshal(rows)
	if err != nil {
		return failed("writing the audit", err)
	}
	return failed("writing the audit", s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		sums, err := s.insertEntries(ctx, tx, string(text))
		if err != nil || len(sums) == 0 {
			return err
		}
		return addToKeys(ctx, tx, sums)
	}))
}

// insertEntries keeps the rows that are not there yet, and sums these up.
func (s *Store) insertEntries(ctx context.Context, tx postgres.Tx, rows string) (sums map[keyDay]history.KeyFigures, err error) {
	sums = map[keyDay]history.KeyFigures{}
	var w entryRow
	err = tx.Each(ctx, w.fields(), func() {
		d := keyDay{w.At.UTC().Format(time.DateOnly), w.Key}
		sums[d] = sums[d].Plus(w.entry().Figures())
	}, `insert into captcha_audit (`+entryColumns+`)
			select `+entryColumns+` from json_populate_recordset(null::captcha_audit, $1::json)
			where at >= now() - $2::interval order by key, at, id
		on conflict (key, at, id) do nothing returning `+entryColumns, rows, s.o.KeepAudit)
	return sums, err
}

// addToKeys adds to the figures of keys and days.
func addToKeys(ctx context.Context, tx postgres.Tx, sums map[keyDay]history.KeyFigures) error {
	rows := make([]keyFigures, 0, len(sums))
	for d, f := range sums {
		rows = append(rows, keyFigures{d, f.HandedOut, f.Bought, f.Accepted, f.Rejected, f.Spent, f.Unpriced})
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `insert into captcha_audit_figures as f (day, key, handed_out, bought, accepted, rejected, spent, unpriced)
			select day, key, handed_out, bought, accepted, rejected, spent, unpriced
			from json_populate_recordset(null::captcha_audit_figures, $1::json) order by day, key
		on conflict (day, key) do update set handed_out = f.handed_out + excluded.handed_out, bought = f.bought + excluded.bought,
			accepted = f.accepted + excluded.accepted, rejected = f.rejected + excluded.rejected, spent = f.spent + excluded.spent,
			unpriced = f.unpriced + excluded.unpriced`, string(text))
	return err
}

// Entries are those of a key; history.Audit says more.
func (s *Store) Entries(ctx context.Context, key string, q history.Query) (history.Entries, error) {
	var page history.Entries
	sql, args := entries.query(indexable(key), s.o.KeepAudit, q)
	err := s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		page = history.Entries{}
		var w entryRow
		return ordered(ctx, tx, w.fields(), func() { page.List = append(page.List, w.entry()) }, sql, args...)
	})
	if err != nil {
		return history.Entries{}, failed("reading the audit", err)
	}
	if len(page.List) > q.Limit {
		page.List, page.More = page.List[:q.Limit], true
	}
	return page, nil
}

// KeyDay are the figures of a UTC day by key; history.Audit says more.
func (s *Store) KeyDay(ctx context.Context, day time.Time) (map[string]history.KeyFigures, error) {
	var keys map[string]history.KeyFigures
	err := s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		keys = map[string]history.KeyFigures{}
		var key string
		var f history.KeyFigures
		return tx.Each(ctx, []any{&key, &f.HandedOut, &f.Bought, &f.Accepted, &f.Rejected, &f.Spent, &f.Unpriced},
			func() { keys[key] = f }, readKeyDay, day.UTC().Format(time.DateOnly), s.o.KeepAudit)
	})
	if err != nil {
		return nil, failed("reading the figures of keys", err)
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

// forgetAudit deletes what is older than Options.KeepAudit.
func (s *Store) forgetAudit(ctx context.Context) error {
	if err := s.delete(ctx, forgetEntries, s.o.KeepAudit); err != nil {
		return failed("deleting old entries of the audit", err)
	}
	return failed("deleting old figures of keys", s.delete(ctx, forgetKeyDays, s.o.KeepAudit))
}
