package reload

import (
	"context"
	"errors"
	"hash/maphash"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/targets"
)

// File is a configuration file with its last valid Set. The exported fields must be set before the first
// call of a method. The methods are safe for concurrent use.
type File struct {
	// Listen replaces the listen address of the file in every Set; "" has no effect. If this address is open
	// to the network, Load and every reload refuse a file without keys.
	Listen string
	// Apply applies each valid Set of a reload, but not the first Set. When Apply has returned, Current and Status
	// return the new Set.
	Apply func(ctx context.Context, s *targets.Set)
	// Report is called after each attempt that changed the Set or the Status. It must not block.
	Report func(Attempt)

	path   string
	lookup func(string) (string, bool)
	log    *slog.Logger

	quiet  time.Duration // interval of the polls; a changed file is read when one finds no further change
	latest time.Duration // while changes continue, the file is read at the first poll this long after the first change
	seed   maphash.Seed  // of the digests of files, which are kept instead of their content, because it has secrets

	// mu guards the fields below, and orders the attempts, so that an older Set cannot replace a newer one.
	mu      sync.Mutex
	refused string            // why the last attempt was refused; "" = not refused
	used    map[string]uint64 // the digests of the files of the Set in use, by path; nil before the first
	tried   map[string]uint64 // the digests of the files of the last attempt

	state atomic.Pointer[state] // never nil; each update stores a new state
}

// state combines a Set with its Status, so that readers get a consistent pair.
type state struct {
	current *targets.Set
	status  targets.FileStatus
}

// NewFile returns a File that has not been read yet. The argument `lookup` works in the same way as
// os.LookupEnv.
func NewFile(path string, lookup func(string) (string, bool), log *slog.Logger) *File {
	f := &File{
		path: path, lookup: lookup, log: log, Apply: func(context.Context, *targets.Set) {}, Report: func(Attempt) {},
		quiet: 200 * time.Millisecond, latest: 500 * time.Millisecond, seed: maphash.MakeSeed(),
	}
	f.state.Store(new(state))
	return f
}

// Attempt describes what one attempt to read the file changed.
type Attempt struct {
	By       string           // the cause of the attempt: the argument of Reload, or ByWatch
	Err      error            // why the file was refused; nil = it is valid
	Mended   bool             // it was refused before
	Changes  string           // what changed; "" = only comments, or nothing since the last valid file
	Restart  targets.Problems // the changes that need a restart
	From, To string           // digests of the Sets before and after
}

// ByWatch is the value of Attempt.By for attempts that a change of the file caused.
const ByWatch = "the file"

// Load reads the file for the first time. The error is targets.Problems, and the caller must report it.
// Load logs warnings.
func (f *File) Load() (*targets.Set, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set, err := f.read()
	if err != nil {
		f.publish(nil, targets.FileStatus{Problems: problemsOf(err)})
		return nil, err
	}
	f.used = f.tried
	f.warn(set, new(targets.Set))
	f.publish(set, targets.FileStatus{LoadedAt: time.Now(), OK: true})
	return set, nil
}

// Current returns the last valid Set, or nil before the first.
func (f *File) Current() *targets.Set { return f.state.Load().current }

// Status describes the last attempt to read the file. The caller must not change its Problems.
func (f *File) Status() targets.FileStatus { return f.state.Load().status }

// Reload reads the file and applies it. It returns nil if the file is valid, whether it has changed or
// not. Otherwise it returns targets.Problems, and the last valid Set stays in use. A repeated failure is
// logged once. The argument `by` says who requested the reload.
func (f *File) Reload(ctx context.Context, by string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.Current()
	if f.refused == "" && maps.Equal(f.digests(f.used), f.used) {
		return nil
	}
	set, err := f.read()
	var remarks targets.Problems
	if err == nil {
		remarks, err = set.KeepRestartOnly(old, f.path)
	}
	if err != nil {
		status := f.Status()
		if status.OK {
			status.OK, status.RefusedAt = false, time.Now()
		}
		status.Problems = problemsOf(err)
		f.publish(old, status)
		if text := err.Error(); text != f.refused {
			f.refused = text
			f.log.Error("the configuration was refused, the last good one stays in use", "err", err)
			f.Report(Attempt{By: by, Err: err})
		}
		return err
	}
	// The keys of callers change first, so that a removed key ends at once. The other changes may wait for a server
	// that hangs.
	keysFirst := *old
	keysFirst.Server.Keys = set.Server.Keys
	f.publish(&keysFirst, f.Status())
	// The Set must be applied completely, even if the caller hangs up.
	f.Apply(context.WithoutCancel(ctx), set)
	mended := f.refused != ""
	f.refused, f.used = "", f.tried
	f.publish(set, targets.FileStatus{LoadedAt: time.Now(), OK: true, Problems: remarks})
	changes := changesBetween(old, set)
	f.log.Info("the configuration was applied", "changes", changes)
	f.Report(Attempt{By: by, Mended: mended, Changes: changes, Restart: remarks, From: old.Digest, To: set.Digest})
	f.warn(set, old)
	if len(remarks) > 0 {
		f.log.Warn("a part of the configuration needs a restart, the rest was applied", "err", remarks)
	}
	return nil
}

// digests returns the present digests of files. A file that cannot be read has the digest of the reason.
func (f *File) digests(files map[string]uint64) map[string]uint64 {
	now := map[string]uint64{}
	for path := range files {
		data, err := content(path)
		now[path] = f.digest(data, err)
	}
	return now
}

func (f *File) digest(data []byte, err error) uint64 {
	if err != nil {
		return maphash.String(f.seed, err.Error())
	}
	return maphash.Bytes(f.seed, data)
}

// read parses the configuration file. The error is targets.Problems.
func (f *File) read() (*targets.Set, error) {
	f.tried = map[string]uint64{}
	get := func(path string) ([]byte, error) {
		data, err := content(path)
		f.tried[path] = f.digest(data, err)
		return data, err
	}
	data, err := get(f.path)
	if err != nil {
		text := "the file cannot be read: " + err.Error()
		if f.used == nil && errors.Is(err, fs.ErrNotExist) {
			text += "; name the file with --config (or POOLD_CONFIG)"
		}
		return nil, targets.Problems{{File: f.path, Text: text}}
	}
	return targets.Parse(f.path, data, targets.References{Variable: f.lookup, File: get, Listen: f.Listen})
}

// content returns the content of a regular file; the error lacks its path.
func content(path string) ([]byte, error) {
	// Opening a pipe may wait for a writer, and reading a device may never end.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file, but a directory, a pipe, a socket or a device")
	}
	data, err := os.ReadFile(path) //nolint:gosec // G304: the operator names the file
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return data, err
}

// publish makes a new state visible to Current and Status.
func (f *File) publish(s *targets.Set, status targets.FileStatus) { f.state.Store(&state{s, status}) }

// warn logs the warnings of the new Set that the old Set lacks.
func (f *File) warn(set, old *targets.Set) {
	for _, w := range set.Warnings {
		if !slices.ContainsFunc(old.Warnings, func(o targets.Problem) bool { return o.Text == w.Text }) {
			f.log.Warn("unusual configuration", "err", w.String())
		}
	}
}

func problemsOf(err error) targets.Problems {
	problems, _ := errors.AsType[targets.Problems](err)
	return problems
}
