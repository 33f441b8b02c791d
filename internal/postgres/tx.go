package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"poold/internal/backoff"
)

// retries are the pauses between the attempts of a call.
var retries = backoff.Doubling{First: 2 * time.Millisecond, Most: 50 * time.Millisecond}

// Tx is a transaction. It ends when the function that received it returns.
type Tx struct{ tx pgx.Tx }

// Exec runs an SQL statement and returns the number of changed rows.
func (t Tx) Exec(ctx context.Context, sql string, args ...any) (rows int64, err error) {
	tag, err := t.tx.Exec(ctx, sql, args...)
	return tag.RowsAffected(), translate(err)
}

// Each calls the function row once for each row of a query. Before each call it scans the row into
// the given pointers.
func (t Tx) Each(ctx context.Context, into []any, row func(), sql string, args ...any) error {
	rows, _ := t.tx.Query(ctx, sql, args...) // ForEachRow returns this error too
	_, err := pgx.ForEachRow(rows, into, func() error {
		row()
		return nil
	})
	return translate(err)
}

// First scans the first row of a query into the given pointers. It returns an error if the query
// returns no row.
func (t Tx) First(ctx context.Context, into []any, sql string, args ...any) error {
	return translate(t.tx.QueryRow(ctx, sql, args...).Scan(into...))
}

// Notify sends a notification to all replicas that listen on the channel. The server sends the
// notification when the transaction commits.
func (t Tx) Notify(ctx context.Context, channel, payload string) error {
	_, err := t.Exec(ctx, "select pg_notify($1, $2)", channel, payload)
	return err
}

// Do runs the function work in a transaction within the limit, and repeats the transaction if the
// connection breaks. If the connection breaks during the commit, Do may repeat a transaction that the
// server has committed. If this matters, the function work must detect the repetition.
func (db *DB) Do(ctx context.Context, work func(context.Context, Tx) error) error {
	return db.retry(ctx, func(ctx context.Context) error { return transact(ctx, db.pool, work) })
}

// Alone runs a transaction as Do does. Over all replicas, at most one transaction of Alone with the
// same key runs at a time. Alone waits for the key's lock until the limit has passed, and uses no
// connection while it waits.
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

// retry calls the function attempt repeatedly until a call succeeds, its error is permanent, or the
// limit has passed.
func (db *DB) retry(ctx context.Context, attempt func(context.Context) error) error {
	if unusable := db.fault.Load(); unusable != nil {
		return unusable
	}
	limited, cancel := context.WithTimeout(ctx, db.limit)
	defer cancel()
	for failures := 1; ; failures++ {
		err := attempt(limited)
		db.renew(err)
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		if !mayRetry(err) {
			return err
		}
		if retries.Wait(limited, failures) != nil {
			return err
		}
	}
}

// beginner can begin a transaction: a pool or a single connection.
type beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// transact runs the function work in a transaction in which each statement sees all earlier commits.
// It returns errors of work unchanged.
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
