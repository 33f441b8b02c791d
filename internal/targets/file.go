package targets

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// Status is how the last attempt to read the file went.
type Status struct {
	LoadedAt time.Time // when the Set in use was read; zero before the first
	OK       bool      // the last attempt brought a good Set, or the same one
	Problems []Problem // of the last attempt; with OK: what needs a restart
}

// File is one configuration file and the last good Set that it held. Its methods
// may be called by many goroutines, but for those that prepare it.
type File struct {
	path   string
	lookup func(string) (string, bool)
	log    *slog.Logger
	apply  func(ctx context.Context, s *Set)
	listen string // beats the file's; "" = the file decides

	quiet  time.Duration // how long no event must come before the file is read
	latest time.Duration // after the first event, it is read even if they go on
	every  time.Duration // the content is looked at this often without any event
	limit  time.Duration // a read that takes longer is let go

	// turn holds one element while somebody reads and applies, so that a later
	// Set cannot be overtaken by an earlier one. It is a channel, not a mutex,
	// because a caller of Reload may give up waiting.
	turn    chan struct{}
	refused string   // why the last attempt was refused, "" if it was not; guarded by turn
	remarks Problems // what of the Set in use needs a restart; guarded by turn
	reading *reading // the last that was begun, nil before it; guarded by turn

	content func(path string) ([]byte, error) // reads the file; a test's may hang as a file system does

	state atomic.Pointer[state] // nil before the first attempt; replaced whole
}

// state is what readers see, as one value so that a Set and its Status agree.
type state struct {
	current *Set
	status  Status
}

// NewFile returns a File that has read nothing. lookup answers environment
// variables as os.LookupEnv does.
func NewFile(path string, lookup func(string) (string, bool), log *slog.Logger) *File {
	return &File{
		path: path, lookup: lookup, log: log,
		quiet: 200 * time.Millisecond, latest: 2 * time.Second, every: 30 * time.Second, limit: 5 * time.Second,
		turn: make(chan struct{}, 1), content: readFile,
	}
}

// OverrideListen makes every Set name this address instead of the file's, for a
// flag that beats the file; "" changes nothing. It is called before Load, and
// makes Load and every reload refuse a file that would leave the address open to
// the network without keys.
func (f *File) OverrideListen(listen string) { f.listen = listen }

// OnApply sets the function that is called with each new good Set of a reload,
// but not with that of Load. The new Set counts as applied, in Current and
// Status, when the function has returned. It is called before Run, at most once.
func (f *File) OnApply(fn func(ctx context.Context, s *Set)) { f.apply = fn }

// Load reads the file for the first time. Its error is Problems, or ctx.Err(),
// and is left to the caller to report; warnings go to the log.
func (f *File) Load(ctx context.Context) (*Set, error) {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	set, err := f.first(ctx)
	if err != nil {
		f.publish(nil, Status{Problems: problemsOf(err)})
		return nil, err
	}
	f.warn(set, nil)
	f.publish(set, Status{LoadedAt: time.Now(), OK: true})
	return set, nil
}

func (f *File) first(ctx context.Context) (*Set, error) {
	data, err := f.read(ctx, nil)
	if err != nil {
		return nil, err
	}
	set, err := Parse(f.path, data, f.lookup)
	if err != nil {
		return nil, err
	}
	_, err = f.prepare(set, nil)
	return set, err
}

// Current returns the last good Set, nil before the first.
func (f *File) Current() *Set {
	if s := f.state.Load(); s != nil {
		return s.current
	}
	return nil
}

// Status tells how the last attempt went. The caller must not change Problems.
func (f *File) Status() Status {
	if s := f.state.Load(); s != nil {
		return s.status
	}
	return Status{}
}

// Reload reads the file now and applies it. It returns nil also when the file is
// unchanged, Problems when it is bad and the last good Set stays, and ctx.Err()
// when the caller gives up before the file was read. A failure is in the log
// already, once, however often it repeats.
func (f *File) Reload(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.turn }()
	return f.attempt(ctx, nil)
}

// attempt reads, after it has done what is to be done on the disk before, and
// applies. The caller has the turn.
func (f *File) attempt(ctx context.Context, before func()) error {
	old := f.Current()
	data, err := f.read(ctx, before)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && old != nil && old.Digest == digest(data) {
		f.recover(old)
		return nil
	}
	var set *Set
	var remarks Problems
	if err == nil {
		set, err = Parse(f.path, data, f.lookup)
	}
	if err == nil {
		remarks, err = f.prepare(set, old)
	}
	if err != nil {
		f.refuse(err)
		return err
	}
	if f.apply != nil {
		// Whoever asked may hang up, and the Set must be applied whole all the same.
		f.apply(context.WithoutCancel(ctx), set)
	}
	f.refused, f.remarks = "", remarks
	f.publish(set, Status{LoadedAt: time.Now(), OK: true, Problems: remarks})
	f.log.Info("the configuration was applied", changes(old, set)...)
	f.warn(set, old)
	if len(remarks) > 0 {
		f.log.Warn("a part of the configuration needs a restart, the rest was applied", "err", remarks)
	}
	return nil
}

// refuse notes a bad file. The Set stays.
func (f *File) refuse(err error) {
	f.publish(f.Current(), Status{LoadedAt: f.Status().LoadedAt, Problems: problemsOf(err)})
	if text := err.Error(); text != f.refused {
		f.refused = text
		f.log.Error("the configuration was refused, the last good one stays in use", "err", err)
	}
}

// recover notes that the file holds again what is in use. An unchanged file is
// silence.
func (f *File) recover(inUse *Set) {
	if f.refused == "" {
		return
	}
	f.refused = ""
	f.publish(inUse, Status{LoadedAt: f.Status().LoadedAt, OK: true, Problems: f.remarks})
	f.log.Info("the configuration file holds again what is in use")
}

// publish shows readers a new state. The caller has the turn.
func (f *File) publish(set *Set, status Status) { f.state.Store(&state{set, status}) }

// warn logs what is unusual in a Set and was not so in the one before. Why a demo is one
// its operator was told in a word.
func (f *File) warn(set, old *Set) {
	for _, w := range set.Warnings {
		if w.demo && set.Demo() {
			continue
		}
		known := old != nil && slices.ContainsFunc(old.Warnings, func(o Problem) bool { return o.Text == w.Text })
		if !known {
			f.log.Warn("unusual configuration", "err", w.String())
		}
	}
}

// problemsOf returns an error of Parse as what it is.
func problemsOf(err error) Problems {
	var ps Problems
	if errors.As(err, &ps) {
		return ps
	}
	return nil
}

// prepare fits a valid Set to the daemon that is running, where old is in use, or
// that is about to start, where old is nil. remarks say what needs a restart.
func (f *File) prepare(set, old *Set) (remarks Problems, err error) {
	if old == nil {
		if f.listen == "" {
			return nil, nil
		}
		set.Server.Listen, set.listenGiven = f.listen, true
		if err := CheckListen(f.listen, len(set.Server.Keys)); err != nil {
			return nil, Problems{{File: f.path, Text: "the address given by --listen or POOLD_LISTEN: " + err.Error()}}
		}
		return nil, nil
	}
	remark := func(line int, what string) {
		remarks = append(remarks, Problem{File: f.path, Line: line, Text: what + ": was changed, which needs a restart; until then the old value holds"})
	}
	if f.listen == "" && set.Server.Listen != old.Server.Listen {
		remark(set.lines.listen, "server.listen")
	}
	if set.Server.TLS != old.Server.TLS {
		remark(set.lines.tls, "server.tls")
	}
	if set.Redis != old.Redis {
		remark(set.lines.redis, "redis")
	}
	if set.DeadLetters != old.DeadLetters {
		remark(set.lines.deadLetters, "dead_letters")
	}
	if set.Dedup != old.Dedup {
		remark(set.lines.dedup, "dedup")
	}
	if set.History != old.History {
		remark(set.lines.history, "history")
	}
	if err := f.suits(set, old); err != nil {
		return nil, err
	}
	set.Server.Listen, set.Server.TLS, set.listenGiven = old.Server.Listen, old.Server.TLS, old.listenGiven
	set.Redis, set.DeadLetters, set.Dedup, set.History = old.Redis, old.DeadLetters, old.Dedup, old.History
	return remarks.sorted(), nil
}

// suits checks a new Set against what only a restart can change: the file may be
// valid and the mixture not.
func (f *File) suits(set, old *Set) error {
	if err := CheckListen(old.Server.Listen, len(set.Server.Keys)); err != nil {
		return Problems{{File: f.path, Line: set.lines.listen, Text: "server.keys: the daemon still listens where it did at the start: " + err.Error()}}
	}
	simulated := slices.ContainsFunc(set.Providers, func(p Provider) bool { return p.API == APISimulated })
	if simulated && set.Redis.Embedded() && !old.Redis.Embedded() {
		return Problems{{File: f.path, Line: set.lines.redis, Text: "redis: the daemon still uses the Redis that it was started with, " +
			"and no simulated token may go there: restart it, or give a provider a key"}}
	}
	return nil
}
