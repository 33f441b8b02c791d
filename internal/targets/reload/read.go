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

// reading is one read of the file. A network disk that hangs may block it forever in the
// kernel. So it has its own goroutine, every wait for it has a limit, and no second one
// begins before it has ended.
type reading struct {
	began time.Time
	ended chan struct{} // closed once data and err are there
	data  []byte
	err   error
}

// wait returns nil when the reading has ended.
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
	case <-r.ended: // the result counts, even if the limit is over
		return nil
	default:
		return err
	}
}

// read returns the bytes of the file, at most one more than Parse accepts, so that Parse
// reports a larger file. It calls before in the goroutine that reads, because before uses
// the disk too. The error is targets.Problems or ctx.Err(). The caller has the turn.
func (f *File) read(ctx context.Context, before func()) ([]byte, error) {
	data, err := f.bytes(ctx, before)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // the caller gave up; the file is not the cause
	case err != nil:
		return nil, targets.Problems{{File: f.path, Text: "the file cannot be read: " + reason(err)}}
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

// readFile reads a regular file. Reading another kind may never end, and opening a pipe may
// wait for a writer.
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

// reason returns an error of the file system without the path, which the problem has.
func reason(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return err.Error()
}
