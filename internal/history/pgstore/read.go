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
	return s.page(ctx, "sitekey", indexable(sitekey), q)
}

// Tasks are the records of a status; history.Store says more.
func (s *Store) Tasks(ctx context.Context, status history.Status, q history.Query) (history.Page, error) {
	if status != history.StatusSolved && status != history.StatusError {
		return history.Page{}, fmt.Errorf("history: no record has the status %q", status)
	}
	return s.page(ctx, "status", string(status), q)
}

// page reads records that have a value in a column.
func (s *Store) page(ctx context.Context, by, value string, q history.Query) (page history.Page, err error) {
	rows, more, err := solves.page(ctx, s, by, value, s.o.Keep, q)
	if err != nil {
		return history.Page{}, failed("reading records", err)
	}
	for i := range rows {
		page.Records = append(page.Records, rows[i].record())
	}
	page.More = more
	return page, nil
}

// Day are the figures of a UTC day; history.Store says more.
func (s *Store) Day(ctx context.Context, day time.Time) (history.Day, error) {
	var rows []figures
	if err := s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) (err error) {
		rows, err = postgres.Rows[figures](ctx, tx, readDay, day.UTC().Format(time.DateOnly), s.o.Keep)
		return err
	}); err != nil {
		return history.Day{}, failed("reading the figures of a day", err)
	}
	sums := history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
	for _, w := range rows {
		owned := history.Owned{Target: w.Target, Owner: w.Owner}
		sums.Types[w.Type] = sums.Types[w.Type].Plus(w.sum())
		sums.Targets[owned] = sums.Targets[owned].Plus(w.sum())
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
	rows, err := ordered[row](ctx, s, sql, name, s.o.Keep)
	if err != nil || len(rows) == 0 {
		return history.Record{}, false, failed("reading a record", err)
	}
	return rows[0].record(), true, nil
}

var (
	readSolve = `select ` + solves.columns() + ` from captcha_solves where id = $1 and ended >= now() - $2::interval`
	readTask  = `select ` + solves.columns() + ` from captcha_solves where left(task, 100) = left($1, 100) and task = $1 and task <> ''
		and ended >= now() - $2::interval order by ended desc, id desc limit 1`
)
