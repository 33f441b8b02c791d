package reload

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"poold/internal/targets"
)

// File is a configuration file with its last valid Set. OverrideListen and OnApply must be called
// before the other methods, which are safe for concurrent use.
type File struct {
	path   string
	lookup func(string) (string, bool)
	log    *slog.Logger
	apply  func(ctx context.Context, s *targets.Set)
	listen string // listen address that overrides the file's address; "" = no override

	quiet  time.Duration // the file is read after this time without an event
	latest time.Duration // maximum time from the first event to the read, while events continue
	every  time.Duration // interval of the polls
	limit  time.Duration // timeout for one read

	// fileLock is a lock for reading and applying the file, so that an older Set cannot replace a newer
	// Set. The channel has one element while a goroutine has the lock. A mutex is not possible,
	// because a caller of Reload may stop waiting for the lock.
	fileLock chan struct{}
	refused  string           // why the last attempt was refused; "" = not refused; guarded by fileLock
	remarks  targets.Problems // changes in the file that need a restart; guarded by fileLock
	reading  *reading         // the last started read; nil before the first read; guarded by fileLock

	content func(path string) ([]byte, error) // reads the file; tests replace it to simulate a disk that hangs

	state atomic.Pointer[state] // never nil; each update stores a new state
}

// state combines a Set with its Status, so that readers get a consistent pair.
type state struct {
	current *targets.Set
	status  targets.Status
}

// NewFile returns a File that has not been read yet. The argument lookup is like os.LookupEnv.
func NewFile(path string, lookup func(string) (string, bool), log *slog.Logger) *File {
	f := &File{
		path: path, lookup: lookup, log: log,
		quiet: 200 * time.Millisecond, latest: 2 * time.Second, every: 30 * time.Second, limit: 5 * time.Second,
		fileLock: make(chan struct{}, 1), content: readFile,
	}
	f.state.Store(new(state))
	return f
}

// OverrideListen replaces the listen address of the file in every Set; "" has no effect. It must be
// called before Load. Load and every reload then refuse a file without keys if the address is open
// to the network.
func (f *File) OverrideListen(listen string) { f.listen = listen }

// OnApply sets the function that applies each valid Set of a reload, but not the first Set. Current
// and Status publish the new Set after the function has returned. OnApply must be called before
// Run, and at most once.
func (f *File) OnApply(fn func(ctx context.Context, s *targets.Set)) { f.apply = fn }

// Load reads the file for the first time. The error is targets.Problems or ctx.Err(), and the
// caller must report it. Load logs warnings.
func (f *File) Load(ctx context.Context) (*targets.Set, error) {
	f.fileLock <- struct{}{}
	defer func() { <-f.fileLock }()
	var set *targets.Set
	data, err := f.read(ctx, nil)
	if err == nil {
		set, err = targets.Parse(f.path, data, f.lookup)
	}
	if err == nil && f.listen != "" {
		err = set.OverrideListen(f.path, f.listen)
	}
	if err != nil {
		f.publish(nil, targets.Status{Problems: problemsOf(err)})
		return nil, err
	}
	f.warn(set, nil)
	f.publish(set, targets.Status{LoadedAt: time.Now(), OK: true})
	return set, nil
}

// Current returns the last valid Set, or nil before the first.
func (f *File) Current() *targets.Set { return f.state.Load().current }

// Status describes the last attempt to read the file. The caller must not change its Problems.
func (f *File) Status() targets.Status { return f.state.Load().status }

// Reload reads the file and applies it. It returns
//   - nil if the file is valid, changed or not,
//   - targets.Problems if the file is invalid; the last valid Set stays in use,
//   - ctx.Err() if ctx ends before the file was read.
//
// A repeated failure is logged once.
func (f *File) Reload(ctx context.Context) error {
	select {
	case f.fileLock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.fileLock }()
	return f.attempt(ctx, nil)
}

// attempt reads the file and applies the new Set. It first calls the function prepare. The caller
// must hold fileLock.
func (f *File) attempt(ctx context.Context, prepare func()) error {
	old := f.Current()
	data, err := f.read(ctx, prepare)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && old != nil && old.IsOf(data) {
		f.noteRecovery(old)
		return nil
	}
	var set *targets.Set
	var remarks targets.Problems
	if err == nil {
		set, err = targets.Parse(f.path, data, f.lookup)
	}
	if err == nil {
		remarks, err = set.Succeed(old, f.path)
	}
	if err != nil {
		f.refuse(err)
		return err
	}
	if f.apply != nil {
		// The Set must be applied completely, even if the caller of Reload hangs up.
		f.apply(context.WithoutCancel(ctx), set)
	}
	f.refused, f.remarks = "", remarks
	f.publish(set, targets.Status{LoadedAt: time.Now(), OK: true, Problems: remarks})
	f.log.Info("the configuration was applied", changeAttributes(old, set)...)
	f.warn(set, old)
	if len(remarks) > 0 {
		f.log.Warn("a part of the configuration needs a restart, the rest was applied", "err", remarks)
	}
	return nil
}

// refuse publishes the problems of an invalid file, and logs them if they are new. The current Set
// stays in use.
func (f *File) refuse(err error) {
	f.publish(f.Current(), targets.Status{LoadedAt: f.Status().LoadedAt, Problems: problemsOf(err)})
	if text := err.Error(); text != f.refused {
		f.refused = text
		f.log.Error("the configuration was refused, the last good one stays in use", "err", err)
	}
}

// noteRecovery is called if the file has the content of the current Set. If the last attempt was
// refused, noteRecovery publishes and logs that the file is valid again.
func (f *File) noteRecovery(inUse *targets.Set) {
	if f.refused == "" {
		return
	}
	f.refused = ""
	f.publish(inUse, targets.Status{LoadedAt: f.Status().LoadedAt, OK: true, Problems: f.remarks})
	f.log.Info("the configuration file matches the configuration in use again")
}

// publish makes a new state visible to Current and Status. The caller must hold fileLock.
func (f *File) publish(set *targets.Set, status targets.Status) { f.state.Store(&state{set, status}) }

// warn logs the warnings of the new Set that the old Set lacks.
func (f *File) warn(set, old *targets.Set) {
	for _, w := range set.NewWarnings(old) {
		f.log.Warn("unusual configuration", "err", w.String())
	}
}

func problemsOf(err error) targets.Problems {
	problems, _ := errors.AsType[targets.Problems](err)
	return problems
}
