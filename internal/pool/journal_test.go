package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"poold/internal/redisdb"
)

// FindAll reads orders of several identities at all nodes of a cluster, in more than one exchange.
// The result omits ended orders.
func testFindAllReadsManyOrders(t *testing.T, o Options) {
	o.Prefix = "many orders"
	s := open(t, o)
	var asked, there []Ref
	for i := range findBatch + 20 {
		order := Ref{identity(fmt.Sprint("many ", i%3)), fmt.Sprint("o", i)}
		asked = append(asked, order)
		if i%7 == 0 {
			continue
		}
		if i%100 == 1 || i > findBatch {
			place(t, s, order.Identity, order.Order)
			there = append(there, order)
		}
	}
	marked, bought := there[1], there[2]
	for _, order := range []Ref{marked, bought} {
		expect(t, true)(s.MarkSubmitting(t.Context(), order))
	}
	expect(t, true)(s.Submitted(t.Context(), bought, "task|4711"))
	found, err := s.FindAll(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	var got []Ref
	for _, r := range found {
		got = append(got, r.Ref)
		want := Intent
		switch r.Ref {
		case marked:
			want = Submitting
		case bought:
			want = Bought
		}
		if again, _, err := s.Find(t.Context(), r.Ref); err != nil || again.At != r.At {
			t.Errorf("placed at %d, then at %d, %v", r.At, again.At, err)
		}
		if age := time.Since(r.Placed); r.State != want || (r.Task == "task|4711") != (r.Ref == bought) || age < 0 || age > 20*time.Second || r.Placed.Sub(time.UnixMilli(int64(r.At))).Abs() > 10*time.Second {
			t.Errorf("found %+v, %v old", r, age)
		}
	}
	if !slices.Equal(got, there) {
		t.Errorf("found %v\nwant %v", got, there)
	}
	if none, err := s.FindAll(t.Context(), nil); err != nil || none != nil {
		t.Errorf("of no orders %v, %v", none, err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if list, err := s.FindAll(cancelled, asked[:1]); !errors.Is(err, redisdb.ErrDown) || list != nil {
		t.Errorf("without Redis %v, %v", list, err)
	}
}
