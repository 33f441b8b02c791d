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
	"poold/internal/purchase"
	"poold/internal/refill/policy"
)

const (
	// batchMost is the most identities in one exchange with Redis.
	batchMost = 128
	// batchesAtOnce is the most exchanges at once; one that hangs does not delay the others.
	batchesAtOnce = 8
	// Workers that rest for longer than gather are due together, up to gather/20 later.
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
	passed   atomic.Int64  // when the loop of run last began, Unix ns
	watch    atomic.Pointer[watch]

	mu      sync.Mutex
	queue   queue // workers that rest
	handles map[*handle]bool
}

// handle is a worker at the looker.
type handle struct {
	*worker
	ctx  context.Context // of the worker; ends with stop
	stop context.CancelFunc
	done chan struct{} // closed when the worker has ended

	watched   atomic.Bool          // by this replica
	elsewhere atomic.Pointer[said] // the status of the replica that watches it
	asked     atomic.Int64         // when Current last read elsewhere, Unix ns

	// Owned by the goroutine that runs the turn.
	shared   Status // as last shared with the other replicas
	sharedAt time.Time
	ordering *ordering // for which the worker bids; nil = none

	// Guarded by the looker's mu.
	due       time.Time // next turn
	earliest  time.Time // next turn after a wake-up
	place     int       // index in the queue; -1 = its turn runs
	left      time.Time // since when only a wake-up makes it due; zero = it has a due time
	divided   *watch    // the division of the identities at its last turn
	dismissed bool
	bidding   bool // the last request is pending or its answer not handled
	bids      int  // requests so far
	request   *purchase.Request
	grant     *grant // its answer, if it came during a turn
}

func newLooker(stock Stock, replicas Replicas, log *slog.Logger) *looker {
	l := &looker{stock: stock, replicas: replicas, log: log, wake: make(chan struct{}, 1), handles: map[*handle]bool{}}
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
		l.passed.Store(now.UnixNano())
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
	return time.Since(time.Unix(0, l.passed.Load())) > hangsAfter
}

// divide changes which identities this replica watches. It looks soon at those that it did not
// watch before.
func (l *looker) divide(w *watch) {
	if old := l.watch.Load(); old.self == w.self && slices.Equal(old.live, w.live) {
		return
	}
	l.watch.Store(w)
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.handles {
		mine := w.mine(h.target.ID)
		if was := h.watched.Swap(mine); was || !mine || h.place < 0 {
			continue
		}
		if soon := now.Add(backoff.UpTo(takeOver)); soon.Before(h.due) {
			l.callLocked(h, soon)
		}
	}
}

// next removes the due workers from the queue. If none is due, it returns how long until the next
// one is.
func (l *looker) next(at time.Time) (batch []*handle, wait time.Duration) {
	watch := l.watch.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && len(batch) < batchMost {
		h := l.queue[0]
		if h.due.After(at) {
			return batch, h.due.Sub(at)
		}
		// An order that ended meanwhile may delay the next order.
		if held := h.status.heldFor(at); held > 0 {
			h.due = at.Add(held)
			heap.Fix(&l.queue, 0)
			continue
		}
		heap.Pop(&l.queue)
		// The next look covers every wake-up so far.
		kicked := h.kicked.Swap(false)
		h.calm = !kicked && h.divided == watch && watch.only()
		h.divided = watch
		h.absent = !h.left.IsZero() && at.Sub(h.left) > absence
		h.left = time.Time{}
		batch = append(batch, h)
	}
	return batch, backstop
}

// add schedules a worker's first turn after delay.
func (l *looker) add(h *handle, delay time.Duration) {
	l.mu.Lock()
	l.handles[h] = true
	h.watched.Store(l.watch.Load().mine(h.target.ID))
	l.mu.Unlock()
	l.rest(h, rest{most: delay})
}

// rest schedules a worker's next turn.
func (l *looker) rest(h *handle, r rest) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.dismissed {
		l.finish(h)
		return
	}
	if h.grant != nil {
		g := *h.grant
		h.grant, h.bidding = nil, false
		go l.order(h, g)
		return
	}
	h.earliest = now.Add(r.least)
	h.due = now.Add(min(max(r.least, r.most), h.backstop()))
	if h.due.Sub(now) > gather {
		h.due = h.due.Truncate(gather / 20).Add(gather / 20)
	}
	if r.content && !h.watched.Load() {
		h.due, h.left = now.Add(policy.Never), now
	}
	if h.kicked.Load() {
		h.due = h.earliest
	}
	heap.Push(&l.queue, h)
	l.wakeLocked(h)
}

// kick wakes a worker: it looks soon. Until then further calls are no-ops.
func (l *looker) kick(h *handle) {
	if h.kicked.Swap(true) {
		return // a look is due already
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.place < 0 || h.dismissed {
		return // the turn's end sees kicked
	}
	l.callLocked(h, later(now, h.earliest))
}

// callLocked changes the due time of a worker in the queue.
func (l *looker) callLocked(h *handle, due time.Time) {
	h.due = due
	heap.Fix(&l.queue, h.place)
	l.wakeLocked(h)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// wakeLocked wakes run if the worker is the first in the queue.
func (l *looker) wakeLocked(h *handle) {
	if h.place == 0 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// dismiss stops workers, all at once, and waits for them.
func (l *looker) dismiss(handles []*handle) {
	for _, h := range handles {
		h.stop()
		l.mu.Lock()
		h.dismissed = true
		delete(l.handles, h)
		if h.place >= 0 {
			heap.Remove(&l.queue, h.place)
			l.finish(h)
		}
		l.mu.Unlock()
	}
	for _, h := range handles {
		<-h.done
	}
}

// finish saves a worker's learned state, and ends the worker.
func (l *looker) finish(h *handle) {
	h.withdrawLocked()
	go l.saves.Go(func() error {
		defer close(h.done)
		_ = panics.Contain(h.log, "panic in a target's worker", func() { h.save(context.WithoutCancel(h.ctx), time.Now(), 0) })
		return nil
	})
}

// turns runs the turn of each worker of a batch.
func (l *looker) turns(ctx context.Context, batch []*handle) {
	at := time.Now()
	queries := make([]pool.Query, 0, len(batch))
	looking := batch[:0]
	for _, h := range batch {
		var q pool.Query
		var look bool
		pause := h.contained(func() (pause rest) {
			q, pause, look = h.prepare(h.ctx, at)
			return pause
		})
		if !look {
			l.goOn(h, nil, pause)
			continue
		}
		queries, looking = append(queries, q), append(looking, h)
	}
	stocks := l.look(ctx, queries)
	for i, h := range looking {
		var order *ordering
		pause := h.contained(func() (pause rest) {
			pause, order = h.turn(h.ctx, at, queries[i], stocks[i])
			return pause
		})
		l.share(h)
		l.goOn(h, order, pause)
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
type queue []*handle

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push and Pop are heap's.
func (q *queue) Push(x any) {
	h := x.(*handle)
	h.place = len(*q)
	*q = append(*q, h)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	h := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	h.place = -1
	return h
}
