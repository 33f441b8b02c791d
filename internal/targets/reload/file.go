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
	report func(Outcome)
	listen string // listen address that overrides the file's address; "" = no override

	quiet  time.Duration // after an event, the file is read when no further event came for this time
	latest time.Duration // maximum time from the first event to the read, while events continue
	every  time.Duration // interval of the polls

	// fileLock is a lock for reading and applying the file, so that an older Set cannot replace a newer
	// Set. The channel has one element while a goroutine has the lock. A mutex is not possible,
	// because a caller of Reload may stop waiting for the lock.
	fileLock chan struct{}
	refused  string            // why the last attempt was refused; "" = not refused; guarded by fileLock
	remarks  targets.Problems  // changes in the file that need a restart; guarded by fileLock
	used     map[string][]byte // content of the files to which the configuration in use refers, by path; guarded by fileLock
	asked    map[string][]byte // the same for the last attempt; guarded by fileLock

	disk // guarded by fileLock

	state atomic.Pointer[state] // never nil; each update stores a new state
}

// state combines a Set with its Status, so that readers get a consistent pair.
type state struct {
	current *targets.Set
	status  targets.Status
}

// NewFile returns a File that has not been read yet. The argument `lookup` works in the same way as
// os.LookupEnv.
func NewFile(path string, lookup func(string) (string, bool), log *slog.Logger) *File {
	f := &File{
		path: path, lookup: lookup, log: log, report: func(Outcome) {},
		quiet: 200 * time.Millisecond, latest: 2 * time.Second, every: 30 * time.Second,
		fileLock: make(chan struct{}, 1), disk: disk{limit: 5 * time.Second, content: readFile, readings: map[string]*reading{}},
	}
	f.state.Store(new(state))
	return f
}

// OverrideListen replaces the listen address of the file in every Set; "" has no effect. It must be
// called before Load. If this address is open to the network, Load and every reload refuse a file
// without keys.
func (f *File) OverrideListen(listen string) { f.listen = listen }

// OnApply sets the function that applies each valid Set of a reload, but not the first Set. Current
// and Status publish the new Set after the function has returned. OnApply must be called before
// Run, and at most once.
func (f *File) OnApply(fn func(ctx context.Context, s *targets.Set)) { f.apply = fn }

// Outcome describes what an attempt to read the file changed.
type Outcome struct {
	By       string           // who caused the attempt: the argument of Reload, or ByWatch
	Err      error            // why the file was refused; nil = it is valid
	Changes  []Change         // what changed; nil = the file again has the content of the Set in use, or only comments changed
	Restart  targets.Problems // the changes that need a restart
	From, To string           // digests of the Sets before and after
}

// ByWatch is the value of Outcome.By for attempts that a change of the file caused.
const ByWatch = "the file"

// OnOutcome sets a function that is called after each attempt that changed the Set or the Status. The
// function must not block. OnOutcome must be called before Run, and at most once.
func (f *File) OnOutcome(fn func(Outcome)) { f.report = fn }

// Load reads the file for the first time. The error is targets.Problems or ctx.Err(), and the
// caller must report it. Load logs warnings.
func (f *File) Load(ctx context.Context) (*targets.Set, error) {
	f.fileLock <- struct{}{}
	defer func() { <-f.fileLock }()
	var set *targets.Set
	now := f.newSnapshot(ctx, nil)
	data, err := now.main(f.path, false)
	if err == nil {
		set, err = now.parse(f.path, data, f.lookup)
	}
	if err == nil && f.listen != "" {
		err = set.OverrideListen(f.path, f.listen)
	}
	if err != nil {
		f.publish(nil, targets.Status{Problems: problemsOf(err)})
		return nil, err
	}
	f.used = now.asked
	f.warn(set, nil)
	f.publish(set, targets.Status{LoadedAt: time.Now(), OK: true})
	return set, nil
}

func (f *File) newSnapshot(ctx context.Context, follow func(path string)) *snapshot {
	return &snapshot{disk: &f.disk, ctx: ctx, follow: follow, files: map[string]result{}, asked: map[string][]byte{}}
}

// Current returns the last valid Set, or nil before the first.
func (f *File) Current() *targets.Set { return f.state.Load().current }

// Status describes the last attempt to read the file. The caller must not change its Problems.
func (f *File) Status() targets.Status { return f.state.Load().status }

// Reload reads the file and applies it. It returns
//   - nil if the file is valid, whether it has changed or not,
//   - targets.Problems if the file is invalid; the last valid Set stays in use,
//   - ctx.Err() if ctx ends before the file was read.
//
// A repeated failure is logged once. The argument `by` says who requested the reload.
func (f *File) Reload(ctx context.Context, by string) error {
	select {
	case f.fileLock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.fileLock }()
	return f.attempt(ctx, by, nil)
}

// attempt reads the file and applies the new Set. Before it reads a file, it calls the function
// `follow` with the path. The caller must hold fileLock.
func (f *File) attempt(ctx context.Context, by string, follow func(path string)) error {
	old := f.Current()
	now := f.newSnapshot(ctx, follow)
	data, err := now.main(f.path, old != nil)
	if err == nil && old != nil && old.IsOf(data) && now.unchanged(f.used) {
		f.noteRecovery(by, old)
		return nil
	}
	var set *targets.Set
	var remarks targets.Problems
	if err == nil {
		set, err = now.parse(f.path, data, f.lookup)
		f.asked = now.asked
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		remarks, err = set.Succeed(old, f.path)
	}
	if err != nil {
		f.refuse(by, err)
		return err
	}
	if f.apply != nil {
		// The Set must be applied completely, even if the caller of Reload hangs up.
		f.apply(context.WithoutCancel(ctx), set)
	}
	f.refused, f.remarks, f.used = "", remarks, now.asked
	f.publish(set, targets.Status{LoadedAt: time.Now(), OK: true, Problems: remarks})
	changes := changesBetween(old, set)
	f.log.Info("the configuration was applied", attributes(changes)...)
	outcome := Outcome{By: by, Changes: changes, Restart: remarks, To: set.Digest}
	if old != nil {
		outcome.From = old.Digest
	}
	f.report(outcome)
	f.warn(set, old)
	if len(remarks) > 0 {
		f.log.Warn("a part of the configuration needs a restart, the rest was applied", "err", remarks)
	}
	return nil
}

// refuse publishes the problems of an invalid file, and logs them if they are new. The current Set
// stays in use.
func (f *File) refuse(by string, err error) {
	f.publish(f.Current(), targets.Status{LoadedAt: f.Status().LoadedAt, Problems: problemsOf(err)})
	if text := err.Error(); text != f.refused {
		f.refused = text
		f.log.Error("the configuration was refused, the last good one stays in use", "err", err)
		f.report(Outcome{By: by, Err: err})
	}
}

// noteRecovery is called if the file has the content of the current Set. If the last attempt was
// refused, noteRecovery publishes and logs that the file is valid again.
func (f *File) noteRecovery(by string, inUse *targets.Set) {
	if f.refused == "" {
		return
	}
	f.refused = ""
	f.publish(inUse, targets.Status{LoadedAt: f.Status().LoadedAt, OK: true, Problems: f.remarks})
	f.log.Info("the configuration file matches the configuration in use again")
	f.report(Outcome{By: by, From: inUse.Digest, To: inUse.Digest})
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
