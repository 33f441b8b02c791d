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

	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill/policy"
)

const (
	// batchMost is how many identities are looked at in one exchange.
	batchMost = 128
	// batchesAtOnce are under way, so that one that hangs does not hold up all others.
	batchesAtOnce = 8
	// Who rests for longer than gather is due with others, up to a twentieth of it later.
	gather = 5 * time.Second
	// savesAtOnce of workers that end are under way.
	savesAtOnce = 32
)

// looker has the identities that are due looked at, many in one exchange, and has
// their workers take their turns. One timer serves all of them. It is safe for
// concurrent use.
type looker struct {
	stock    Stock
	replicas Replicas
	log      *slog.Logger
	batches  errgroup.Group
	saves    errgroup.Group
	wake     chan struct{} // of one: somebody is due earlier than the timer
	passed   atomic.Int64  // when run did something last, Unix ns
	watch    atomic.Pointer[watch]

	mu      sync.Mutex
	queue   queue // who rests
	handles map[*handle]bool
}

// handle is a worker at the looker.
type handle struct {
	*worker
	ctx  context.Context // of the worker; ends with stop
	stop context.CancelFunc
	done chan struct{} // closed when the worker has ended

	watched   atomic.Bool          // by this replica
	elsewhere atomic.Pointer[said] // what the replica says that watches it
	asked     atomic.Int64         // when Current last read that, Unix ns

	// Of the goroutine that takes the turn alone: what was shared last.
	shared   Status
	sharedAt time.Time
	ordering *ordering // what the worker bids for; nil = nothing

	// Guarded by the looker's mu.
	due       time.Time // next turn
	earliest  time.Time // where somebody kicks
	place     int       // in the queue; -1 = it takes its turn
	left      time.Time // since when it only waits for kicks; zero = it does not
	divided   *watch    // how the identities were divided at the last turn
	dismissed bool
	bidding   bool // the last request was not taken up
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

// run works until ctx ends; turns that have begun are taken to their ends.
func (l *looker) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		l.passed.Store(now.UnixNano())
		batch, wait := l.next(now)
		if len(batch) > 0 {
			l.batches.Go(func() error { // waits while as many are under way as may be
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

// hangs reports whether run has not come on for long, because exchanges with Redis
// do not end.
func (l *looker) hangs() bool {
	return time.Since(time.Unix(0, l.passed.Load())) > hangsAfter
}

// divide changes what this replica watches. What it did not watch before is looked at
// soon.
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
		if soon := now.Add(random(takeOver)); soon.Before(h.due) {
			l.callLocked(h, soon)
		}
	}
}

// next takes those who are due out of the queue; where nobody is, it says how long
// until somebody will be.
func (l *looker) next(at time.Time) (batch []*handle, wait time.Duration) {
	watch := l.watch.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && len(batch) < batchMost {
		h := l.queue[0]
		if h.due.After(at) {
			return batch, h.due.Sub(at)
		}
		// An order that ended meanwhile may ask for a longer rest than the turn did.
		if held := h.status.heldFor(at); held > 0 {
			h.due = at.Add(held)
			heap.Fix(&l.queue, 0)
			continue
		}
		heap.Pop(&l.queue)
		// What was kicked for until now is seen by the look that follows.
		kicked := h.kicked.Swap(false)
		h.calm = !kicked && h.divided == watch && watch.only()
		h.divided = watch
		h.absent = !h.left.IsZero() && at.Sub(h.left) > absence
		h.left = time.Time{}
		batch = append(batch, h)
	}
	return batch, backstop
}

// add has a worker take its first turn after delay.
func (l *looker) add(h *handle, delay time.Duration) {
	l.mu.Lock()
	l.handles[h] = true
	h.watched.Store(l.watch.Load().mine(h.target.ID))
	l.mu.Unlock()
	l.rest(h, rest{most: delay})
}

// rest lets a worker rest after a turn.
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

// kick has a worker look soon. It never blocks for long: of many kicks only the first
// one does anything.
func (l *looker) kick(h *handle) {
	if h.kicked.Swap(true) {
		return // a look is due already
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.place < 0 || h.dismissed {
		return // whoever takes the turn sees that it was kicked
	}
	l.callLocked(h, later(now, h.earliest))
}

// callLocked changes when a worker that rests is due.
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

// wakeLocked tells run of a worker that is due before all others.
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

// finish saves what a worker has learned, and ends it.
func (l *looker) finish(h *handle) {
	h.withdrawLocked()
	go l.saves.Go(func() error {
		defer close(h.done)
		_ = panics.Contain(h.log, "panic in a target's worker", func() { h.save(context.WithoutCancel(h.ctx), time.Now(), 0) })
		return nil
	})
}

// turns has each worker of a batch take its turn. Workers that have something to order
// bid for a slot and rest.
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

// look is the stock's Survey with every error in its place.
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
