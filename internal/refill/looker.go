package refill

import (
	"container/heap"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"poold/internal/backoff"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/refill/policy"
)

const (
	// batchMost is the most identities in one exchange with Redis.
	batchMost = 128
	// batchesAtOnce is the most exchanges at once; a hanging exchange does not delay the others.
	batchesAtOnce = 8
	// Workers that wait for longer than gather are due together, up to gather/20 later.
	gather = 5 * time.Second
	// savesAtOnce is the most stopping workers that save their learned state at once.
	savesAtOnce = 32
)

// looker looks at the identities that are due, many in one exchange, and runs the turns of their
// workers. One timer serves all of them. It is safe for concurrent use.
type looker struct {
	stock    Stock
	replicas Replicas
	log      *slog.Logger
	batches  errgroup.Group
	saves    errgroup.Group
	wake     chan struct{} // of one: a worker is due earlier than the timer
	lastPass atomic.Int64  // when the loop of run last began, Unix ns
	watch    atomic.Pointer[watch]

	mu      sync.Mutex
	queue   queue // waiting workers
	workers map[*worker]bool
}

func newLooker(stock Stock, replicas Replicas, log *slog.Logger) *looker {
	l := &looker{stock: stock, replicas: replicas, log: log, wake: make(chan struct{}, 1), workers: map[*worker]bool{}}
	l.watch.Store(&watch{})
	l.batches.SetLimit(batchesAtOnce)
	l.saves.SetLimit(savesAtOnce)
	return l
}

// run runs turns until ctx ends, and waits for those that have begun.
func (l *looker) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		l.lastPass.Store(now.UnixNano())
		batch, wait := l.next(now)
		if len(batch) > 0 {
			l.batches.Go(func() error { // waits while batchesAtOnce run
				l.turns(ctx, batch)
				return nil
			})
			continue
		}
		timer.Reset(min(wait, hangsAfter/4))
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-timer.C:
		}
	}
	_ = l.batches.Wait()
}

// hangs reports whether run has been blocked for long by exchanges with Redis that do not end.
func (l *looker) hangs() bool {
	return time.Since(time.Unix(0, l.lastPass.Load())) > hangsAfter
}

// divide changes which identities this replica watches. It looks soon at those that it did not
// watch before. Unless again is set, it keeps the old division if the replicas are the same.
func (l *looker) divide(next *watch, again bool) {
	if old := l.watch.Load(); !again && old.self == next.self && slices.Equal(old.live, next.live) {
		return
	}
	l.watch.Store(next)
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.workers {
		mine := next.mine(w.target.ID)
		if was := w.watched.Swap(mine); was || !mine || w.queueIndex < 0 {
			continue
		}
		if soon := now.Add(backoff.UpTo(takeOver)); soon.Before(w.due) {
			l.callLocked(w, soon)
		}
	}
}

// next removes the due workers from the queue. If none is due, it returns how long until the next
// one is.
func (l *looker) next(at time.Time) (batch []*worker, wait time.Duration) {
	watch := l.watch.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && len(batch) < batchMost {
		w := l.queue[0]
		if w.due.After(at) {
			return batch, w.due.Sub(at)
		}
		// An order that ended meanwhile may delay the next order.
		if held := w.status.heldFor(at); held > 0 {
			w.due = at.Add(held)
			heap.Fix(&l.queue, 0)
			continue
		}
		heap.Pop(&l.queue)
		// The next look covers every wake-up so far.
		kicked := w.kicked.Swap(false)
		w.calm = !kicked && w.division == watch && watch.only()
		w.division = watch
		w.absent = !w.passiveSince.IsZero() && at.Sub(w.passiveSince) > absence
		w.passiveSince = time.Time{}
		batch = append(batch, w)
	}
	return batch, backstop
}

// add schedules a worker's first turn after delay.
func (l *looker) add(w *worker, delay time.Duration) {
	l.mu.Lock()
	l.workers[w] = true
	w.watched.Store(l.watch.Load().mine(w.target.ID))
	l.mu.Unlock()
	l.rest(w, rest{most: delay})
}

// rest schedules a worker's next turn.
func (l *looker) rest(w *worker, r rest) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.dismissed {
		l.finish(w)
		return
	}
	if w.grant != nil {
		g := *w.grant
		w.grant, w.bidding = nil, false
		go l.order(w, g)
		return
	}
	w.earliest = now.Add(r.least)
	w.due = now.Add(min(max(r.least, r.most), w.backstop()))
	if w.due.Sub(now) > gather {
		w.due = w.due.Truncate(gather / 20).Add(gather / 20)
	}
	if r.passive && !w.watched.Load() {
		w.due, w.passiveSince = now.Add(policy.Never), now
	}
	if w.kicked.Load() {
		w.due = w.earliest
	}
	heap.Push(&l.queue, w)
	l.wakeLocked(w)
}

// kick wakes a worker: it looks soon. Until then further calls are no-ops.
func (l *looker) kick(w *worker) {
	if w.kicked.Swap(true) {
		return // a look is due already
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.queueIndex < 0 || w.dismissed {
		return // the turn's end sees kicked
	}
	l.callLocked(w, later(now, w.earliest))
}

func (l *looker) callLocked(w *worker, due time.Time) {
	w.due = due
	heap.Fix(&l.queue, w.queueIndex)
	l.wakeLocked(w)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (l *looker) wakeLocked(w *worker) {
	if w.queueIndex == 0 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// dismiss stops workers, all at once, and waits for them.
func (l *looker) dismiss(workers []*worker) {
	for _, w := range workers {
		w.stop()
		l.mu.Lock()
		w.dismissed = true
		delete(l.workers, w)
		if w.queueIndex >= 0 {
			heap.Remove(&l.queue, w.queueIndex)
			l.finish(w)
		}
		l.mu.Unlock()
	}
	for _, w := range workers {
		<-w.done
	}
}

// finish saves a worker's learned state, and ends the worker.
func (l *looker) finish(w *worker) {
	w.withdrawLocked()
	go l.saves.Go(func() error {
		defer close(w.done)
		_ = panics.Contain(w.log, "panic in a target's worker", func() { w.save(context.WithoutCancel(w.ctx), time.Now(), 0) })
		return nil
	})
}

// turns runs the turn of each worker of a batch.
func (l *looker) turns(ctx context.Context, batch []*worker) {
	at := time.Now()
	queries := make([]pool.Query, 0, len(batch))
	looking := batch[:0]
	for _, w := range batch {
		var q pool.Query
		var look bool
		pause := w.contained(func() (pause rest) {
			q, pause, look = w.prepare(w.ctx, at)
			return pause
		})
		if !look {
			l.goOn(w, nil, pause)
			continue
		}
		queries, looking = append(queries, q), append(looking, w)
	}
	stocks := l.look(ctx, queries)
	for i, w := range looking {
		var order *ordering
		pause := w.contained(func() (pause rest) {
			pause, order = w.turn(w.ctx, at, queries[i], stocks[i])
			return pause
		})
		l.share(w)
		l.goOn(w, order, pause)
	}
}

// look returns the stocks of Survey. After an error of the whole survey each stock has it.
func (l *looker) look(ctx context.Context, queries []pool.Query) (stocks []pool.Stock) {
	if len(queries) == 0 {
		return nil
	}
	var err error
	if fault := panics.Contain(l.log, "panic in a target's worker", func() { stocks, err = l.stock.Survey(ctx, queries) }); fault != nil {
		err = fault
	}
	if err != nil {
		stocks = make([]pool.Stock, len(queries))
		for i := range stocks {
			stocks[i].Err = err
		}
	}
	return stocks
}

// queue is a heap of workers by when they are due.
type queue []*worker

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].queueIndex, q[j].queueIndex = i, j
}

func (q *queue) Push(x any) {
	w := x.(*worker)
	w.queueIndex = len(*q)
	*q = append(*q, w)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	w.queueIndex = -1
	return w
}
