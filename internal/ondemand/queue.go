package ondemand

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// queue passes items to workers in the order in which they were added. It is safe for concurrent use.
type queue[T any] struct {
	bell chan struct{} // signals that an item was added; capacity 1

	mu    sync.Mutex
	items []T
}

func newQueue[T any]() *queue[T] { return &queue[T]{bell: make(chan struct{}, 1)} }

func (q *queue[T]) add(item T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
	ring(q.bell)
}

// run calls the function work for each item until ctx ends. At most `limit` calls run at a time, each
// in its own goroutine. run returns when all calls have ended.
func (q *queue[T]) run(ctx context.Context, limit int, work func(T)) {
	var workers errgroup.Group
	workers.SetLimit(limit)
	defer func() { _ = workers.Wait() }()
	for ctx.Err() == nil {
		q.mu.Lock()
		items := q.items
		q.items = nil
		q.mu.Unlock()
		for _, item := range items {
			workers.Go(func() error { work(item); return nil })
		}
		select {
		case <-q.bell:
		case <-ctx.Done():
		}
	}
}

// ring sends to the channel bell, or does nothing if the channel is full.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
