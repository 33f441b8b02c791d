package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// lookWait limits how long the start waits for the first looks at all stores together.
const lookWait = 2 * time.Second

// firstLook is the first look at a store. It may continue after the start.
type firstLook struct {
	store string // the store's part of the file
	stop  context.CancelFunc
	group sync.WaitGroup
	done  chan struct{}
	fault error // why this program cannot use the store; valid once done is closed
}

// lookAt begins a look in the background. check must return an error only for a permanent fault, not
// if the store does not answer.
func lookAt(ctx context.Context, store string, check func(context.Context) error) *firstLook {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &firstLook{store: store, stop: stop, done: make(chan struct{})}
	l.group.Go(func() {
		defer close(l.done)
		if err := check(ctx); err != nil {
			l.fault = fmt.Errorf("%s: %w", store, err)
		}
	})
	return l
}

// end ends the look and waits until it has ended. A nil look has ended.
func (l *firstLook) end() {
	if l != nil {
		l.stop()
		l.group.Wait()
	}
}

// await waits for looks and returns the first fault; a nil look has ended. After lookWait the start
// continues without the stores that did not answer, and later faults are logged.
func await(ctx context.Context, log *slog.Logger, looks ...*firstLook) error {
	limited, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	for _, l := range looks {
		if l == nil {
			continue
		}
		select {
		case <-l.done:
		case <-limited.Done():
		}
		if ctx.Err() != nil { // the start is being stopped
			return nil
		}
		select {
		case <-l.done:
			if l.fault != nil {
				return l.fault
			}
		default:
			log.Warn("a store does not answer; the start goes on without it", "store", l.store)
			l.group.Go(func() {
				<-l.done
				if l.fault != nil {
					log.Error("a store cannot be used", "err", l.fault)
				}
			})
		}
	}
	return nil
}
