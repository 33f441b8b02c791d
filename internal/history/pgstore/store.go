package pgstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"poold/internal/history"
	"poold/internal/postgres"
)

// sweepEvery is the interval between two deletions of expired rows.
const sweepEvery = time.Minute

// Tables implements history.Sink in the tables of a database.
type Tables struct {
	db              *postgres.DB
	keep, keepAudit time.Duration // how long orders, and hand-outs, are kept with their figures
}

var _ history.Sink = (*Tables)(nil)

// New returns the store of a database. keepAudit is 0 if the file keeps no audit. In this case hand-outs that the store
// still has from an earlier file are kept as long as orders. Tables.Run calls postgres.DB.Run, so the caller must not
// call postgres.DB.Run.
func New(db *postgres.DB, keep, keepAudit time.Duration) *Tables {
	return &Tables{db, keep, cmp.Or(keepAudit, keep)}
}

// Run runs the database, and deletes expired rows until ctx ends.
func (s *Tables) Run(ctx context.Context) error { return s.db.Run(ctx, sweepEvery, s.forget) }

const (
	columns = `kind, id, at, target, owner, sitekey, task, status, key, content`

	insert = `insert into captcha_history (` + columns + `)
			select ` + columns + ` from json_populate_recordset(null::captcha_history, $1::json)
			where at >= now() - case kind when 'order' then $2::interval else $3::interval end order by kind, id
		on conflict (kind, id) do nothing returning kind, id`

	add = `insert into captcha_days as d (day, scope, name, owner, figure, n)
			select day, scope, name, owner, figure, sum(n) from json_populate_recordset(null::captcha_days, $1::json)
			group by day, scope, name, owner, figure order by day, scope, name, owner, figure
		on conflict (day, scope, name, owner, figure) do update set n = d.n + excluded.n`
)

// Append implements history.Sink.
func (s *Tables) Append(ctx context.Context, rows []history.Row) error {
	var list []history.Row             // its JSON has the columns of captcha_history
	sums := map[string][]history.Sum{} // by kind and ID
	for _, r := range rows {
		if r.Kind != history.KindActive {
			list = append(list, r)
			sums[string(r.Kind)+r.ID] = r.Sums
		}
	}
	text, err := json.Marshal(list)
	if err != nil || len(list) == 0 {
		return cmp.Or(ctx.Err(), err)
	}
	return wrap("writing", s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		var days []figure
		var kind, id string
		if err := tx.Each(ctx, []any{&kind, &id}, func() {
			for _, sum := range sums[kind+id] {
				for name, n := range sum.Figures {
					days = append(days, figure{sum.Day, sum.Scope, sum.Name, sum.Owner, name, n})
				}
			}
		}, insert, string(text), s.keep, s.keepAudit); err != nil || len(days) == 0 {
			return err
		}
		text, _ := json.Marshal(days) // of texts and numbers: no error is possible
		_, err := tx.Exec(ctx, add, string(text))
		return err
	}))
}

// figure has the columns of captcha_days.
type figure struct {
	Day    string        `json:"day"`
	Scope  history.Scope `json:"scope"`
	Name   string        `json:"name"`
	Owner  string        `json:"owner"`
	Figure string        `json:"figure"`
	N      int64         `json:"n"`
}

// A query for at most fewTargets targets reads one page for each target. A query for more targets reads the rows of all
// targets until its page is full.
const fewTargets = 20

// query returns the statement that reads a page and one more row, newest first.
func (s *Tables) query(q history.Query) (sql string, args []any) {
	kind, keep := history.KindOrder, s.keep
	if q.By == history.ByKey {
		kind, keep = history.KindHandout, s.keepAudit
	}
	// A row's time is before q.To if and only if the row's position is before (q.To, "").
	end := history.Position{At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	if !q.To.IsZero() {
		end.At = q.To
	}
	if !q.Before.At.IsZero() && q.Before.At.Before(end.At) {
		end = q.Before
	}
	args = []any{q.Value, q.From, keep, end.At, end.ID, q.Limit + 1, q.Owner}
	sql = `select at, id, content from captcha_history where kind = '` + string(kind) + `' and ` + string(q.By) + ` = $1
		and at >= greatest($2::timestamptz, now() - $3::interval) and (at, id) < ($4::timestamptz, $5::text)
		and $7::text in ('', owner)`
	newest := ` order by at desc, id desc limit $6`
	if q.By == history.ByTask {
		sql += ` and task <> ''` // the condition of its index
	}
	switch {
	case q.Targets == nil:
		return sql + newest, args
	case len(q.Targets) > fewTargets:
		sql += ` and target = any($8::text[])` + newest
	default:
		sql = `select page.* from (select distinct unnest($8::text[]) as name) seen
			cross join lateral (` + sql + ` and target = seen.name` + newest + `) page` + newest
	}
	return sql, append(args, q.Targets)
}

// unsorted makes the server read the first rows in the order of an index. Without it, a server that expects few rows
// may read all rows of a target and sort them.
const unsorted = "set local enable_bitmapscan = off"

// Find implements history.Sink.
func (s *Tables) Find(ctx context.Context, q history.Query) (p history.Page, err error) {
	sql, args := s.query(q)
	err = s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		if _, err := tx.Exec(ctx, unsorted); err != nil {
			return err
		}
		var at time.Time
		var id, text string
		p.Rows = nil
		return tx.Each(ctx, []any{&at, &id, &text}, func() { p.Rows = append(p.Rows, []byte(text)) }, sql, args...)
	})
	if p.More = len(p.Rows) > q.Limit; p.More {
		p.Rows = p.Rows[:q.Limit]
	}
	return p, wrap("reading", err)
}

// Days implements history.Sink.
func (s *Tables) Days(ctx context.Context, day time.Time) (list []history.Sum, err error) {
	date := day.UTC().Format(time.DateOnly)
	err = s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		var f figure
		list = nil
		return tx.Each(ctx, []any{&f.Scope, &f.Name, &f.Owner, &f.Figure, &f.N}, func() {
			i := len(list) - 1
			if i < 0 || list[i].Scope != f.Scope || list[i].Name != f.Name || list[i].Owner != f.Owner {
				list = append(list, history.Sum{Day: date, Scope: f.Scope, Name: f.Name, Owner: f.Owner,
					Figures: history.Figures{}})
				i++
			}
			list[i].Figures[f.Figure] = f.N
		}, `select scope, name, owner, figure, n from captcha_days where day = $1::date order by scope, name, owner`, date)
	})
	return list, wrap("reading", err)
}

// These are the statements of the method forget. They skip rows that another transaction has locked.
const (
	mostDeleted = 1000 // by one transaction

	forgetRows = `delete from captcha_history where (kind, id) in (select kind, id from captcha_history
		where kind = $1 and at < now() - $2::interval order by at limit $3 for update skip locked)`
	forgetDays = `delete from captcha_days where (day, scope, name, owner, figure) in
		(select day, scope, name, owner, figure from captcha_days
		where (scope = 'key') = ($1 = 'handout') and day < ((now() - $2::interval) at time zone 'UTC')::date
		order by day limit $3 for update skip locked)`
)

// forget deletes expired rows.
func (s *Tables) forget(ctx context.Context) error {
	for kind, age := range map[history.RowKind]time.Duration{history.KindOrder: s.keep, history.KindHandout: s.keepAudit} {
		for _, statement := range []string{forgetRows, forgetDays} {
			for deleted := int64(mostDeleted); deleted == mostDeleted; {
				if err := s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) (err error) {
					deleted, err = tx.Exec(ctx, statement, string(kind), age, mostDeleted)
					return err
				}); err != nil {
					return wrap("deleting old rows", err)
				}
			}
		}
	}
	return nil
}

// wrap makes an outage a history.ErrDown.
func wrap(doing string, err error) error {
	if errors.Is(err, postgres.ErrDown) {
		return fmt.Errorf("%w: %s: %w", history.ErrDown, doing, err)
	}
	if err != nil {
		return fmt.Errorf("%s the history: %w", doing, err)
	}
	return nil
}
