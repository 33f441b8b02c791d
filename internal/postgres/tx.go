package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"poold/internal/backoff"
)

// retries are the pauses before a call is tried again.
var retries = backoff.Doubling{First: 2 * time.Millisecond, Most: 50 * time.Millisecond}

// Tx is a transaction. It ends with the function that received it.
type Tx struct{ tx pgx.Tx }

// Exec runs a statement and returns the number of changed rows.
func (t Tx) Exec(ctx context.Context, sql string, args ...any) (rows int64, err error) {
	tag, err := t.tx.Exec(ctx, sql, args...)
	return tag.RowsAffected(), translate(err)
}

// Each scans each row of a query into the pointers of into, and then calls row.
func (t Tx) Each(ctx context.Context, into []any, row func(), sql string, args ...any) error {
	rows, err := t.tx.Query(ctx, sql, args...)
	if err != nil {
		return translate(err)
	}
	_, err = pgx.ForEachRow(rows, into, func() error {
		row()
		return nil
	})
	return translate(err)
}

// First scans the first row of a query into the pointers of into. No row is an error.
func (t Tx) First(ctx context.Context, into []any, sql string, args ...any) error {
	return translate(t.tx.QueryRow(ctx, sql, args...).Scan(into...))
}

// Notify wakes the listeners of the channel on all replicas once the transaction is committed.
func (t Tx) Notify(ctx context.Context, channel, payload string) error {
	_, err := t.Exec(ctx, "select pg_notify($1, $2)", channel, payload)
	return err
}

// Do runs a transaction within the limit, and repeats it if the connection breaks. If that happens during the commit,
// the transaction may be committed; work must detect that if it matters.
func (db *DB) Do(ctx context.Context, work func(context.Context, Tx) error) error {
	return db.try(ctx, func(ctx context.Context) error { return transact(ctx, db.pool, work) })
}

// Alone is Do for a transaction that excludes other Alone transactions of the same key, on all replicas. It waits for
// the lock within the limit, without a connection.
func (db *DB) Alone(ctx context.Context, key string, work func(context.Context, Tx) error) error {
	return db.Do(ctx, func(ctx context.Context, tx Tx) error {
		var mine bool
		if err := tx.First(ctx, []any{&mine}, "select pg_try_advisory_xact_lock(hashtextextended($1, 0))", key); err != nil {
			return err
		}
		if !mine {
			return errBusy
		}
		return work(ctx, tx)
	})
}

// try calls once until it succeeds, its error is permanent, or the limit is over.
func (db *DB) try(ctx context.Context, once func(context.Context) error) error {
	if unusable := db.fault.Load(); unusable != nil {
		return unusable
	}
	limited, cancel := context.WithTimeout(ctx, db.limit)
	defer cancel()
	for failures := 1; ; failures++ {
		err := once(limited)
		db.renew(err)
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		if !again(err) {
			return err
		}
		if retries.Wait(limited, failures) != nil {
			return err
		}
	}
}

// beginner is a pool or a connection.
type beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// transact runs work in a transaction in which each statement sees earlier commits. It returns errors of work unchanged.
func transact(ctx context.Context, on beginner, work func(context.Context, Tx) error) error {
	var own error
	err := pgx.BeginTxFunc(ctx, on, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		own = work(ctx, Tx{tx})
		return own
	})
	if own != nil {
		return own
	}
	return translate(err)
}
