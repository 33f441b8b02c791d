package reload

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Run reloads the file after each change until ctx ends, and then returns nil. Run begins with a
// read, because the file may have changed since Load. A read of unchanged bytes has no effect.
func (f *File) Run(ctx context.Context) error {
	poll := time.NewTicker(f.quiet)
	defer poll.Stop()
	var seen []fs.FileInfo      // the files as the last poll found them
	var read, changed time.Time // of the last read, and of the first change after it; zero = none
	for ctx.Err() == nil {
		found := f.look()
		settled := slices.EqualFunc(found, seen, same)
		if seen = found; !settled && changed.IsZero() {
			changed = time.Now()
		}
		isDue := !changed.IsZero() && (settled || time.Since(changed) >= f.latest)
		if isDue || time.Since(read) >= f.every {
			_ = f.Reload(ctx, ByWatch) // logs its result and updates the Status
			read, changed = time.Now(), time.Time{}
		}
		select {
		case <-ctx.Done():
		case <-poll.C:
		}
	}
	return nil
}

// look returns the state of each file of the last attempt; nil = it cannot be read.
func (f *File) look() (found []fs.FileInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range f.paths {
		info, _ := os.Stat(path)
		found = append(found, info)
	}
	return found
}

// same reports whether a file is probably unchanged. A rename replaces a file by another one.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime())
}
