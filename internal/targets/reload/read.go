package reload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"poold/internal/targets"
	"poold/internal/targets/syntax"
)

var errIrregular = errors.New("it is not a regular file, but a directory, a pipe, a socket or a device")

// reading is one read of the file in its own goroutine. If a network disk hangs, the kernel may
// block this goroutine forever. Therefore every wait for a reading has a timeout, and no second
// reading starts before the first reading has ended.
type reading struct {
	began time.Time
	ended chan struct{} // closed when data and err are set
	data  []byte
	err   error
}

// wait returns nil when the reading has ended. It returns an error if the timeout passes or ctx
// ends first.
func (r *reading) wait(ctx context.Context, limit time.Duration) error {
	timer := time.NewTimer(time.Until(r.began.Add(limit)))
	defer timer.Stop()
	var err error
	select {
	case <-r.ended:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("it is still being read after %s: its disk or network does not answer", limit)
	}
	select {
	case <-r.ended: // the result is used even if it came after the timeout
		return nil
	default:
		return err
	}
}

// read returns the bytes of the file. It reads at most one byte more than Parse accepts, so that
// Parse reports a larger file. The goroutine of the reading first calls the function `prepare`, which
// uses the disk too. The error is targets.Problems or ctx.Err(). The caller must hold fileLock.
func (f *File) read(ctx context.Context, prepare func()) ([]byte, error) {
	data, err := f.bytes(ctx, prepare)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // the caller cancelled the read, so the file is not at fault
	case err != nil:
		remedy := ""
		if f.Current() == nil && errors.Is(err, fs.ErrNotExist) {
			remedy = "; name the file with --config (or POOLD_CONFIG)"
		}
		return nil, targets.Problems{{File: f.path, Text: "the file cannot be read: " + reason(err) + remedy}}
	}
	return data, nil
}

func (f *File) bytes(ctx context.Context, before func()) ([]byte, error) {
	// The result of an earlier, abandoned reading may be stale.
	if f.reading != nil {
		if err := f.reading.wait(ctx, f.limit); err != nil {
			return nil, err
		}
	}
	r := &reading{began: time.Now(), ended: make(chan struct{})}
	f.reading = r
	go func() {
		defer close(r.ended)
		if before != nil {
			before()
		}
		r.data, r.err = f.content(f.path)
	}()
	if err := r.wait(ctx, f.limit); err != nil {
		return nil, err
	}
	return r.data, r.err
}

// readFile reads a regular file. It refuses other kinds of files, because a read may never end. It
// opens the file without blocking, because opening a pipe may wait for a writer.
func readFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // G304: the operator names the file
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(file, syntax.MaxSize+1))
}

// reason returns the text of a file system error without the path, because the problem already
// contains the path.
func reason(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return err.Error()
}
