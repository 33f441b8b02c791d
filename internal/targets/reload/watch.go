package reload

import (
	"context"
	"maps"
	"time"
)

// Run reloads the file after each change until ctx ends, and then returns nil. It begins with an attempt, because the
// file may have changed since Load. An attempt with unchanged files has no effect.
func (f *File) Run(ctx context.Context) error {
	poll := time.NewTicker(f.quiet)
	defer poll.Stop()
	var seen map[string]uint64 // the files as the last poll found them
	var changed time.Time      // of the first change after the last attempt; zero = none
	for ctx.Err() == nil {
		f.mu.Lock()
		found := f.digests(f.tried)
		f.mu.Unlock()
		settled := maps.Equal(found, seen)
		if seen = found; !settled && changed.IsZero() {
			changed = time.Now()
		}
		if !changed.IsZero() && (settled || time.Since(changed) >= f.latest) {
			_ = f.Reload(ctx, ByWatch) // logs its result and updates the Status
			changed = time.Time{}
		}
		select {
		case <-ctx.Done():
		case <-poll.C:
		}
	}
	return nil
}
