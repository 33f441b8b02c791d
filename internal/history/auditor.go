package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

const (
	// mostQueued is how many entries wait in memory, about 3 MB: ten seconds of a
	// thousand hand-outs a second. What comes beyond is dropped and counted.
	mostQueued = 10_000
	// gather passes between the first entry of a batch and its writing, at most: what a
	// process that is killed loses.
	gather = 500 * time.Millisecond
	// lastWrites is how long a stop waits for what is queued.
	lastWrites = 3 * time.Second
	// tellDrops passes between two lines of the log that say what was dropped.
	tellDrops = time.Minute
)

// EntryWriter is the part of an Audit that an Auditor needs.
type EntryWriter interface {
	WriteEntries(ctx context.Context, batch []Entry) error
}

// Auditor writes the audit beside what it is about: who notes an entry does not wait.
type Auditor struct {
	to   EntryWriter
	log  *slog.Logger
	full chan struct{} // of one: there is a batch
	mu   sync.Mutex
	// queue has at most mostQueued entries, the oldest first.
	queue  []Entry
	health AuditHealth

	// Run's alone:
	failures int   // attempts in a row at a store that does not answer
	refusal  error // the last one of the store
	told     int64 // how many were dropped when the log said so last, which was then
	then     time.Time
}

// AuditHealth is how an Auditor is doing.
type AuditHealth struct {
	Down    string // why nothing is written now; "" = it is, as far as is known
	Queued  int
	Written int64
	Dropped int64 // entries that found the queue full, or were refused for what is in them
}

// NewAuditor makes one.
func NewAuditor(to EntryWriter, log *slog.Logger) *Auditor {
	return &Auditor{to: to, log: log, full: make(chan struct{}, 1)}
}

// Note queues an entry. It does not block.
func (a *Auditor) Note(e Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) >= mostQueued {
		a.health.Dropped++
		return
	}
	if a.queue = append(a.queue, e); len(a.queue) >= MostBatch {
		select {
		case a.full <- struct{}{}:
		default:
		}
	}
}

// Health does not block.
func (a *Auditor) Health() AuditHealth {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.health
	h.Queued = len(a.queue)
	return h
}

// Run writes until ctx ends, and then for a short while what is queued.
func (a *Auditor) Run(ctx context.Context) error {
	ticker := time.NewTicker(gather)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-a.full:
		case <-ticker.C:
		}
		err := a.writeAll(ctx)
		a.tell(tellDrops)
		if err != nil {
			a.failures++
			_ = retries.Wait(ctx, a.failures)
		}
	}
	a.finish(ctx)
	return nil
}

// finish writes what is queued at the end.
func (a *Auditor) finish(ctx context.Context) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
	defer cancel()
	if err := a.writeAll(limited); err != nil {
		a.log.Warn("the end of the audit is lost", "entries", a.Health().Queued, "err", err)
	}
	a.tell(0)
}

// writeAll writes what is queued now. What comes meanwhile gathers for the next time.
func (a *Auditor) writeAll(ctx context.Context) error {
	for left := a.Health().Queued; left > 0; {
		batch := a.oldest(min(left, MostBatch))
		dropped, err := a.write(ctx, batch)
		if err != nil {
			a.failed(ctx, err)
			return err
		}
		a.done(len(batch), dropped)
		left -= len(batch)
	}
	return nil
}

// oldest are the first n entries of the queue, which stay in it. Nobody changes them.
func (a *Auditor) oldest(n int) []Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.queue[:n:n]
}

// done takes a batch that was written out of the queue.
func (a *Auditor) done(n, dropped int) {
	a.mu.Lock()
	was := a.health.Down
	a.health.Down = ""
	a.health.Written += int64(n - dropped)
	a.health.Dropped += int64(dropped)
	if a.queue = a.queue[n:]; len(a.queue) == 0 {
		a.queue = nil // what stood in front of it can go
	}
	a.mu.Unlock() // before the log, for which no caller waits
	a.failures = 0
	if was != "" {
		a.log.Info("the audit is written again")
	}
}

// failed notes why nothing is written. That ctx ended is no fault of the store.
func (a *Auditor) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	was := a.health.Down
	a.health.Down = err.Error()
	a.mu.Unlock()
	if was == "" {
		a.log.Warn("the audit cannot be written; what does not fit in memory meanwhile is dropped and counted", "err", err)
	}
}

// tell logs what was dropped since it did so last, if that is some time ago.
func (a *Auditor) tell(after time.Duration) {
	dropped := a.Health().Dropped
	if dropped == a.told || time.Since(a.then) < after {
		return
	}
	why := "the queue is full"
	if a.refusal != nil {
		why = a.refusal.Error()
	}
	a.log.Warn("entries of the audit are dropped", "entries", dropped-a.told, "err", why)
	a.told, a.then, a.refusal = dropped, time.Now(), nil
}

// write writes entries. One that the store refuses for what is in it is dropped.
func (a *Auditor) write(ctx context.Context, batch []Entry) (dropped int, err error) {
	err = a.try(ctx, batch)
	switch {
	case err == nil, errors.Is(err, ErrDown), ctx.Err() != nil:
		return 0, err
	case len(batch) == 1:
		a.refusal = fmt.Errorf("entry %s: %w", batch[0].ID, err)
		return 1, nil
	}
	for half := range slices.Chunk(batch, (len(batch)+1)/2) {
		n, err := a.write(ctx, half)
		if err != nil {
			return 0, err
		}
		dropped += n
	}
	return dropped, nil
}

// try keeps a fault of this program from ending the daemon: it refuses the batch.
func (a *Auditor) try(ctx context.Context, batch []Entry) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return a.to.WriteEntries(ctx, batch)
}
