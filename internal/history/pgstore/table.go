package pgstore

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/postgres"
)

// table is a table of records or of entries.
type table[R any] struct {
	name    string
	key     string // columns of the primary key, in the order of the key
	at      string // column with the time from which the age of a row counts
	columns func(*R) []history.Column
}

var (
	solves = table[history.Record]{"captcha_solves", "id", "ended", recordColumns}
	audit  = table[history.Entry]{"captcha_audit", "key, at, id", "at", (*history.Entry).Columns}
)

func (t table[R]) columnList() string { return strings.Join(names(t.columns(new(R))), ", ") }

// insert inserts the rows that the table lacks, except rows older than the duration keep. It returns
// the inserted rows.
func (t table[R]) insert(ctx context.Context, tx postgres.Tx, rows []R, keep time.Duration) ([]R, error) {
	members := make([]map[string]any, len(rows))
	for i := range rows {
		members[i] = values(t.columns(&rows[i]))
	}
	text, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	return t.scan(ctx, tx, `insert into `+t.name+` (`+t.columnList()+`)
			select `+t.columnList()+` from json_populate_recordset(null::`+t.name+`, $1::json)
			where `+t.at+` >= now() - $2::interval order by `+t.key+`
		on conflict (`+t.key+`) do nothing returning `+t.columnList(), string(text), keep)
}

// scan executes an SQL statement and returns its rows. The statement must return the columns that
// columnList names.
func (t table[R]) scan(ctx context.Context, tx postgres.Tx, sql string, args ...any) (rows []R, err error) {
	var row R
	err = tx.Each(ctx, destinations(t.columns(&row)), func() { rows = append(rows, row) }, sql, args...)
	return rows, err
}

// unsorted is an SQL statement that makes the server read the first rows in the order of an index.
// Without this statement, a server that expects few rows may read all rows of a target and sort them.
const unsorted = "set local enable_bitmapscan = off"

// read executes a query that selects the first rows in the order of an index, and returns these rows.
func (t table[R]) read(ctx context.Context, s *Store, sql string, args ...any) (rows []R, err error) {
	err = s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) (err error) {
		if _, err = tx.Exec(ctx, unsorted); err == nil {
			rows, err = t.scan(ctx, tx, sql, args...)
		}
		return err
	})
	return rows, err
}

// page reads a page of rows. Its second result reports whether older rows follow.
func (t table[R]) page(ctx context.Context, s *Store, by, value string, keep time.Duration, q history.Query) (rows []R, more bool, err error) {
	sql, args := t.query(by, value, keep, q)
	if rows, err = t.read(ctx, s, sql, args...); len(rows) > q.Limit {
		return rows[:q.Limit], true, nil
	}
	return rows, false, err
}

// mostPages limits the number of rows that a query may read if the query reads a page of each target.
const mostPages = 20_000

// latestTime is later than the time of any row.
var latestTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// query returns the SQL statement that reads a page, newest first, and one more row. The statement
// selects the unexpired rows whose column `by` has the given value. The table has an index on this
// column, the time and the ID. It has another index on this column, the target, the time and the ID.
func (t table[R]) query(by, value string, keep time.Duration, q history.Query) (sql string, args []any) {
	// A row's time is before q.To if and only if the row's position is before (q.To, "").
	end := history.Position{Ended: latestTime}
	if !q.To.IsZero() {
		end.Ended = q.To
	}
	if (q.Before != history.Position{}) && q.Before.Ended.Before(end.Ended) {
		end = q.Before
	}
	newest := ` order by ` + t.at + ` desc, id desc limit $6`
	args = []any{value, q.From, keep, end.Ended, indexable(end.ID), q.Limit + 1}
	sql = `select ` + t.columnList() + ` from ` + t.name + ` where ` + by + ` = $1 and ` + t.at + ` >= greatest($2::timestamptz, now() - $3::interval)
		and (` + t.at + `, id) < ($4::timestamptz, $5::text)`
	if q.Targets == nil {
		return sql + newest, args
	}
	targets := make([]string, len(q.Targets))
	for i, target := range q.Targets {
		targets[i] = indexable(target)
	}
	args = append(args, targets)
	if len(targets)*q.Limit > mostPages {
		// A page of each target would be too many rows. Therefore the query reads the rows of all targets
		// until its own page is full.
		return sql + ` and target = any($7::text[])` + newest, args
	}
	return `select page.* from (select distinct unnest($7::text[]) as name) seen
		cross join lateral (` + sql + ` and target = seen.name` + newest + `) page` + newest, args
}
