package reload

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Run reloads the file after each change until ctx ends, and then returns nil. Run begins with a
// read, because the file may have changed since Load.
//
// Every event in the directories causes a read, regardless of the name in the event. For instance,
// Kubernetes replaces a ConfigMap by renaming a link, and the events do not contain the name of the
// file. A read of unchanged bytes has no effect.
func (f *File) Run(ctx context.Context) error {
	var events <-chan fsnotify.Event // stays nil and never delivers if the system cannot watch files
	var lost <-chan error
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.log.Warn("the configuration file is polled, because the system gives no events", "err", err, "every", f.every)
	} else {
		events, lost = watcher.Events, watcher.Errors
		defer func() { _ = watcher.Close() }()
		f.watch(watcher)
		defer f.watch(nil)
	}
	f.follow(ctx, events, lost)
	return nil
}

// watch sets the watcher to which reads add their directories.
func (f *File) watch(watcher *fsnotify.Watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watcher = watcher
}

// follow reads the file after events and at intervals, until ctx ends. The channels may be nil. It
// waits for a quiet time after each event, so that a half-written file is not read, but reads at the
// latest after the maximum delay, because other files in the directory may change all the time.
func (f *File) follow(ctx context.Context, events <-chan fsnotify.Event, lost <-chan error) {
	poll := time.NewTicker(f.every)
	defer poll.Stop()
	settled := time.NewTimer(0) // fires at once for the first read
	defer settled.Stop()
	var deadline time.Time // latest time of the next read; zero = no event
	for {
		read := false
		select {
		case <-ctx.Done():
			return
		case <-events:
		case err := <-lost: // perhaps an event about the file
			f.log.Debug("events of the file system were lost", "err", err)
		case <-poll.C:
			read = true
		case <-settled.C:
			read = true
		}
		if read {
			deadline = time.Time{}
			_ = f.Reload(ctx, ByWatch) // logs its result and updates the Status
			continue
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(f.latest)
		}
		settled.Reset(min(f.quiet, time.Until(deadline)))
	}
}
