package history

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"poold/internal/backoff"
)

const (
	// mostQueued limits the memory of the queue to about 3 MB. At 1,000 hand-outs per second the queue
	// is full after ten seconds.
	mostQueued = 10_000
	// gatherTime is the longest time from the queueing of an entry to its write. A killed process loses
	// the entries that were queued in this time.
	gatherTime = 500 * time.Millisecond
	// lastWrites limits the time for writes after Run's context has ended.
	lastWrites = 3 * time.Second
	// dropLogEvery is the minimum interval between two log lines about dropped entries.
	dropLogEvery = time.Minute
)

// EntryWriter is the part of an Audit that an Auditor needs.
type EntryWriter interface {
	WriteEntries(ctx context.Context, batch []Entry) error
}

// Auditor queues entries in memory and writes them in batches, so that callers do not wait for the store.
type Auditor struct {
	to   EntryWriter
	log  *slog.Logger
	full chan struct{} // signals that the queue has a full batch; capacity 1
	down outage

	mu               sync.Mutex
	queue            []Entry // at most mostQueued entries, oldest first
	written, dropped int64

	// Only the goroutine of Run uses the following fields.
	refusal  error     // why the store last refused an entry; nil = no refusal since the last log line
	logged   int64     // number of dropped entries at the last log line about them
	loggedAt time.Time // time of the last log line about dropped entries
}

// AuditHealth is the state of an Auditor.
type AuditHealth struct {
	Down    string    // why the store does not respond; "" = the last attempt succeeded
	Since   time.Time // first failure after the last success, if Down is not ""
	Queued  int
	Written int64
	Dropped int64 // entries dropped because the queue was full or because the store refused their content
}

// NewAuditor returns an Auditor. It writes nothing before Run is called.
func NewAuditor(to EntryWriter, log *slog.Logger) *Auditor {
	return &Auditor{to: to, log: log, full: make(chan struct{}, 1), down: outage{
		log: log, began: "the audit cannot be written; its entries wait in memory while there is room", ended: "the audit is written again",
	}}
}

// Note queues an entry. It does not block.
func (a *Auditor) Note(e Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) >= mostQueued {
		a.dropped++
		return
	}
	if a.queue = append(a.queue, e); len(a.queue) >= MostBatch {
		select {
		case a.full <- struct{}{}:
		default:
		}
	}
}

// Health returns the state of the Auditor. It does not block.
func (a *Auditor) Health() AuditHealth {
	a.mu.Lock()
	defer a.mu.Unlock()
	reason, since := a.down.state()
	return AuditHealth{Down: reason, Since: since, Queued: len(a.queue), Written: a.written, Dropped: a.dropped}
}

// Run writes the queued entries until ctx ends. After that it writes the rest of the queue, for at most
// the time lastWrites.
func (a *Auditor) Run(ctx context.Context) error {
	ticker := time.NewTicker(gatherTime)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-a.full:
		case <-ticker.C:
		}
		err := a.writeAll(ctx)
		a.logDropped(dropLogEvery)
		if err != nil {
			_ = backoff.Sleep(ctx, a.down.pause())
		}
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
	defer cancel()
	if err := a.writeAll(limited); err != nil {
		a.log.Warn("the queued entries of the audit are lost", "entries", a.Health().Queued, "err", err)
	}
	a.logDropped(0)
	return nil
}

// writeAll writes the entries that are queued at the time of the call. The next call writes later
// entries.
func (a *Auditor) writeAll(ctx context.Context) error {
	for left := a.Health().Queued; left > 0; {
		batch, dropped := a.oldest(min(left, MostBatch)), 0
		err := writeParts(ctx, batch, a.write, func(e Entry, err error) {
			dropped++
			a.refusal = fmt.Errorf("entry %s: %w", e.ID, err)
		})
		if err == nil || ctx.Err() == nil { // the end of ctx is not a fault of the store
			a.down.note(err)
		}
		if err != nil {
			return err
		}
		a.removeOldest(len(batch), dropped)
		left -= len(batch)
	}
	return nil
}

// oldest returns the first n entries of the queue. These entries stay in the queue.
func (a *Auditor) oldest(n int) []Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.queue[:n:n]
}

// removeOldest removes the first n entries of the queue. The argument refused is the number of these
// entries that the store refused.
func (a *Auditor) removeOldest(n, refused int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written += int64(n - refused)
	a.dropped += int64(refused)
	if a.queue = a.queue[n:]; len(a.queue) == 0 {
		a.queue = nil // releases the array
	}
}

// logDropped logs how many entries were dropped since its last log line. It logs nothing if no entry
// was dropped since that line, or if less than the duration `after` has passed since that line.
func (a *Auditor) logDropped(after time.Duration) {
	dropped := a.Health().Dropped
	if dropped == a.logged || time.Since(a.loggedAt) < after {
		return
	}
	why := "the queue is full"
	if a.refusal != nil {
		why = a.refusal.Error()
	}
	a.log.Warn("entries of the audit are dropped", "entries", dropped-a.logged, "err", why)
	a.logged, a.loggedAt, a.refusal = dropped, time.Now(), nil
}

// write writes entries. If the store panics, write returns the panic as an error, so that the daemon
// survives.
func (a *Auditor) write(ctx context.Context, batch []Entry) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return a.to.WriteEntries(ctx, batch)
}
