package status

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"poold/internal/targets"
)

// cached keeps the last result of something that costs a round trip to Redis, so that
// scrapers and browsers cannot load it. A result is good for a while and for one
// revision; callers that come while it is made wait for it together. The zero value is
// empty.
type cached[T any] struct {
	making singleflight.Group
	begun  atomic.Int64 // numbers the makings
	mu     sync.Mutex   // held while last is replaced
	last   atomic.Pointer[result[T]]
}

// revision says of what something is: another Set, or a change made through the API,
// makes the old one useless.
type revision struct {
	set     *targets.Set
	changes uint64
}

// result is what was made of a revision, which keeps its Set from being freed: another
// one could get its address.
type result[T any] struct {
	revision

	number int64 // of its making
	value  T
	until  time.Time // it is good before
}

// get returns a good result, making it if there is none. build runs in the goroutine of
// one of the callers and must end by itself, because the others wait.
func (c *cached[T]) get(of revision, life time.Duration, build func() T) T {
	if r := c.last.Load(); r.good(of) {
		return r.value
	}
	return c.once(of, func() T {
		if r := c.last.Load(); r.good(of) { // made in the meantime
			return r.value
		}
		return c.produce(of, life, build)
	})
}

// renew makes a result although there may be a good one. Callers of get wait for it only
// where there is none.
func (c *cached[T]) renew(of revision, life time.Duration, build func() T) {
	c.once(of, func() T { return c.produce(of, life, build) })
}

// once lets one caller at a time work for a revision, and gives all its result.
func (c *cached[T]) once(of revision, work func() T) T {
	v, _, _ := c.making.Do(fmt.Sprintf("%p %d", of.set, of.changes), func() (any, error) { return work(), nil })
	return v.(T)
}

func (c *cached[T]) produce(of revision, life time.Duration, build func() T) T {
	number := c.begun.Add(1)
	value := build()
	c.keep(&result[T]{revision: of, number: number, value: value, until: time.Now().Add(life)})
	return value
}

// good reports whether a result can be shown for a revision; nil cannot.
func (r *result[T]) good(of revision) bool {
	return r != nil && r.revision == of && time.Now().Before(r.until)
}

// keep replaces the last result, unless that was begun later.
func (c *cached[T]) keep(r *result[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.last.Load(); last == nil || last.number < r.number {
		c.last.Store(r)
	}
}
