package reload

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Run reloads the file after each change until ctx ends, and then returns nil. Run begins with a
// read, because the file may have changed since Load.
//
// Every event in the directory causes a read, regardless of the name in the event. For instance,
// Kubernetes replaces a ConfigMap by renaming a link, and the events do not contain the name of the
// file. A read of unchanged bytes has no effect.
func (f *File) Run(ctx context.Context) error {
	var events <-chan fsnotify.Event // stays nil and never delivers if the system cannot watch files
	var lost <-chan error
	following := make(chan struct{}, 1) // a lock; it has one element while addWatches uses the disk
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.log.Warn("the configuration file is polled, because the system gives no events", "err", err, "every", f.every)
	} else {
		events, lost = watcher.Events, watcher.Errors
		defer unwatch(watcher, following)
	}
	dirs := make(map[string]bool)
	// The watch must start before the read, or a write between them would be missed.
	follow := func() {
		following <- struct{}{}
		f.addWatches(watcher, dirs)
		<-following
	}
	f.watch(ctx, events, lost, follow)
	return nil
}

// watch reads the file after events and at intervals, until ctx ends. Each attempt logs its result
// and updates the Status.
func (f *File) watch(ctx context.Context, events <-chan fsnotify.Event, lost <-chan error, follow func()) {
	poll := time.NewTicker(f.every)
	defer poll.Stop()
	settled := time.NewTimer(0) // fires at once for the first read
	defer settled.Stop()
	var deadline time.Time // latest time of the next read; zero = no read is due

	for {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-events:
		case err := <-lost: // some events were lost, perhaps an event about the file
			f.log.Debug("events of the file system were lost", "err", err)
		case <-poll.C:
			due = true
		case <-settled.C:
			due = true
		}
		if !due {
			now := time.Now()
			if deadline.IsZero() {
				deadline = now.Add(f.latest)
			}
			settled.Reset(min(f.quiet, deadline.Sub(now)))
			continue
		}
		deadline = time.Time{}
		select {
		case f.fileLock <- struct{}{}:
			if ctx.Err() == nil {
				_ = f.attempt(ctx, ByWatch, follow)
			}
			<-f.fileLock
		case <-ctx.Done():
			return
		}
	}
}

// unwatch closes the watcher. If the disk hangs, unwatch abandons the watcher, because closing
// would hang too.
func unwatch(watcher *fsnotify.Watcher, following chan struct{}) {
	select {
	case following <- struct{}{}:
		_ = watcher.Close()
		<-following
	case <-time.After(time.Second):
	}
}

// addWatches adds the directory of the file to the watcher. If the file is a link, it also adds the
// directory of the link's target. If a directory was removed and created again, addWatches adds it
// again. After a failure the next poll tries again. With a nil watcher addWatches does nothing.
func (f *File) addWatches(watcher *fsnotify.Watcher, dirs map[string]bool) {
	if watcher == nil {
		return
	}
	wanted := map[string]bool{filepath.Dir(f.path): true}
	if real, err := filepath.EvalSymlinks(f.path); err == nil {
		wanted[filepath.Dir(real)] = true
	}
	for _, dir := range slices.Collect(maps.Keys(dirs)) {
		if !wanted[dir] {
			_ = watcher.Remove(dir)
			delete(dirs, dir)
		}
	}
	for dir := range wanted {
		if watcher.Add(dir) == nil {
			dirs[dir] = true
		}
	}
}
