//go:build !race

package pool

import (
	"fmt"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
)

// step is a step of poold in Redis.
type step struct {
	name string
	do   func(id captcha.ID, i int)
	cost redistest.Cost // without the CPU times
}

// costly is the identity of the steps.
var costly = identity("costs")

// steps returns the steps whose cost TestCosts guards, after it has done them for the numbers 0 and 1.
// The first steps create the stock of the last ones, so each step has to be done once for each number
// from 2 on.
func steps(t testing.TB, address string) []step {
	s := open(t, Options{Addresses: "redis://" + address, Prefix: "cost", Probe: time.Hour})
	time.Sleep(time.Second) // the store reads the settings of Redis once, at its start
	order := func(i int) string { return fmt.Sprintf("order%021d", i) }
	all := []step{
		{"placing an order", func(id captcha.ID, i int) { place(t, s, id, order(i)) }, redistest.Cost{Commands: 16, Read: 887, Wrote: 15}},
		{"a landing", func(id captcha.ID, i int) { land(t, s, id, order(i), 0, time.Hour) }, redistest.Cost{Commands: 27, Read: 1136, Wrote: 7}},
		{"a look with Keep", func(id captcha.ID, _ int) { look(t, s, id) }, redistest.Cost{Commands: 25, Read: 961, Wrote: 723}},
		{"a take", func(id captcha.ID, _ int) {
			if _, err := s.Take(t.Context(), Request{ID: id}); err != nil {
				t.Fatal(err)
			}
		}, redistest.Cost{Commands: 17, Read: 521, Wrote: 146}},
		{"a look", func(id captcha.ID, _ int) {
			if _, err := s.LookAll(t.Context(), []Query{{ID: id, Hour: true}}); err != nil {
				t.Fatal(err)
			}
		}, redistest.Cost{Commands: 14, Read: 950, Wrote: 768}},
	}
	// The first call of each kind loads its script. One token remains in the stock.
	for i := range 2 {
		all[0].do(costly, i)
		all[1].do(costly, i)
	}
	all[2].do(costly, 0)
	all[3].do(costly, 0)
	return all
}

// TestCosts guards the cost of each step in Redis, so that no change raises it unnoticed: the number
// of commands, including those in scripts, and the bytes that Redis reads and writes. A change that
// lowers a figure changes it here, too.
func TestCosts(t *testing.T) {
	address := redistest.Server(t)
	for _, one := range steps(t, address) {
		got := redistest.CostOf(t, address, 50, func(i int) { one.do(costly, i+2) })
		got.Redis, got.Process = 0, 0
		near := func(a, b int) bool { return max(a-b, b-a) <= 2+b/100 } // numbers differ in their digits
		if got.Commands != one.cost.Commands || !near(got.Read, one.cost.Read) || !near(got.Wrote, one.cost.Wrote) {
			t.Errorf("%s costs %+v; it was %+v", one.name, got, one.cost)
		}
	}
}

// BenchmarkCosts reports the cost of the same steps, with CPU times. It needs -benchtime 1x, because a
// step cannot be done twice for the same number.
func BenchmarkCosts(b *testing.B) {
	address := redistest.Server(b)
	const n = 200
	for _, one := range steps(b, address) {
		b.Run(one.name, func(b *testing.B) {
			for b.Loop() {
				redistest.CostOf(b, address, n, func(i int) { one.do(costly, i+2) }).Report(b, 1)
			}
		})
	}
}
