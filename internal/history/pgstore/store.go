package pgstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"poold/internal/history"
	"poold/internal/postgres"
)

// Options are the options of New.
type Options struct {
	Keep      time.Duration // how long records and their figures are kept; 0 = 90 days
	KeepAudit time.Duration // how long entries of the audit and their figures are kept; 0 = 90 days
	Clean     time.Duration // interval between two deletions of expired rows; 0 = 1 minute
}

var (
	_ history.Store = (*Store)(nil)
	_ history.Audit = (*Store)(nil)
)

// Store implements history.Store and history.Audit in one database.
type Store struct {
	db *postgres.DB
	o  Options
}

// New returns the store of a database. Store.Run calls postgres.DB.Run, so the caller must not call
// postgres.DB.Run.
func New(db *postgres.DB, o Options) *Store {
	o.Keep, o.KeepAudit = cmp.Or(o.Keep, quarter), cmp.Or(o.KeepAudit, quarter)
	o.Clean = cmp.Or(o.Clean, time.Minute)
	return &Store{db, o}
}

const quarter = 90 * 24 * time.Hour

// mostDeleted is the maximum number of rows that one transaction deletes.
const mostDeleted = 1000

// Run keeps a connection, brings the schema up to date, and deletes expired rows until ctx ends. If the server is down,
// Run tries to connect until the server starts.
func (s *Store) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		s.db.Sweep(ctx, s.o.Clean, func(ctx context.Context) error { return errors.Join(s.forget(ctx), s.forgetAudit(ctx)) })
	})
	return s.db.Run(ctx, "", nil)
}

// The SQL statements of the method forget. They skip rows that another transaction has locked, and a
// later call deletes these rows. The order by time makes the server use an index. Without this order,
// the server may read the whole table.
const (
	forgetSolves = `delete from captcha_solves where id in (select id from captcha_solves
		where status = $3 and ended < now() - $1::interval order by ended limit $2 for update skip locked)`
	forgetFigures = `delete from captcha_figures where (day, target, owner, type) in (select day, target, owner, type
		from captcha_figures where day < ((now() - $1::interval) at time zone 'UTC')::date
		order by day, target, owner, type limit $2 for update skip locked)`
)

// forget deletes rows older than Options.Keep.
func (s *Store) forget(ctx context.Context) error {
	for _, status := range []history.Status{history.StatusSolved, history.StatusError} {
		if err := s.deleteBatches(ctx, forgetSolves, s.o.Keep, status); err != nil {
			return wrapError("deleting old records", err)
		}
	}
	return wrapError("deleting old figures", s.deleteBatches(ctx, forgetFigures, s.o.Keep))
}

// deleteBatches repeats an SQL statement that deletes at most mostDeleted rows until the statement
// finds no more rows.
func (s *Store) deleteBatches(ctx context.Context, statement string, keep time.Duration, more ...any) error {
	args := append([]any{keep, mostDeleted}, more...)
	for deleted := int64(mostDeleted); deleted == mostDeleted; {
		if err := s.db.Do(ctx, func(ctx context.Context, tx postgres.Tx) (err error) {
			deleted, err = tx.Exec(ctx, statement, args...)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// downError is an error for which errors.Is also reports history.ErrDown.
type downError struct{ error }

func (e downError) Is(target error) bool { return target == history.ErrDown }

func (e downError) Unwrap() error { return e.error }

// wrapError adds the name of the operation to an error. It makes the error a history.ErrDown, unless
// the caller's context has ended or the content cannot be written. The error text quotes nothing from
// the server, because the errors of package postgres do not.
func wrapError(doing string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", doing, err)
	var content *json.MarshalerError // error of a time that JSON cannot express
	if errors.As(err, &content) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return downError{err}
}
