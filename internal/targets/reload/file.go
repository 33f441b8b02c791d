package reload

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"poold/internal/targets"
)

// File is one configuration file and its last valid Set. OverrideListen and OnApply prepare
// it; the other methods may be called by many goroutines.
type File struct {
	path   string
	lookup func(string) (string, bool)
	log    *slog.Logger
	apply  func(ctx context.Context, s *targets.Set)
	listen string // overrides the file's; "" = the file decides

	quiet  time.Duration // without an event before the file is read
	latest time.Duration // from the first event to the read, even if events go on
	every  time.Duration // between two polls of the content
	limit  time.Duration // for one read

	// turn has one element while a goroutine reads and applies, so that an older Set cannot
	// replace a newer one. It is a channel, not a mutex, because a caller of Reload may stop waiting.
	turn    chan struct{}
	refused string           // why the last attempt was refused, "" if it was not; guarded by turn
	remarks targets.Problems // the changes in the Set in use that need a restart; guarded by turn
	reading *reading         // the last that was begun, nil before it; guarded by turn

	content func(path string) ([]byte, error) // reads the file; a test's may hang as a file system does

	state atomic.Pointer[state] // replaced whole
}

// state is one value, so that a Set and its Status agree.
type state struct {
	current *targets.Set
	status  targets.Status
}

// NewFile returns a File that has read nothing. lookup answers environment variables as
// os.LookupEnv does.
func NewFile(path string, lookup func(string) (string, bool), log *slog.Logger) *File {
	f := &File{
		path: path, lookup: lookup, log: log,
		quiet: 200 * time.Millisecond, latest: 2 * time.Second, every: 30 * time.Second, limit: 5 * time.Second,
		turn: make(chan struct{}, 1), content: readFile,
	}
	f.state.Store(new(state))
	return f
}

// OverrideListen makes every Set name this address instead of the file's; "" changes
// nothing. The caller calls it before Load. Load and every reload then refuse a file that
// would leave the address open to the network without keys.
func (f *File) OverrideListen(listen string) { f.listen = listen }

// OnApply sets the function that gets each new valid Set of a reload, but not the first Set.
// Current and Status have the new Set once the function has returned. The caller calls
// OnApply before Run, at most once.
func (f *File) OnApply(fn func(ctx context.Context, s *targets.Set)) { f.apply = fn }

// Load reads the file for the first time. Its error is targets.Problems or ctx.Err(); the
// caller reports it. Warnings go to the log.
func (f *File) Load(ctx context.Context) (*targets.Set, error) {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
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

// Current returns the last valid Set, nil before the first.
func (f *File) Current() *targets.Set { return f.state.Load().current }

// Status describes the last attempt. The caller must not change Problems.
func (f *File) Status() targets.Status { return f.state.Load().status }

// Reload reads the file now and applies it. It returns
//   - nil, also if the file is unchanged,
//   - targets.Problems if the file is invalid and the last valid Set stays,
//   - ctx.Err() if the caller gives up before the file was read.
//
// A repeated failure is logged once.
func (f *File) Reload(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.turn }()
	return f.attempt(ctx, nil)
}

// attempt calls before, reads the file and applies it. The caller has the turn.
func (f *File) attempt(ctx context.Context, before func()) error {
	old := f.Current()
	data, err := f.read(ctx, before)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && old != nil && old.IsOf(data) {
		f.recover(old)
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
		// The Set must be applied whole, even if the caller of Reload hangs up.
		f.apply(context.WithoutCancel(ctx), set)
	}
	f.refused, f.remarks = "", remarks
	f.publish(set, targets.Status{LoadedAt: time.Now(), OK: true, Problems: remarks})
	f.log.Info("the configuration was applied", changes(old, set)...)
	f.warn(set, old)
	if len(remarks) > 0 {
		f.log.Warn("a part of the configuration needs a restart, the rest was applied", "err", remarks)
	}
	return nil
}

// refuse reports an invalid file. The Set stays.
func (f *File) refuse(err error) {
	f.publish(f.Current(), targets.Status{LoadedAt: f.Status().LoadedAt, Problems: problemsOf(err)})
	if text := err.Error(); text != f.refused {
		f.refused = text
		f.log.Error("the configuration was refused, the last good one stays in use", "err", err)
	}
}

// recover reports that the file has the Set in use again. It logs nothing if the last attempt
// succeeded, too.
func (f *File) recover(inUse *targets.Set) {
	if f.refused == "" {
		return
	}
	f.refused = ""
	f.publish(inUse, targets.Status{LoadedAt: f.Status().LoadedAt, OK: true, Problems: f.remarks})
	f.log.Info("the configuration file matches the configuration in use again")
}

// publish shows readers a new state. The caller has the turn.
func (f *File) publish(set *targets.Set, status targets.Status) { f.state.Store(&state{set, status}) }

// warn logs the warnings that old does not have.
func (f *File) warn(set, old *targets.Set) {
	for _, w := range set.NewWarnings(old) {
		f.log.Warn("unusual configuration", "err", w.String())
	}
}

func problemsOf(err error) targets.Problems {
	problems, _ := errors.AsType[targets.Problems](err)
	return problems
}
