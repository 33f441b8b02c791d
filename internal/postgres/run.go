package postgres

import (
	"context"
	"time"

	"poold/internal/backoff"
)

// probeEvery is the interval between two probes.
const probeEvery = time.Second

// reconnects defines the pauses between probes after a failure.
var reconnects = backoff.Doubling{First: 50 * time.Millisecond, Most: time.Second}

// Run brings the schema up to date, probes the server each second, and calls the function clean at each interval, until
// ctx ends. It logs once when one of these steps fails or fails in another way, and once when all steps work again. Run
// must be called at most once.
func (db *DB) Run(ctx context.Context, interval time.Duration, clean func(context.Context) error) error {
	logged, cleaned := "", time.Now() // logged is the last fault; "" = none
	for failures := 0; ; {
		err := db.Migrate(ctx)
		if err == nil {
			err = db.probe(ctx)
		}
		if err == nil && time.Since(cleaned) >= interval {
			if err = clean(ctx); err == nil {
				cleaned = time.Now()
			}
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is how Run is stopped
		}
		state, pause := "", probeEvery
		if failures++; err == nil {
			failures = 0
		} else {
			state, pause = err.Error(), reconnects.Pause(failures)
		}
		if isAway(err) {
			state = "away"
		}
		switch {
		case state == logged:
		case err == nil:
			db.log.Info("postgres serves again")
		default:
			db.log.Error("postgres does not serve", "err", err)
		}
		logged = state
		db.renew(err)
		_ = backoff.Sleep(ctx, pause) // the calls above end at once if ctx has ended
	}
}

// probe checks that the server responds and accepts changes. It reads whether transactions are read-only, which needs
// no right on a table. They are on a standby, and on a server that is set to read-only transactions.
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
