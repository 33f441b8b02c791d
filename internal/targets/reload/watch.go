package reload

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Run reloads the file when it changes, until ctx ends, and then returns nil. It begins
// with one read, because the file may have changed since Load.
//
// Every event in the directory causes a read, whatever its name: a ConfigMap is swapped by
// renaming a link, and the events do not have the file's name. Unchanged bytes change
// nothing.
func (f *File) Run(ctx context.Context) error {
	var events <-chan fsnotify.Event // nil, which never delivers, if the system has none
	var lost <-chan error
	following := make(chan struct{}, 1) // holds one element while follow uses the disk
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.log.Warn("the configuration file is polled, because the system gives no events", "err", err, "every", f.every)
	} else {
		events, lost = watcher.Events, watcher.Errors
		defer unwatch(watcher, following)
	}
	dirs := make(map[string]bool)
	// Watch before reading: a write in between must not go unnoticed.
	follow := func() {
		following <- struct{}{}
		f.follow(watcher, dirs)
		<-following
	}
	f.watch(ctx, events, lost, follow)
	return nil
}

// watch reads after events and at intervals, until ctx ends. An attempt logs its result and
// stores it in the Status.
func (f *File) watch(ctx context.Context, events <-chan fsnotify.Event, lost <-chan error, follow func()) {
	poll := time.NewTicker(f.every)
	defer poll.Stop()
	settled := time.NewTimer(0) // fires at once: the first read
	defer settled.Stop()
	var deadline time.Time // for the read that settled starts; zero = none

	for {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-events:
		case err := <-lost: // one of them may be about the file
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
		case f.turn <- struct{}{}:
			if ctx.Err() == nil {
				_ = f.attempt(ctx, follow)
			}
			<-f.turn
		case <-ctx.Done():
			return
		}
	}
}

// unwatch closes the watcher. If the disk hangs, closing would hang too: then the watcher is
// abandoned, like the reading that waits for the disk.
func unwatch(watcher *fsnotify.Watcher, following chan struct{}) {
	select {
	case following <- struct{}{}:
		_ = watcher.Close()
		<-following
	case <-time.After(time.Second):
	}
}

// follow watches the file's directory and, if the file is a link, the directory of its
// target. Directories that were removed and made again are watched again. A nil watcher
// watches nothing. After a failure the next poll tries again.
func (f *File) follow(watcher *fsnotify.Watcher, dirs map[string]bool) {
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
