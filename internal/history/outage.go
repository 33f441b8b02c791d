package history

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"poold/internal/backoff"
	"poold/internal/redisdb"
)

// retries are the pauses between two attempts at a store that does not answer.
var retries = backoff.Doubling{First: time.Second, Most: 30 * time.Second}

// outage notes whether the store of a writer answers, and logs each change. note and wait belong to the writer's
// goroutine.
type outage struct {
	log          *slog.Logger
	began, ended string // log messages
	failures     int    // pauses since the last success

	mu     sync.Mutex
	reason string    // of the last failure; "" = the last attempt succeeded
	since  time.Time // first failure in a row
}

// note notes the result of an attempt. It logs without a lock, because callers must not wait for the log.
func (o *outage) note(err error) {
	o.mu.Lock()
	was := o.reason
	if o.reason = ""; err != nil {
		o.reason = err.Error()
		if was == "" {
			o.since = time.Now()
		}
	}
	since := o.since
	o.mu.Unlock()
	switch {
	case err != nil && was == "":
		o.log.Warn(o.began, "err", err)
	case err == nil && was != "":
		o.log.Info(o.ended, "after", time.Since(since).Round(time.Second))
	}
	if err == nil {
		o.failures = 0
	}
}

// state returns why the store does not answer, or "", and since when.
func (o *outage) state() (reason string, since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reason, o.since
}

// wait pauses before the next attempt, until ctx ends.
func (o *outage) wait(ctx context.Context) {
	o.failures++
	_ = retries.Wait(ctx, o.failures)
}

// writeParts writes a batch. If the store refuses it for its content, writeParts writes each half by itself, down to
// the refused items, which it passes to refuse. An outage or the end of ctx is an error.
func writeParts[T any](ctx context.Context, batch []T, write func(context.Context, []T) error, refuse func(T, error)) error {
	err := write(ctx, batch)
	if err == nil || errors.Is(err, ErrDown) || errors.Is(err, redisdb.ErrDown) || ctx.Err() != nil {
		return err
	}
	if len(batch) == 1 {
		refuse(batch[0], err)
		return nil
	}
	half := len(batch) / 2
	if err := writeParts(ctx, batch[:half:half], write, refuse); err != nil {
		return err
	}
	return writeParts(ctx, batch[half:], write, refuse)
}
