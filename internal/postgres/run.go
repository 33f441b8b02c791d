package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

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
	state := "" // the last logged one; "" = the server can be used
	for failures := 1; ; failures++ {
		err := db.attend(ctx, channel, heard, func() {
			if state != "" {
				db.log.Info("postgres serves again")
			}
			failures, state = 1, ""
		})
		was := state
		if state = "away"; !isAway(err) {
			state = err.Error()
		}
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of ctx is how Run is stopped
		case state == was:
		case errors.Is(err, ErrNewer):
			db.log.Error("postgres cannot be used: start a newer program", "err", err)
		default:
			db.log.Error("postgres does not serve", "err", err)
		}
		db.renew(err)
		_ = reconnects.Wait(ctx, failures) // attend returns at once if ctx ends
	}
}

// attend listens on one connection and probes it each second until it breaks. It calls serves after each probe.
func (db *DB) attend(ctx context.Context, channel string, heard func(string), serves func()) error {
	if err := db.Migrate(ctx); err != nil {
		return err
	}
	conn, err := db.pool.Acquire(ctx) // Migrate has just used it
	if err != nil {
		return translate(err)
	}
	defer conn.Release()
	defer func() { _ = conn.Conn().Close(ctx) }() // it listens, so no other call may use it
	if channel != "" {
		err = db.within(ctx, db.limit, func(ctx context.Context) error {
			_, err := conn.Exec(ctx, "listen "+pgx.Identifier{channel}.Sanitize())
			return err
		})
	}
	for err == nil {
		if err = db.probe(ctx); err == nil {
			err = db.within(ctx, db.limit, conn.Ping)
		}
		if err != nil {
			return err
		}
		serves()
		err = db.within(ctx, probeEvery, func(ctx context.Context) error {
			for {
				n, err := conn.Conn().WaitForNotification(ctx)
				switch {
				case err == nil && n.Channel == channel:
					heard(n.Payload)
				case err != nil && ctx.Err() != nil && !conn.Conn().IsClosed():
					return nil
				case err != nil:
					return err
				}
			}
		})
	}
	return err
}

// probe checks that the server responds and takes changes: it reads whether a transaction is read-only, which needs
// no right on a table. It is on a standby, and on a server whose transactions are read-only by default.
func (db *DB) probe(ctx context.Context) error {
	return db.Do(ctx, func(ctx context.Context, tx Tx) error {
		var refuses bool
		err := tx.First(ctx, []any{&refuses}, "select current_setting('transaction_read_only')::boolean")
		if err == nil && refuses {
			err = refusal("25006")
		}
		return err
	})
}

// within runs a call within the limit and translates its error.
func (db *DB) within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(limited)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return translate(err)
}

// Sweep calls the function clean at each interval until ctx ends. It logs an error of clean once,
// unless the error is an outage that Run logs.
func (db *DB) Sweep(ctx context.Context, interval time.Duration, clean func(context.Context) error) {
	for logged := ""; backoff.Sleep(ctx, interval) == nil; {
		text := ""
		if err := clean(ctx); err != nil && !isAway(err) && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != logged {
			db.log.Error("postgres does not delete old rows", "err", text)
		}
		logged = text
	}
}
