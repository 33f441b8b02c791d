package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"poold/internal/backoff"
)

// probeEvery is the interval between two probes on Run's connection.
const probeEvery = time.Second

// reconnects are the pauses before Run connects again.
var reconnects = backoff.Doubling{First: 50 * time.Millisecond, Most: time.Second}

// Run keeps one connection until ctx ends. It brings the schema up to date, and logs when the server
// becomes unavailable and when it is available again. Run calls heard(payload) for each notification on
// the channel. If channel is "", Run does not listen. The function heard must not block. Run must be
// called at most once.
func (db *DB) Run(ctx context.Context, channel string, heard func(payload string)) error {
	db.heard.Store(&listening{channel, heard})
	for failures := 1; ; failures++ {
		err := db.attend(ctx, channel, func() {
			db.logState(nil)
			failures = 1
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is how Run is stopped
		}
		db.renew(err)
		db.logState(err)
		if reconnects.Wait(ctx, failures) != nil {
			return nil //nolint:nilerr // the end of ctx is how Run is stopped
		}
	}
}

// Sweep calls the function clean at each interval until ctx ends. It logs an error of clean once,
// unless the error is an outage that Run logs.
func (db *DB) Sweep(ctx context.Context, interval time.Duration, clean func(context.Context) error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err, fault := clean(ctx), ""
		if err != nil && ctx.Err() == nil && (!errors.Is(err, ErrDown) || errors.Is(err, ErrNoTable)) {
			fault = err.Error()
		}
		if fault != "" && fault != logged {
			db.log.Error("postgres does not delete old rows", "err", err)
		}
		logged = fault
	}
}

// attend listens on one connection and probes the connection until it breaks. After the first
// successful probe, attend calls the function serves.
func (db *DB) attend(ctx context.Context, channel string, serves func()) error {
	conn, err := db.acquireMigrated(ctx)
	if err != nil {
		return err
	}
	defer func() {
		// The connection listens, so it must not return to the pool.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.limit)
		defer cancel()
		_ = conn.Conn().Close(closing)
		conn.Release()
	}()
	if channel != "" {
		if err := within(ctx, db.limit, func(ctx context.Context) error {
			_, err := conn.Exec(ctx, `listen "`+channel+`"`)
			return err
		}); err != nil {
			return err
		}
	}
	if err := db.probe(ctx, conn); err != nil {
		return err
	}
	serves()
	for {
		if err := listen(ctx, conn.Conn().PgConn()); err != nil {
			return translate(err)
		}
		if err := db.probe(ctx, conn); err != nil {
			return err
		}
	}
}

// probe checks that the server responds and accepts changes. For this purpose it reads whether a
// transaction is read-only, which needs no right on a table. A transaction is read-only on a standby,
// and on a server whose transactions are read-only by default.
func (db *DB) probe(ctx context.Context, conn *pgxpool.Conn) error {
	var refuses bool
	err := within(ctx, db.limit, func(ctx context.Context) error {
		return conn.QueryRow(ctx, "select current_setting('transaction_read_only')::boolean").Scan(&refuses)
	})
	if err == nil && refuses {
		return refusal(readOnly)
	}
	return err
}

// renew drops all connections if the error shows that their server is not the primary or is stopping.
// The next call then connects to the new primary.
func (db *DB) renew(err error) {
	var f *fault
	if errors.As(err, &f) && f.stale {
		db.pool.Reset()
	}
}

// listen receives notifications for the duration probeEvery. It returns an error if the connection breaks.
func listen(ctx context.Context, conn *pgconn.PgConn) error {
	limited, cancel := context.WithTimeout(ctx, probeEvery)
	defer cancel()
	for {
		err := conn.WaitForNotification(limited) // the driver calls OnNotification, which tune sets
		if err == nil {
			continue
		}
		if ctx.Err() == nil && limited.Err() != nil && !conn.IsClosed() {
			return nil
		}
		return err
	}
}

// connect acquires a connection from the pool within the limit of a call.
func (db *DB) connect(ctx context.Context) (*pgxpool.Conn, error) {
	var conn *pgxpool.Conn
	err := within(ctx, db.limit, func(ctx context.Context) (err error) {
		conn, err = db.pool.Acquire(ctx)
		return err
	})
	return conn, err
}

// within runs the function call with a context that ends after the limit, and
// translates its error.
func within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(limited)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return translate(err)
}

// logState logs a change of the server's state. If err is nil, the server is available.
func (db *DB) logState(err error) {
	was, now := db.state, ""
	var f *fault
	switch {
	case errors.As(err, &f) && f.away():
		now = "away"
	case err != nil:
		now = err.Error()
	}
	db.state = now
	switch {
	case was == now:
	case err == nil:
		db.log.Info("postgres serves again")
	case errors.Is(err, ErrNewer):
		db.log.Error("postgres cannot be used: start a newer program", "err", err)
	default:
		db.log.Error("postgres does not serve", "err", err)
	}
}
