package queue_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"poold/internal/purchase/queue"
)

// item is a value that is sorted by a and by b. Items with equal values are sorted by id.
type item struct{ a, b, id int }

func byA(x, y item) int { return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.id, y.id)) }
func byB(x, y item) int { return cmp.Or(cmp.Compare(x.b, y.b), cmp.Compare(x.id, y.id)) }

// After every change, the queue contains the same entries in the same orders as a sorted slice.
func TestAQueueEqualsASortedSlice(t *testing.T) {
	type entry = queue.Entry[item]
	orders := []func(x, y item) int{byA, byB}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		q := queue.New(
			func(x, y item) bool { return byA(x, y) < 0 },
			func(x, y item) bool { return byB(x, y) < 0 },
		)
		var in, out []*entry // entries in the queue, and removed entries
		values := 1 + r.IntN(50)
		grow := 3 + r.IntN(4) // of 10 changes, this many add an entry
		check := func(step int) {
			if q.Len() != len(in) || len(q.All()) != len(in) {
				t.Fatalf("seed %d, step %d: length %d, %d entries, want %d", seed, step, q.Len(), len(q.All()), len(in))
			}
			for _, e := range q.All() {
				if !slices.Contains(in, e) {
					t.Fatalf("seed %d, step %d: %v is in the queue", seed, step, e.Value)
				}
			}
			for i, order := range orders {
				want := slices.SortedFunc(slices.Values(in), func(x, y *entry) int { return order(x.Value, y.Value) })
				if got := slices.Collect(q.Sorted(i)); !slices.Equal(got, want) {
					t.Fatalf("seed %d, step %d: order %d is wrong", seed, step, i)
				}
				n := r.IntN(len(in) + 1)
				for e := range q.Sorted(i) { // an iteration may end early
					if n--; n < 0 {
						break
					}
					if e != want[0] {
						t.Fatalf("seed %d, step %d: order %d is wrong", seed, step, i)
					}
					want = want[1:]
				}
			}
			for _, e := range in {
				if !e.Has() {
					t.Fatalf("seed %d, step %d: an entry of the queue is in no queue", seed, step)
				}
			}
			for _, e := range out {
				if e.Has() {
					t.Fatalf("seed %d, step %d: a removed entry is in a queue", seed, step)
				}
			}
		}
		check(-1)
		for step := range 200 {
			switch n := r.IntN(10); {
			case n < grow || len(in) == 0:
				e := &entry{Value: item{r.IntN(values), r.IntN(values), step}}
				if len(out) > 0 && r.IntN(2) == 0 { // an entry can be added again
					e, out = out[0], out[1:]
				}
				q.Add(e)
				in = append(in, e)
			case n < 7:
				e := in[r.IntN(len(in))]
				e.Value.a, e.Value.b = r.IntN(values), r.IntN(values)
				q.Fix(e)
			default:
				i := r.IntN(len(in))
				q.Remove(in[i])
				out = append(out, in[i])
				in = slices.Delete(in, i, i+1)
			}
			check(step)
		}
	}
}
