package status

import (
	"sync"
	"time"

	"poold/internal/targets"
)

// cached keeps the last result of a query that costs round trips to Redis, so that scrapers and
// browsers cannot load it. Callers that come while a result is made wait for it together. The
// zero value is empty.
type cached[T any] struct {
	mu     sync.Mutex
	last   *result[T] // complete; nil = none
	making *result[T] // the one begun last, if it is not complete; else nil
}

// revision identifies the inputs of a result. Another Set, or a change made through the API, makes
// the result obsolete.
type revision struct {
	set     *targets.Set
	changes uint64
}

// result belongs to the goroutine that makes it until done is closed, and is immutable afterwards.
type result[T any] struct {
	revision

	done  chan struct{}
	value T
	until time.Time // it is good before
}

// get returns a good result, making it if there is none. build runs in the goroutine of one of
// the callers and must end by itself, because the others wait.
func (c *cached[T]) get(of revision, life time.Duration, build func() T) T {
	c.mu.Lock()
	if last := c.last; last != nil && last.revision == of && time.Now().Before(last.until) {
		c.mu.Unlock()
		return last.value
	}
	return c.makeLocked(of, life, build)
}

// renew makes a result even if there is a good one, which get returns meanwhile.
func (c *cached[T]) renew(of revision, life time.Duration, build func() T) {
	c.mu.Lock()
	c.makeLocked(of, life, build)
}

// makeLocked makes a result, or waits for one of the same revision that is being made. It
// unlocks mu first. A result that was begun later, of another revision, replaces this one.
func (c *cached[T]) makeLocked(of revision, life time.Duration, build func() T) T {
	if r := c.making; r != nil && r.revision == of {
		c.mu.Unlock()
		<-r.done
		return r.value
	}
	r := &result[T]{revision: of, done: make(chan struct{})}
	c.making = r
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.making == r {
			c.last, c.making = r, nil
		}
		close(r.done)
	}()
	r.value = build()
	r.until = time.Now().Add(life)
	return r.value
}
