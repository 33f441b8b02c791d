package reload

import (
	"bytes"
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

// disk reads files. Each read has a timeout, because a network disk may hang, and the kernel may then
// block the reading goroutine forever. The methods of a disk must not be called concurrently.
type disk struct {
	limit    time.Duration                                 // timeout for one read
	content  func(path string, most int64) ([]byte, error) // reads a file; tests replace it to simulate a disk that hangs
	readings map[string]*reading                           // the reads that have not ended, by path
}

// reading is one read of a file in its own goroutine. Every wait for a reading has a timeout, and no
// second reading of a file starts before the first has ended.
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

// read returns at most `most` bytes of a file. The goroutine of the reading first calls the function
// `follow` with the path, unless it is nil, because that function uses the disk too.
func (d *disk) read(ctx context.Context, path string, most int64, follow func(path string)) ([]byte, error) {
	// The result of an earlier, abandoned reading may be stale.
	if r := d.readings[path]; r != nil {
		if err := r.wait(ctx, d.limit); err != nil {
			return nil, err
		}
	}
	r := &reading{began: time.Now(), ended: make(chan struct{})}
	d.readings[path] = r
	go func() {
		defer close(r.ended)
		if follow != nil {
			follow(path)
		}
		r.data, r.err = d.content(path, most)
	}()
	if err := r.wait(ctx, d.limit); err != nil {
		return nil, err
	}
	delete(d.readings, path)
	return r.data, r.err
}

// snapshot reads the configuration file and the files to which it refers, each at most once. A
// snapshot belongs to one attempt to load the configuration.
type snapshot struct {
	*disk

	ctx    context.Context   //nolint:containedctx // the context of the attempt, which Parse does not pass on
	follow func(path string) // called before each read; nil = no call
	files  map[string]result
	asked  map[string][]byte // content of each file that Parse read
}

type result struct {
	data []byte
	err  error
}

// main returns the bytes of the configuration file. It reads at most one byte more than Parse
// accepts, so that Parse reports a larger file. The error is targets.Problems or ctx.Err().
func (s *snapshot) main(path string, loaded bool) ([]byte, error) {
	data, err := s.read(s.ctx, path, syntax.MaxSize+1, s.follow)
	switch {
	case s.ctx.Err() != nil:
		return nil, s.ctx.Err() // the caller cancelled the read, so the file is not at fault
	case err != nil:
		remedy := ""
		if !loaded && errors.Is(err, fs.ErrNotExist) {
			remedy = "; name the file with --config (or POOLD_CONFIG)"
		}
		return nil, targets.Problems{{File: path, Text: "the file cannot be read: " + withoutPath(err).Error() + remedy}}
	}
	return data, nil
}

// file returns the bytes of a file to which the configuration file refers.
func (s *snapshot) file(path string) ([]byte, error) {
	r, known := s.files[path]
	if !known {
		data, err := s.read(s.ctx, path, targets.MaxFile+1, s.follow)
		r = result{data, withoutPath(err)}
		s.files[path] = r
	}
	return r.data, r.err
}

// parse parses the configuration file. The error is targets.Problems or ctx.Err().
func (s *snapshot) parse(path string, data []byte, lookup func(string) (string, bool)) (*targets.Set, error) {
	set, err := targets.Parse(path, data, targets.References{Variable: lookup, File: func(path string) ([]byte, error) {
		data, err := s.file(path)
		s.asked[path] = data
		return data, err
	}})
	if s.ctx.Err() != nil {
		return nil, s.ctx.Err() // the caller cancelled the read, so no file is at fault
	}
	return set, err
}

// unchanged reports whether each of these files can be read and has this content.
func (s *snapshot) unchanged(files map[string][]byte) bool {
	same := true
	for path, was := range files { // reads all files, so that all directories are watched
		data, err := s.file(path)
		same = same && err == nil && bytes.Equal(data, was)
	}
	return same
}

// readFile reads at most `most` bytes of a regular file. It refuses other kinds of files, because a
// read may never end. It opens the file without blocking, because opening a pipe may wait for a
// writer.
func readFile(path string, most int64) ([]byte, error) {
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
	return io.ReadAll(io.LimitReader(file, most))
}

// withoutPath returns an error of the file system without the path, because messages already contain
// the path.
func withoutPath(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}
