package status

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// cached keeps the last result of something that costs a round trip to Redis, so that
// scrapers and browsers cannot load it. A result is good for a while and under one key;
// callers that come while it is made wait for it together. The zero value is empty.
type cached[T any] struct {
	making singleflight.Group
	begun  atomic.Int64 // numbers the makings
	mu     sync.Mutex   // held while last is replaced
	last   atomic.Pointer[result[T]]
}

// result is what was made for a key.
type result[T any] struct {
	key    string
	number int64 // of its making
	value  T
	until  time.Time // it is good before
}

// get returns a good result, making it if there is none.
func (c *cached[T]) get(key string, life time.Duration, build func() T) T {
	if r := c.last.Load(); r != nil && r.key == key && time.Now().Before(r.until) {
		return r.value
	}
	return c.renew(key, life, build)
}

// renew makes a result, or waits for the one that is being made. build runs in the
// goroutine of one of the callers and must end by itself, because the others wait.
func (c *cached[T]) renew(key string, life time.Duration, build func() T) T {
	v, _, _ := c.making.Do(key, func() (any, error) {
		number := c.begun.Add(1)
		value := build()
		c.keep(&result[T]{key: key, number: number, value: value, until: time.Now().Add(life)})
		return value, nil
	})
	return v.(T)
}

// keep replaces the last result, unless that was begun later.
func (c *cached[T]) keep(r *result[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.last.Load(); last == nil || last.number < r.number {
		c.last.Store(r)
	}
}
