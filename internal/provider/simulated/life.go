package simulated

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// life owns what outlives a call, and the calls that a fault holds, until it ends. It
// begins anew then. All methods are safe for concurrent use.
type life struct {
	mu      sync.Mutex // guards what follows, which is replaced whole
	over    chan struct{}
	running *sync.WaitGroup
	jobs    map[*job]struct{}
}

// job is something to be done that is not done yet.
type job struct {
	timer  *time.Timer // nil: a call does it
	cancel context.CancelFunc
}

func newLife() *life {
	l := new(life)
	l.beginLocked()
	return l
}

func (l *life) beginLocked() {
	l.over, l.running, l.jobs = make(chan struct{}), new(sync.WaitGroup), make(map[*job]struct{})
}

// end drops what has not begun, has the rest end, and waits for it.
func (l *life) end() {
	l.mu.Lock()
	over, running, jobs := l.over, l.running, l.jobs
	l.beginLocked()
	l.mu.Unlock()

	close(over)
	for j := range jobs {
		j.cancel()
		if j.timer != nil && j.timer.Stop() {
			running.Done() // it will not run
		}
	}
	running.Wait()
}

// now does something that is to end with the life.
func (l *life) now(do func(ctx context.Context)) {
	l.mu.Lock()
	_, run := l.addLocked(do)
	l.mu.Unlock()
	run()
}

// later does it after some time.
func (l *life) later(wait time.Duration, do func(ctx context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j, run := l.addLocked(do)
	j.timer = time.AfterFunc(wait, run)
}

func (l *life) addLocked(do func(ctx context.Context)) (j *job, run func()) {
	// It outlives the call that wants it done, so it has a context of its own.
	ctx, cancel := context.WithCancel(context.Background())
	j = &job{cancel: cancel}
	running := l.running
	running.Add(1)
	l.jobs[j] = struct{}{}
	return j, func() {
		defer running.Done()
		defer cancel()
		do(ctx)
		l.mu.Lock()
		delete(l.jobs, j)
		l.mu.Unlock()
	}
}

// sleep waits, for ever if d is 0. It reports false when the caller or the life went
// first.
func (l *life) sleep(r *http.Request, d time.Duration) bool {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()
	select {
	case <-after:
		return true
	case <-r.Context().Done():
	case <-over:
	}
	return false
}
