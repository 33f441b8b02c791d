package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// lookWait limits how long the start waits for the first checks of all stores together.
const lookWait = 2 * time.Second

// firstLook is the check of a store at the start of the daemon. The check may continue in the
// background after the start.
type firstLook struct {
	store string // the section or key of pools.yaml that configures the store
	stop  context.CancelFunc
	group sync.WaitGroup
	done  chan struct{}
	fault error // why this program cannot use the store; readable after the channel done is closed
}

// lookAt runs the function check in the background. This function must return an error only for a
// permanent fault. It must return nil if the store does not respond.
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

// end cancels the check and waits for its goroutine. It is a no-op for a nil pointer.
func (l *firstLook) end() {
	if l != nil {
		l.stop()
		l.group.Wait()
	}
}

// await waits at most lookWait for the checks of all stores, and returns the first fault. It skips
// nil pointers. If a check has not ended by then, the start continues, and a goroutine logs the
// fault of that check later.
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
		if ctx.Err() != nil { // the daemon was stopped while it started
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
					log.Error("a store cannot be used", "store", l.store, "err", l.fault)
				}
			})
		}
	}
	return nil
}
