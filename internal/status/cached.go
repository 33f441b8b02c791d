package status

import (
	"sync"
	"time"

	"poold/internal/targets"
)

// cached keeps the last result of an expensive query to Redis, so that the load on Redis does not
// grow with the number of readers. Callers that arrive while a result is being made share this
// result. The zero value is empty.
type cached[T any] struct {
	mu     sync.Mutex
	last   *result[T] // the last complete result; nil = none
	making *result[T] // the newest result that is being made; nil = none
}

// revision identifies the inputs of a result. A new Set or a change through the API makes older
// results obsolete.
type revision struct {
	set     *targets.Set
	changes uint64
}

// A result belongs to the goroutine that makes it until this goroutine closes the channel `done`.
// Afterwards the result is immutable.
type result[T any] struct {
	revision

	done  chan struct{}
	value T
	until time.Time // when the value becomes stale
}

// get returns the last result. If the last result is not current, get first makes a new result. The
// function `build` runs in the goroutine of one caller. The function `build` must limit its own
// duration, because the other callers wait for the same result.
func (c *cached[T]) get(of revision, life time.Duration, build func() T) T {
	c.mu.Lock()
	if last := c.last; last != nil && last.revision == of && time.Now().Before(last.until) {
		c.mu.Unlock()
		return last.value
	}
	return c.makeLocked(of, life, build)
}

// renew makes a new result. Until the new result is complete, the method `get` still returns the last
// result if the last result is current.
func (c *cached[T]) renew(of revision, life time.Duration, build func() T) {
	c.mu.Lock()
	c.makeLocked(of, life, build)
}

// makeLocked makes a result, or waits for a result of the same revision that is being made. In both
// cases it first unlocks mu. If another goroutine meanwhile begins a result of a newer revision,
// makeLocked returns its own result and does not store it.
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
