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
	key     string // columns of the primary key, in its order
	at      string // column of the time by which rows expire
	columns func(*R) []history.Column
}

var (
	solves = table[history.Record]{"captcha_solves", "id", "ended", recordColumns}
	audit  = table[history.Entry]{"captcha_audit", "key, at, id", "at", (*history.Entry).Columns}
)

// list lists the columns of the table.
func (t table[R]) list() string { return strings.Join(names(t.columns(new(R))), ", ") }

// insert writes the rows that the table lacks and that are not older than keep, and returns them.
func (t table[R]) insert(ctx context.Context, tx postgres.Tx, rows []R, keep time.Duration) ([]R, error) {
	members := make([]map[string]any, len(rows))
	for i := range rows {
		members[i] = values(t.columns(&rows[i]))
	}
	text, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	return t.scan(ctx, tx, `insert into `+t.name+` (`+t.list()+`)
			select `+t.list()+` from json_populate_recordset(null::`+t.name+`, $1::json)
			where `+t.at+` >= now() - $2::interval order by `+t.key+`
		on conflict (`+t.key+`) do nothing returning `+t.list(), string(text), keep)
}

// scan reads the rows of a statement that returns the columns of list.
func (t table[R]) scan(ctx context.Context, tx postgres.Tx, sql string, args ...any) (rows []R, err error) {
	var row R
	err = tx.Each(ctx, destinations(t.columns(&row)), func() { rows = append(rows, row) }, sql, args...)
	return rows, err
}

// unsorted makes the server read the first rows in the order of an index. Otherwise the server, which may expect few
// rows of a target, may read all of them and sort.
const unsorted = "set local enable_bitmapscan = off"

// read reads the first rows in the order of an index.
func (t table[R]) read(ctx context.Context, s *Store, sql string, args ...any) (rows []R, err error) {
	err = s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) (err error) {
		if _, err = tx.Exec(ctx, unsorted); err == nil {
			rows, err = t.scan(ctx, tx, sql, args...)
		}
		return err
	})
	return rows, err
}

// page reads a page; more reports whether older rows follow.
func (t table[R]) page(ctx context.Context, s *Store, by, value string, keep time.Duration, q history.Query) (rows []R, more bool, err error) {
	sql, args := t.query(by, value, keep, q)
	if rows, err = t.read(ctx, s, sql, args...); len(rows) > q.Limit {
		return rows[:q.Limit], true, nil
	}
	return rows, false, err
}

// mostPages limits the rows of a query that reads a page of each target.
const mostPages = 20_000

// always is later than any row.
var always = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// query returns the statement that reads a page, newest first, and one row more. It selects the rows with a value in
// the column by that are not expired. One index begins with by, at and id, another with by, target, at and id.
func (t table[R]) query(by, value string, keep time.Duration, q history.Query) (sql string, args []any) {
	// A row is before To if its position is before (To, "").
	end := history.Position{Ended: always}
	if !q.To.IsZero() {
		end.Ended = q.To
	}
	if (q.Before != history.Position{}) && q.Before.Ended.Before(end.Ended) {
		end = q.Before
	}
	newest := ` order by ` + t.at + ` desc, id desc limit $6`
	args = []any{value, q.From, keep, end.Ended, indexable(end.ID), q.Limit + 1}
	sql = `select ` + t.list() + ` from ` + t.name + ` where ` + by + ` = $1 and ` + t.at + ` >= greatest($2::timestamptz, now() - $3::interval)
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
		// With this many targets, the page is among the next rows of all targets.
		return sql + ` and target = any($7::text[])` + newest, args
	}
	return `select page.* from (select distinct unnest($7::text[]) as name) seen
		cross join lateral (` + sql + ` and target = seen.name` + newest + `) page` + newest, args
}
