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

// retries are the pauses between two attempts while a store does not respond.
var retries = backoff.Doubling{First: time.Second, Most: 30 * time.Second}

// outage records whether a store responds to its writer, and logs each change. Only the writer's
// goroutine may call the methods note and pause.
type outage struct {
	log          *slog.Logger
	began, ended string // log messages
	failures     int    // number of failed attempts since the last success

	mu     sync.Mutex
	reason string    // why the last attempt failed; "" = the attempt succeeded
	since  time.Time // time of the first failure after the last success; zero = the last attempt succeeded
}

// note records the result of an attempt. It releases the lock before it logs, so that a slow log does
// not block callers of the method state.
func (o *outage) note(err error) {
	o.mu.Lock()
	was := o.reason
	since := o.since
	if o.reason, o.since = "", (time.Time{}); err != nil {
		o.reason, o.since = err.Error(), since
		if was == "" {
			o.since = time.Now()
		}
	}
	o.mu.Unlock()
	switch {
	case err != nil && was == "":
		o.log.Warn(o.began, "err", err)
	case err == nil && was != "":
		o.log.Info(o.ended, "took", time.Since(since).Round(time.Second))
	}
	if err == nil {
		o.failures = 0
	}
}

// state returns the reason and the start of an outage. The reason is "" if the last attempt
// succeeded.
func (o *outage) state() (reason string, since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reason, o.since
}

// pause returns the pause before the next attempt.
func (o *outage) pause() time.Duration {
	o.failures++
	return retries.Pause(o.failures)
}

// writeParts writes a batch with the function write. If the store refuses the content of the batch,
// writeParts halves the batch repeatedly and writes the halves separately. If the store refuses a
// single item, writeParts passes this item to the function refuse. It returns an error if the store
// does not respond or ctx ends.
func writeParts[T any](ctx context.Context, batch []T, write func(context.Context, []T) error, refuse func(T, error)) error {
	if len(batch) == 0 {
		return nil
	}
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
