package reload

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Run reloads the file when it changes, until ctx ends, and then returns nil. It
// begins with one look at the file, because it may have changed since Load.
//
// Any event in the directory counts, whatever the name in it: a ConfigMap is
// swapped by renaming a link that the file's own name never shows. Reading a
// small file too often costs nothing, and unchanged bytes change nothing.
func (f *File) Run(ctx context.Context) error {
	var events <-chan fsnotify.Event // nil, which never delivers, where the system gives none
	var lost <-chan error
	following := make(chan struct{}, 1) // holds one element while the disk is asked what to watch
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.log.Warn("changes of the configuration file are noticed late, the system gives no events", "err", err)
	} else {
		events, lost = watcher.Events, watcher.Errors
		defer unwatch(watcher, following)
	}
	dirs := make(map[string]bool)
	// Watch before reading: what is written in between is then seen.
	follow := func() {
		following <- struct{}{}
		f.follow(watcher, dirs)
		<-following
	}
	f.watch(ctx, events, lost, follow)
	return nil
}

// watch reads when events come, or when it is time, until ctx ends.
func (f *File) watch(ctx context.Context, events <-chan fsnotify.Event, lost <-chan error, follow func()) {
	look := time.NewTicker(f.every)
	defer look.Stop()
	settled := time.NewTimer(0) // fires at once: the first look
	defer settled.Stop()
	var deadline time.Time // of the reading that settled waits for; zero = none

	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
		case err := <-lost: // too many at once; the file's may be among them
			f.log.Debug("events of the file system were lost", "err", err)
		case <-look.C:
			deadline = time.Time{}
			f.turned(ctx, follow)
			continue
		case <-settled.C:
			deadline = time.Time{}
			f.turned(ctx, follow)
			continue
		}
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(f.latest)
		}
		settled.Reset(min(f.quiet, deadline.Sub(now)))
	}
}

// turned makes one attempt; it has said in the log and in the Status what came
// of it.
func (f *File) turned(ctx context.Context, before func()) {
	select {
	case f.turn <- struct{}{}:
		if ctx.Err() == nil { // else nobody wants a new Set any more
			_ = f.attempt(ctx, before)
		}
		<-f.turn
	case <-ctx.Done():
	}
}

// unwatch ends the watching. Where the disk hangs, closing would hang with it:
// then the watcher is left behind, as the reading is that waits for it.
func unwatch(watcher *fsnotify.Watcher, following chan struct{}) {
	select {
	case following <- struct{}{}:
		_ = watcher.Close()
		<-following
	case <-time.After(time.Second):
	}
}

// follow watches the file's directory and, where the file is a link, the one of
// what it leads to at present. Directories that went and came back are watched
// anew. A nil watcher watches nothing. A failure is left to the slow look: the directory may be back by then.
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
