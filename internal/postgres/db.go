package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"poold/internal/backoff"
)

const (
	// mostConnections limits the connections of a DB.
	mostConnections = 4
	// DefaultLimit is the usual time limit of a call. With it the caller can still answer a request within a second.
	DefaultLimit = 900 * time.Millisecond
)

// retries are the pauses between the attempts of a call.
var retries = backoff.Doubling{First: 2 * time.Millisecond, Most: 50 * time.Millisecond}

// DB is a handle of one database. Its methods are safe for concurrent use.
type DB struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	limit  time.Duration
	secret atomic.Pointer[string] // see SetPassword
}

// Open returns a DB for an address of the form postgres://user:password@host:port/database. It does
// not connect. A call ends after limit. The errors do not quote the address. The caller must close the
// DB.
func Open(url string, limit time.Duration, log *slog.Logger) (*DB, error) {
	config, err := pgxpool.ParseConfig(url)
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return nil, fmt.Errorf("postgres address: it names a file that cannot be read: %w", file)
	}
	if err != nil {
		return nil, errors.New("postgres address: must be postgres://user:password@host:port/database, " +
			"with special characters percent-encoded and with options that PostgreSQL knows")
	}
	db := &DB{log: log, limit: limit}
	config.MaxConns, config.MinConns, config.MinIdleConns = mostConnections, 0, 0
	config.PingTimeout, config.ConnConfig.ConnectTimeout = db.limit, db.limit
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // a pooler loses prepared statements
	config.ConnConfig.RuntimeParams["datestyle"] = "ISO"           // the driver reads no other texts of times
	config.BeforeConnect = func(_ context.Context, to *pgx.ConnConfig) error {
		if secret := db.secret.Load(); secret != nil && *secret != "" {
			to.Password = *secret
		}
		return nil
	}
	db.pool, err = pgxpool.NewWithConfig(context.Background(), config) // connects when a call needs it
	return db, translate(err)
}

// SetPassword sets the password for new connections; "" means the password of the address. Open
// connections stay in use for at most an hour.
func (db *DB) SetPassword(text string) { db.secret.Store(&text) }

// Close closes the connections. No call of another method may be running.
func (db *DB) Close() { db.pool.Close() }

// Do runs the function work in a transaction within the limit, and repeats the transaction if the
// connection breaks. If the connection breaks during the commit, Do may repeat a transaction that the
// server has committed. If this matters, the function work must detect the repetition.
func (db *DB) Do(ctx context.Context, work func(context.Context, Tx) error) error {
	limited, cancel := context.WithTimeout(ctx, db.limit)
	defer cancel()
	var before error // of the previous attempt: it says more than that the limit has passed
	for failures := 1; ; failures++ {
		err := db.transact(limited, work)
		var f *fault
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil && limited.Err() != nil:
			return cmp.Or(before, err)
		case !errors.As(err, &f) || !f.again || retries.Wait(limited, failures) != nil:
			return err
		}
		before = err
	}
}

// transact runs the function work in a transaction in which each statement sees all earlier commits. It returns errors
// of work unchanged.
func (db *DB) transact(ctx context.Context, work func(context.Context, Tx) error) (err error) {
	var own error
	err = pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		own = work(ctx, Tx{tx})
		return own
	})
	if err = translate(err); own != nil {
		err = own
	}
	db.renew(err)
	return err
}

// renew drops all connections if the error shows that their server takes no changes or is stopping, so that the next
// call finds the new primary.
func (db *DB) renew(err error) {
	if f := (*fault)(nil); errors.As(err, &f) && f.stale {
		db.pool.Reset()
	}
}

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
	_, err := pgx.ForEachRow(rows, into, func() error { row(); return nil })
	return translate(err)
}

// First scans the first row of a query into the given pointers. It returns an error if the query
// returns no row.
func (t Tx) First(ctx context.Context, into []any, sql string, args ...any) error {
	return translate(t.tx.QueryRow(ctx, sql, args...).Scan(into...))
}
