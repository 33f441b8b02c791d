package pgstore

import (
	"context"
	"fmt"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/postgres"
)

// Site are the records of a sitekey; history.Store says more.
func (s *Store) Site(ctx context.Context, sitekey string, q history.Query) (history.Page, error) {
	return s.page(ctx, ofSite, indexable(sitekey), q)
}

// Tasks are the records of a status; history.Store says more.
func (s *Store) Tasks(ctx context.Context, status history.Status, q history.Query) (history.Page, error) {
	if status != history.StatusSolved && status != history.StatusError {
		return history.Page{}, fmt.Errorf("history: no record has the status %q", status)
	}
	return s.page(ctx, ofStatus, string(status), q)
}

// listing is what is read in pages, newest first: the rows of a table with a value in the
// column by. An index begins with by, at and id, another with by, target, at and id.
type listing struct{ table, columns, by, at string }

var (
	ofSite   = listing{table: "captcha_solves", columns: columns, by: "sitekey", at: "ended"}
	ofStatus = listing{table: "captcha_solves", columns: columns, by: "status", at: "ended"}
)

// page reads records, and one more to know whether there are more.
func (s *Store) page(ctx context.Context, of listing, value string, q history.Query) (history.Page, error) {
	var page history.Page
	sql, args := of.query(value, s.o.Keep, q)
	err := s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		page = history.Page{}
		var w row
		return ordered(ctx, tx, w.fields(), func() { page.Records = append(page.Records, w.record()) }, sql, args...)
	})
	if err != nil {
		return history.Page{}, failed("reading records", err)
	}
	if len(page.Records) > q.Limit {
		page.Records, page.More = page.Records[:q.Limit], true
	}
	return page, nil
}

// ordered is Each of a query that reads the first rows in the order of an index. The
// server does not know how many rows a target has, and where it takes them for few, it
// may read all of them and then sort.
func ordered(ctx context.Context, tx postgres.Tx, into []any, row func(), sql string, args ...any) error {
	if _, err := tx.Exec(ctx, "set local enable_bitmapscan = off"); err != nil {
		return err
	}
	return tx.Each(ctx, into, row, sql, args...)
}

// mostPages bounds the rows of a query that reads a page of each of its targets.
const mostPages = 20_000

// always is later than any row.
var always = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// query is the statement that reads one row more than a page has, of those kept for a time.
func (l listing) query(value string, keep time.Duration, q history.Query) (sql string, args []any) {
	// A time is before To where its position is before that of To without an ID.
	end := history.Position{Ended: always}
	if !q.To.IsZero() {
		end.Ended = q.To
	}
	if (q.Before != history.Position{}) && q.Before.Ended.Before(end.Ended) {
		end = q.Before
	}
	newest := ` order by ` + l.at + ` desc, id desc limit $6`
	args = []any{value, q.From, keep, end.Ended, indexable(end.ID), q.Limit + 1}
	sql = `select ` + l.columns + ` from ` + l.table + ` where ` + l.by + ` = $1 and ` + l.at + ` >= greatest($2::timestamptz, now() - $3::interval)
		and (` + l.at + `, id) < ($4::timestamptz, $5::text)`
	if q.Targets == nil {
		return sql + newest, args
	}
	targets := make([]string, len(q.Targets))
	for i, target := range q.Targets {
		targets[i] = indexable(target)
	}
	args = append(args, targets)
	if len(targets)*q.Limit > mostPages {
		// Of so many targets the next rows are among the next of all.
		return sql + ` and target = any($7::text[])` + newest, args
	}
	return `select page.* from (select distinct unnest($7::text[]) as name) seen
		cross join lateral (` + sql + ` and target = seen.name` + newest + `) page` + newest, args
}

// Day are the figures of a UTC day; history.Store says more.
func (s *Store) Day(ctx context.Context, day time.Time) (history.Day, error) {
	var sums history.Day
	err := s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		sums = history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
		var w figures
		return tx.Each(ctx, []any{
			&w.Target, &w.Owner, &w.Type, &w.Solved, &w.Discarded, &w.Failed, &w.Refused, &w.Lost, &w.Elapsed, &w.Spent, &w.Unpriced,
		}, func() {
			owned := history.Owned{Target: w.Target, Owner: w.Owner}
			sums.Types[w.Type] = sums.Types[w.Type].Plus(w.sum())
			sums.Targets[owned] = sums.Targets[owned].Plus(w.sum())
		}, readDay, day.UTC().Format(time.DateOnly), s.o.Keep)
	})
	if err != nil {
		return history.Day{}, failed("reading the figures of a day", err)
	}
	return sums, nil
}

const readDay = `select target, owner, type, solved, discarded, failed, refused, lost, elapsed_ms, spent, unpriced from captcha_figures
	where day = $1::date and day >= ((now() - $2::interval) at time zone 'UTC')::date`

// Solve is one record; false where there is none, or no more.
func (s *Store) Solve(ctx context.Context, id string) (history.Record, bool, error) {
	return s.one(ctx, readSolve, indexable(id))
}

// Task returns the newest record of a provider's task; history.Store says more.
func (s *Store) Task(ctx context.Context, task string) (history.Record, bool, error) {
	if history.IsOrder(task) {
		return history.Record{}, false, nil
	}
	return s.one(ctx, readTask, storable(task))
}

// one reads the record that a statement finds by a name.
func (s *Store) one(ctx context.Context, sql, name string) (history.Record, bool, error) {
	var r history.Record
	var found bool
	err := s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		r, found = history.Record{}, false
		var w row
		return ordered(ctx, tx, w.fields(), func() { r, found = w.record(), true }, sql, name, s.o.Keep)
	})
	if err != nil {
		return history.Record{}, false, failed("reading a record", err)
	}
	return r, found, nil
}

const (
	readSolve = `select ` + columns + ` from captcha_solves where id = $1 and ended >= now() - $2::interval`
	readTask  = `select ` + columns + ` from captcha_solves where left(task, 100) = left($1, 100) and task = $1 and task <> ''
		and ended >= now() - $2::interval order by ended desc, id desc limit 1`
)
