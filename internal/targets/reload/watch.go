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
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.log.Warn("the configuration file is polled, because the system gives no events", "err", err, "every", f.every)
	} else {
		events, lost = watcher.Events, watcher.Errors
	}
	w := newFollower(watcher)
	defer w.close()
	f.watch(ctx, events, lost, w)
	return nil
}

// watch reads the file after events and at intervals, until ctx ends. Each attempt logs its result
// and updates the Status.
func (f *File) watch(ctx context.Context, events <-chan fsnotify.Event, lost <-chan error, w *follower) {
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
				_ = f.attempt(ctx, ByWatch, w.follow)
				w.keep(f.path, f.used, f.asked)
			}
			<-f.fileLock
		case <-ctx.Done():
			return
		}
	}
}

// follower watches the directories of files.
type follower struct {
	watcher *fsnotify.Watcher   // nil = the system cannot watch files, and the methods do nothing
	busy    chan struct{}       // a lock; it has one element while a method uses the disk
	dirs    map[string][]string // the watched directories of each file
}

func newFollower(watcher *fsnotify.Watcher) *follower {
	return &follower{watcher: watcher, busy: make(chan struct{}, 1), dirs: map[string][]string{}}
}

// follow watches the directory of a file. If the path or a directory of it is a link, follow also
// watches the directory of the link's target. If a directory was removed and created again, follow
// watches it again. After a failure the next poll tries again. The watch must start before the read,
// or a write between them would be missed.
func (w *follower) follow(path string) {
	if w.watcher == nil {
		return
	}
	w.busy <- struct{}{}
	wanted := []string{filepath.Dir(path)}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		wanted = append(wanted, filepath.Dir(real))
	}
	w.dirs[path] = wanted
	for _, dir := range wanted {
		_ = w.watcher.Add(dir)
	}
	w.drop()
	<-w.busy
}

// keep ends the watches of files other than the configuration file and the files in used and asked.
func (w *follower) keep(path string, used, asked map[string][]byte) {
	select {
	case w.busy <- struct{}{}:
	default: // the disk hangs; the next attempt tries again
		return
	}
	for of := range w.dirs {
		_, inUse := used[of]
		_, wanted := asked[of]
		if !inUse && !wanted && of != path {
			delete(w.dirs, of)
		}
	}
	w.drop()
	<-w.busy
}

// drop ends the watches of directories that no file needs. The caller must hold busy.
func (w *follower) drop() {
	if w.watcher == nil {
		return
	}
	needed := slices.Concat(slices.Collect(maps.Values(w.dirs))...)
	for _, dir := range w.watcher.WatchList() {
		if !slices.Contains(needed, dir) {
			_ = w.watcher.Remove(dir)
		}
	}
}

// close ends all watches. If the disk hangs, close abandons the watcher, because closing would hang
// too.
func (w *follower) close() {
	if w.watcher == nil {
		return
	}
	select {
	case w.busy <- struct{}{}:
		_ = w.watcher.Close()
		<-w.busy
	case <-time.After(time.Second):
	}
}
