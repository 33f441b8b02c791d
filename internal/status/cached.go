package status

import (
	"sync"
	"time"

	"poold/internal/targets"
)

// cached keeps the last result of a query that costs round trips to Redis, so that the load on Redis
// does not grow with the number of readers. Callers that come while a result is made share it. The
// zero value is empty.
type cached[T any] struct {
	mu     sync.Mutex
	last   *result[T] // complete; nil = none
	making *result[T] // the result begun last, if it is incomplete; else nil
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
	until time.Time // when it becomes stale
}

// get returns a current result, and makes one if there is none. build runs in the goroutine of one
// caller. It must bound its time, because the other callers wait for it.
func (c *cached[T]) get(of revision, life time.Duration, build func() T) T {
	c.mu.Lock()
	if last := c.last; last != nil && last.revision == of && time.Now().Before(last.until) {
		c.mu.Unlock()
		return last.value
	}
	return c.makeLocked(of, life, build)
}

// renew makes a new result. Until it is complete, get returns the old one if that is current.
func (c *cached[T]) renew(of revision, life time.Duration, build func() T) {
	c.mu.Lock()
	c.makeLocked(of, life, build)
}

// makeLocked makes a result, or waits for a result of the same revision that is being made. It
// unlocks mu first. A result that was begun later, for another revision, replaces this one.
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
