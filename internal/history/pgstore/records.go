package pgstore

import (
	"context"
	"fmt"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/postgres"
)

// Write implements history.Store.
func (s *Store) Write(ctx context.Context, batch []history.Record) error {
	return wrapError("writing records", s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) error {
		fresh, err := solves.insert(ctx, tx, batch, s.o.Keep)
		if err != nil || len(fresh) == 0 {
			return err
		}
		type place struct {
			day string
			history.Owned
			captcha.Type
		}
		sums := map[place]history.Figures{}
		for _, r := range fresh {
			p := place{r.Ended.Format(time.DateOnly), history.Owned{Target: r.Target, Owner: r.Owner}, r.Type}
			sums[p] = sums[p].Plus(r.Figures())
		}
		rows := make([]map[string]any, 0, len(sums))
		for p, f := range sums {
			rows = append(rows, figuresRow(map[string]any{"day": p.day, "target": p.Target, "owner": p.Owner, "type": p.Type}, f.Counts()))
		}
		return figured.add(ctx, tx, rows)
	}))
}

// Site implements history.Store.
func (s *Store) Site(ctx context.Context, sitekey string, q history.Query) (history.Page, error) {
	return s.page(ctx, "sitekey", indexable(sitekey), q)
}

// Tasks implements history.Store.
func (s *Store) Tasks(ctx context.Context, status history.Status, q history.Query) (history.Page, error) {
	if status != history.StatusSolved && status != history.StatusError {
		return history.Page{}, fmt.Errorf("history: no record has the status %q", status)
	}
	return s.page(ctx, "status", string(status), q)
}

// page reads a page of the records whose column `by` has the given value.
func (s *Store) page(ctx context.Context, by, value string, q history.Query) (history.Page, error) {
	records, more, err := solves.page(ctx, s, by, value, s.o.Keep, q)
	return history.Page{Records: records, More: more}, wrapError("reading records", err)
}

// Day implements history.Store.
func (s *Store) Day(ctx context.Context, day time.Time) (history.Day, error) {
	var (
		owned history.Owned
		kind  captcha.Type
		f     history.Figures
	)
	sums := history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
	err := figured.read(ctx, s, day, s.o.Keep, []any{&owned.Target, &owned.Owner, (*string)(&kind)}, f.Counts(), func() {
		sums.Types[kind] = sums.Types[kind].Plus(f)
		sums.Targets[owned] = sums.Targets[owned].Plus(f)
	})
	if err != nil {
		return history.Day{}, wrapError("reading the figures of a day", err)
	}
	return sums, nil
}

// Solve implements history.Store.
func (s *Store) Solve(ctx context.Context, id string) (history.Record, bool, error) {
	return s.firstRecord(ctx, readSolve, indexable(id))
}

// Task implements history.Store.
func (s *Store) Task(ctx context.Context, task string) (history.Record, bool, error) {
	if history.IsOrder(task) {
		return history.Record{}, false, nil
	}
	return s.firstRecord(ctx, readTask, storable(task))
}

// firstRecord returns the first record that an SQL statement selects. The statement's first
// parameter is the argument `name`.
func (s *Store) firstRecord(ctx context.Context, sql, name string) (history.Record, bool, error) {
	records, err := solves.read(ctx, s, sql, name, s.o.Keep)
	if err != nil || len(records) == 0 {
		return history.Record{}, false, wrapError("reading a record", err)
	}
	return records[0], true, nil
}

var (
	readSolve = `select ` + solves.columnList() + ` from captcha_solves where id = $1 and ended >= now() - $2::interval`
	readTask  = `select ` + solves.columnList() + ` from captcha_solves where left(task, 100) = left($1, 100) and task = $1 and task <> ''
		and ended >= now() - $2::interval order by ended desc, id desc limit 1`
)
