// Package queue provides a queue that is sorted in several ways at once.
package queue

import (
	"container/heap"
	"iter"
)

// Queue contains entries, sorted in several orders. It is not safe for concurrent use.
type Queue[T any] struct{ heaps []entries[T] }

// Entry is an entry of a queue. The zero value is in no queue.
type Entry[T any] struct {
	Value  T
	places []int // indexes in the heaps of the queue; nil if the entry is in no queue
}

// New returns an empty queue with an order for each function. A function reports whether its first
// argument precedes its second argument.
func New[T any](precedes ...func(a, b T) bool) *Queue[T] {
	q := new(Queue[T])
	for i, f := range precedes {
		q.heaps = append(q.heaps, entries[T]{order: i, precedes: f})
	}
	return q
}

// Len returns the number of entries.
func (q *Queue[T]) Len() int { return len(q.heaps[0].list) }

// Add adds an entry that is in no queue.
func (q *Queue[T]) Add(e *Entry[T]) {
	e.places = make([]int, len(q.heaps))
	for i := range q.heaps {
		heap.Push(&q.heaps[i], e)
	}
}

// Fix sorts the queue again after the value of an entry has changed.
func (q *Queue[T]) Fix(e *Entry[T]) {
	for i := range q.heaps {
		heap.Fix(&q.heaps[i], e.places[i])
	}
}

// Remove removes an entry from the queue.
func (q *Queue[T]) Remove(e *Entry[T]) {
	for i := range q.heaps {
		heap.Remove(&q.heaps[i], e.places[i])
	}
	e.places = nil
}

// Has reports whether the entry is in a queue.
func (e *Entry[T]) Has() bool { return e.places != nil }

// All returns all entries in an unspecified order. The caller must not change the list.
func (q *Queue[T]) All() []*Entry[T] { return q.heaps[0].list }

// Sorted returns the entries in the order with the given index. The queue must not change during the
// iteration. The first n entries take O(n log n) time, whatever the length of the queue.
func (q *Queue[T]) Sorted(order int) iter.Seq[*Entry[T]] {
	from := &q.heaps[order]
	return func(yield func(*Entry[T]) bool) {
		next := frontier[T]{of: from}
		for i := 0; ; i = heap.Pop(&next).(int) {
			if i < len(from.list) {
				if !yield(from.list[i]) {
					return
				}
				// An entry of a heap precedes its two children.
				for _, child := range []int{2*i + 1, 2*i + 2} {
					if child < len(from.list) {
						heap.Push(&next, child)
					}
				}
			}
			if next.Len() == 0 {
				return
			}
		}
	}
}

// entries is a heap of entries. Each entry stores its index in the heap.
type entries[T any] struct {
	list     []*Entry[T]
	order    int
	precedes func(a, b T) bool
}

func (h *entries[T]) Len() int           { return len(h.list) }
func (h *entries[T]) Less(i, j int) bool { return h.precedes(h.list[i].Value, h.list[j].Value) }

func (h *entries[T]) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].places[h.order], h.list[j].places[h.order] = i, j
}

// Push implements heap.Interface.
func (h *entries[T]) Push(x any) {
	e := x.(*Entry[T])
	e.places[h.order] = len(h.list)
	h.list = append(h.list, e)
}

// Pop implements heap.Interface.
func (h *entries[T]) Pop() any {
	last := len(h.list) - 1
	e := h.list[last]
	h.list[last], h.list = nil, h.list[:last]
	return e
}

// frontier is a heap of indexes of entries whose parents were visited.
type frontier[T any] struct {
	of      *entries[T]
	indexes []int
}

func (f *frontier[T]) Len() int           { return len(f.indexes) }
func (f *frontier[T]) Less(i, j int) bool { return f.of.Less(f.indexes[i], f.indexes[j]) }
func (f *frontier[T]) Swap(i, j int)      { f.indexes[i], f.indexes[j] = f.indexes[j], f.indexes[i] }

// Push implements heap.Interface.
func (f *frontier[T]) Push(x any) { f.indexes = append(f.indexes, x.(int)) }

// Pop implements heap.Interface.
func (f *frontier[T]) Pop() any {
	last := len(f.indexes) - 1
	i := f.indexes[last]
	f.indexes = f.indexes[:last]
	return i
}
