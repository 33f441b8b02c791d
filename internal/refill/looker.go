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
	batchMost = 128
	// batchesAtOnce is the maximum number of concurrent exchanges. Exchanges are concurrent so that a
	// hanging exchange does not delay the others.
	batchesAtOnce = 8
	// If a worker waits for longer than gatherTime, its due time is rounded up to a multiple of
	// gatherTime/20, so that several workers share one exchange.
	gatherTime = 5 * time.Second
	// savesAtOnce is the maximum number of stopping workers that save their learned state at the same
	// time.
	savesAtOnce = 32
)

// looker reads the stocks of the due identities, many in one exchange with Redis, and runs the turns
// of their workers. One timer serves all workers. A looker is safe for concurrent use.
type looker struct {
	stock      Stock
	replicas   Replicas
	log        *slog.Logger
	batches    errgroup.Group
	saves      errgroup.Group
	resetTimer chan struct{} // signals that a worker is due earlier than the timer; capacity 1
	lastPass   atomic.Int64  // start of the last iteration of looker.run, in Unix ns
	division   atomic.Pointer[division]

	mu      sync.Mutex
	queue   queue // waiting workers
	workers map[*worker]bool
}

func newLooker(stock Stock, replicas Replicas, log *slog.Logger) *looker {
	l := &looker{stock: stock, replicas: replicas, log: log, resetTimer: make(chan struct{}, 1), workers: map[*worker]bool{}}
	l.division.Store(&division{})
	l.batches.SetLimit(batchesAtOnce)
	l.saves.SetLimit(savesAtOnce)
	return l
}

// run runs turns until ctx ends. Then run waits for the turns that have begun.
func (l *looker) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		l.lastPass.Store(now.UnixNano())
		batch, wait := l.next(now)
		if len(batch) > 0 {
			l.batches.Go(func() error { // blocks while batchesAtOnce batches run
				l.turns(ctx, batch)
				return nil
			})
			continue
		}
		timer.Reset(min(wait, hangsAfter/4))
		select {
		case <-ctx.Done():
		case <-l.resetTimer:
		case <-timer.C:
		}
	}
	_ = l.batches.Wait()
}

// lastTurn returns when the loop of looker.run began its last iteration; zero = it has not begun.
func (l *looker) lastTurn() time.Time {
	if at := l.lastPass.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// hangs reports whether unfinished exchanges with Redis have blocked the loop of
// looker.run for the time hangsAfter.
func (l *looker) hangs() bool {
	return time.Since(l.lastTurn()) > hangsAfter
}

// divide replaces the division. It schedules an early look at each identity that this replica did
// not watch until now. If the live replicas are unchanged, divide keeps the old division unless
// force is true.
func (l *looker) divide(next *division, force bool) {
	if old := l.division.Load(); !force && old.self == next.self && slices.Equal(old.live, next.live) {
		return
	}
	l.division.Store(next)
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.workers {
		mine := next.watches(w.target.ID)
		if was := w.watched.Swap(mine); was || !mine || w.queueIndex < 0 {
			continue
		}
		if soon := now.Add(backoff.UpTo(takeOver)); soon.Before(w.due) {
			l.callLocked(w, soon)
		}
	}
}

// next removes the due workers from the queue and returns them. If no worker is due, the
// result wait is the time until the next one is due.
func (l *looker) next(at time.Time) (batch []*worker, wait time.Duration) {
	current := l.division.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && len(batch) < batchMost {
		w := l.queue[0]
		if w.due.After(at) {
			return batch, w.due.Sub(at)
		}
		// An order that has ended since the last turn may delay the next order.
		if held := w.status.orderDelay(at); held > 0 {
			w.due = at.Add(held)
			heap.Fix(&l.queue, 0)
			continue
		}
		heap.Pop(&l.queue)
		// The next look covers every wake-up so far.
		w.calm = !w.woken.Swap(false)
		w.division = current
		w.absent = !w.passiveSince.IsZero() && at.Sub(w.passiveSince) > absence
		w.passiveSince = time.Time{}
		batch = append(batch, w)
	}
	return batch, backstop
}

// add schedules a worker's first turn after the given delay.
func (l *looker) add(w *worker, delay time.Duration) {
	l.mu.Lock()
	l.workers[w] = true
	w.watched.Store(l.division.Load().watches(w.target.ID))
	l.mu.Unlock()
	l.schedule(w, waitRange{most: delay})
}

func (l *looker) schedule(w *worker, r waitRange) {
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
	if w.due.Sub(now) > gatherTime {
		w.due = w.due.Truncate(gatherTime / 20).Add(gatherTime / 20)
	}
	if r.passive && !w.watched.Load() {
		w.due, w.passiveSince = now.Add(policy.Never), now
	}
	if w.woken.Load() {
		w.due = w.earliest
	}
	heap.Push(&l.queue, w)
	l.wakeLocked(w)
}

// wake makes a worker look soon. Further calls before that look have no effect.
func (l *looker) wake(w *worker) {
	if w.woken.Swap(true) {
		return // a look is due already
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.queueIndex < 0 || w.dismissed {
		return // the field woken is read at the end of the turn
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
		case l.resetTimer <- struct{}{}:
		default:
		}
	}
}

// dismiss stops the given workers concurrently and returns when all have ended.
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

// finish saves a worker's learned state and ends the worker.
func (l *looker) finish(w *worker) {
	w.withdrawLocked()
	go l.saves.Go(func() error {
		defer close(w.done)
		_ = panics.Contain(w.log, "panic in a target's worker", func() { w.save(context.WithoutCancel(w.ctx), time.Now(), 0) })
		return nil
	})
}

// turns runs one turn of each worker in a batch.
func (l *looker) turns(ctx context.Context, batch []*worker) {
	at := time.Now()
	queries := make([]pool.Query, 0, len(batch))
	looking := batch[:0]
	for _, w := range batch {
		var q pool.Query
		var look bool
		pause := w.contained(func() (pause waitRange) {
			q, pause, look = w.prepare(w.ctx, at)
			return pause
		})
		if !look {
			l.endTurn(w, nil, pause)
			continue
		}
		queries, looking = append(queries, q), append(looking, w)
	}
	stocks := l.look(ctx, queries)
	for i, w := range looking {
		var order *ordering
		pause := w.contained(func() (pause waitRange) {
			pause, order = w.turn(w.ctx, at, queries[i], stocks[i])
			return pause
		})
		l.share(w)
		l.endTurn(w, order, pause)
	}
}

// look returns the stocks from LookAll. If LookAll fails, each returned stock contains
// the error.
func (l *looker) look(ctx context.Context, queries []pool.Query) (stocks []pool.Stock) {
	if len(queries) == 0 {
		return nil
	}
	var err error
	if fault := panics.Contain(l.log, "panic in a target's worker", func() { stocks, err = l.stock.LookAll(ctx, queries) }); fault != nil {
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

// queue is a heap of workers, ordered by their due times.
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
