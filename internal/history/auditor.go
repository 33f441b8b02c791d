package history

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
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
	queue   []Entry
	health  AuditHealth
	pausing time.Duration // Run's: until the next try
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
	if a.queue = append(a.queue, e); len(a.queue) == MostBatch {
		a.wake()
	}
}

func (a *Auditor) wake() {
	select {
	case a.full <- struct{}{}:
	default:
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
	for {
		select {
		case <-ctx.Done():
			a.finish(ctx)
			return nil
		case <-a.full:
		case <-ticker.C:
		}
		if err := a.writeAll(ctx); err != nil {
			a.pause(ctx)
		}
	}
}

// finish writes what is queued at the end.
func (a *Auditor) finish(ctx context.Context) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
	defer cancel()
	if err := a.writeAll(limited); err != nil {
		a.log.Warn("the end of the audit is lost", "entries", a.Health().Queued, "err", err)
	}
}

// writeAll writes what is queued.
func (a *Auditor) writeAll(ctx context.Context) error {
	for {
		a.mu.Lock()
		batch := a.queue[:min(len(a.queue), MostBatch)]
		a.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		dropped, err := a.write(ctx, batch)
		a.done(len(batch), dropped, err)
		if err != nil {
			return err
		}
	}
}

// done takes a batch that was written out of the queue, and logs each change.
func (a *Auditor) done(n, dropped int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.health.Down
	if err != nil {
		if a.health.Down = err.Error(); was == "" {
			a.log.Warn("the audit cannot be written; what does not fit in memory meanwhile is dropped and counted", "err", err)
		}
		return
	}
	a.health.Down, a.pausing = "", 0
	a.health.Written += int64(n - dropped)
	a.health.Dropped += int64(dropped)
	if a.queue = a.queue[n:]; len(a.queue) == 0 {
		a.queue = nil // what stood in front of it can go
	}
	if was != "" {
		a.log.Info("the audit is written again", "dropped", a.health.Dropped)
	}
}

// write writes entries. One that the store refuses for what is in it is dropped.
func (a *Auditor) write(ctx context.Context, batch []Entry) (dropped int, err error) {
	err = a.to.WriteEntries(ctx, batch)
	switch {
	case err == nil, errors.Is(err, ErrDown), ctx.Err() != nil:
		return 0, err
	case len(batch) == 1:
		a.log.Error("the audit refuses an entry, which is dropped", "entry", batch[0].ID, "err", err)
		return 1, nil
	}
	for _, half := range [][]Entry{batch[:len(batch)/2], batch[len(batch)/2:]} {
		n, err := a.write(ctx, half)
		if err != nil {
			return 0, err
		}
		dropped += n
	}
	return dropped, nil
}

// pause waits before the store is tried again.
func (a *Auditor) pause(ctx context.Context) {
	a.pausing = min(max(firstPause, 2*a.pausing), mostPause)
	select {
	case <-ctx.Done():
	case <-time.After(a.pausing/2 + rand.N(a.pausing)): //nolint:gosec // G404: jitter
	}
}
