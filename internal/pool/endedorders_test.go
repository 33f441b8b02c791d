package pool

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// asked returns the provider's part in the orders of these tests.
func asked(code string) *Asked {
	return &Asked{Provider: "p|2", Task: "t 1", Code: code, Submitted: 50 * time.Millisecond, Polls: 3}
}

func ends(t testing.TB, s *replica, id captcha.ID) []EndedOrder {
	t.Helper()
	orders, err := s.Endings.Kept(t.Context(), []captcha.ID{id}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return orders
}

// The script that ends an order writes one line about it. Redis keeps the line until Forget.
func testEachEndIsKept(t *testing.T, o Options) {
	o.Endings = 100
	s, id := open(t, o), identity("each end")
	placed := func(order string, ttl time.Duration) Ref {
		t.Helper()
		ref := Ref{id, order}
		placeOrder(t, s, Order{Ref: ref, Depth: 1 << 20, TTL: ttl, Price: PriceUnknown, Facts: Facts{Target: "|"}})
		return ref
	}
	landing := func(order, value string, lifetime time.Duration, callback bool) Landing {
		return Landing{
			Ref: placed(order, time.Minute), Provider: "p", Task: "t|1", Value: value,
			Lifetime: lifetime, Submitted: 10 * time.Millisecond, Polls: 2, Callback: callback,
		}
	}
	settled := func(l Landing, want EndResult) {
		t.Helper()
		for _, want := range []EndResult{want, Gone} { // the second call changes nothing
			expect(t, want)(s.Settle(t.Context(), l))
		}
	}
	ended := func(f Failure, want EndResult) {
		t.Helper()
		expect(t, want)(s.Fail(t.Context(), f))
	}
	settled(landing("solved", "a", time.Minute, false), Ended)
	settled(landing("callback", "b", time.Minute, true), Ended)
	dead := landing("dead", "c", time.Millisecond, false)
	time.Sleep(5 * time.Millisecond)
	settled(dead, Ended)
	settled(landing("repeated", "a", time.Minute, false), Repeated)
	ended(Failure{Ref: placed("failed", time.Minute), Bought: true, Asked: asked("ERROR_X|Y")}, Ended)
	ended(Failure{Ref: placed("refused", time.Minute), Asked: asked("ERROR_NO")}, Ended)
	ended(Failure{Ref: placed("unasked", time.Minute)}, Ended)
	for _, order := range []string{"lost", "unplaced"} {
		ref := placed(order, 30*time.Millisecond)
		if order == "lost" {
			expect(t, true)(s.MarkSubmitting(t.Context(), ref))
			expect(t, true)(s.Submitted(t.Context(), ref, "t|9"))
		}
	}
	time.Sleep(50 * time.Millisecond)
	look(t, s, id) // removes the orders whose deadline has passed

	lines := s.db.Slow.ZCard(t.Context(), s.keys(id).ended).Val()
	orders := ends(t, s, id)
	if lines != int64(len(orders)) {
		t.Errorf("%d of %d lines can be read", len(orders), lines)
	}
	got := map[string]string{}
	for _, e := range orders {
		if got[e.Order] != "" {
			t.Errorf("%s ended twice", e.Order)
		}
		solved := "-"
		if !e.Solved.IsZero() {
			solved = e.Solved.Sub(e.Placed).String()
		}
		got[e.Order] = fmt.Sprintln(e.How, e.Code, e.Provider, e.Task, e.Polls, e.Callback, e.Submitted.Sub(e.Placed) > time.Second, solved)
		if e.Identity != id || e.Price != PriceUnknown || e.Facts.Target != "|" || e.Unreadable != nil || e.Ended.Before(e.Placed) || time.Since(e.Ended).Abs() > time.Minute {
			t.Errorf("%+v", e)
		}
	}
	want := map[string]string{
		"solved":   fmt.Sprintln("solved", "", "p", "t|1", 2, false, false, "0s"),
		"callback": fmt.Sprintln("solved", "", "p", "t|1", 2, true, false, "0s"),
		"dead":     fmt.Sprintln("discarded", "", "p", "t|1", 2, false, false, "0s"),
		"repeated": fmt.Sprintln("failed", "repeated", "p", "t|1", 2, false, false, "-"),
		"failed":   fmt.Sprintln("failed", "ERROR_X|Y", "p|2", "t 1", 3, false, false, "-"),
		"refused":  fmt.Sprintln("refused", "ERROR_NO", "p|2", "t 1", 3, false, false, "-"),
		"lost":     fmt.Sprintln("lost", "", "", "t|9", 0, false, false, "-"),
	}
	for order, line := range want {
		if got[order] != line {
			t.Errorf("%s: %q, want %q", order, got[order], line)
		}
		delete(got, order)
	}
	if len(got) != 0 {
		t.Errorf("and %q", got)
	}
	must(t, s.Endings.Forget(t.Context(), orders[:3]))
	if left := ends(t, s, id); len(left) != len(orders)-3 || slices.ContainsFunc(left, func(e EndedOrder) bool { return e.Order == orders[0].Order }) {
		t.Errorf("%d of %d left", len(left), len(orders))
	}
}

// Ends beyond the limit are counted and not stored. If Options.Endings is 0, no end is stored.
func testEndsAreLimited(t *testing.T, o Options) {
	for most, unrecorded := range map[int]int64{0: 0, 4: 3} {
		o.Endings = most
		o.Prefix = fmt.Sprint("test-too many ", most)
		s, id := open(t, o), identity("too many")
		stock(t, s, id, 7, 0, time.Minute)
		if n := len(ends(t, s, id)); n != most {
			t.Errorf("%d are kept of at most %d", n, most)
		}
		if f := look(t, s, id).Figures; f.Unrecorded != unrecorded || f.Solved != 7 {
			t.Errorf("figures %+v", f)
		}
	}
}

// Sweep finds the stored ends of targets and guests. A guest stays on the list until its ends are
// removed.
func testSweepFindsEndedOrders(t *testing.T, o Options) {
	o.Endings = 10
	o.Prefix = "test-ends are found"
	s, other := open(t, o), open(t, o)
	target, guest, idle := identity("found target"), identity("found guest"), identity("found idle")
	use(t, s, guest)
	for _, id := range []captcha.ID{target, guest, idle} {
		placeOrder(t, s, Order{Ref: Ref{id, "o1"}, Guest: id == guest, Depth: 1 << 20, TTL: time.Minute})
		if id != idle {
			land(t, s, id, "o1", 0, time.Millisecond)
		}
	}
	found, err := other.Endings.Sweep(t.Context())
	slices.Sort(found)
	want := []captcha.ID{target, guest}
	slices.Sort(want)
	if err != nil || !slices.Equal(found, want) {
		t.Fatalf("found %v, %v; want %v", found, err, want)
	}
	time.Sleep(10 * time.Millisecond)
	makeDue(t, s, guest)
	retire(t, s, 0)
	for _, id := range want {
		must(t, s.Endings.Forget(t.Context(), ends(t, s, id)))
	}
	makeDue(t, s, guest)
	retire(t, s, 1)
	if found, err := other.Endings.Sweep(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
	// An identity without orders leaves the list when it can no longer have ends.
	listed := s.placedKey()
	if n := s.db.Slow.ZCard(t.Context(), listed).Val(); n != 2 {
		t.Errorf("%d are written down", n)
	}
	for _, id := range []captcha.ID{target, idle} {
		s.db.Slow.ZAdd(t.Context(), listed, redis.Z{Score: float64(time.Now().UnixMilli() - 1000), Member: string(id)})
	}
	stock(t, s, target, 1, 0, time.Minute)
	if found, err := other.Endings.Sweep(t.Context()); err != nil || !slices.Equal(found, []captcha.ID{target}) {
		t.Errorf("found %v, %v", found, err)
	}
	if left := s.db.Slow.ZRange(t.Context(), listed, 0, -1).Val(); !slices.Equal(left, []string{string(target)}) {
		t.Errorf("%q are written down", left)
	}
}

// If the reply to a call that ends an order is lost, the retry does not store a second line.
func testRetriedEndsLeaveOneLine(t *testing.T, o Options) {
	o.Endings = 1000
	o.Prefix = "test-one end"
	s, id := open(t, o), identity("one end")
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 10 {
				order := fmt.Sprintf("o%dx%d", worker, i)
				place(t, s, id, order)
				l := Landing{Ref: Ref{id, order}, Call: order, Provider: "p", Value: order, Lifetime: time.Minute}
				for range 3 {
					if how, err := s.Settle(t.Context(), l); err != nil || how != Ended {
						t.Error(how, err)
					}
				}
			}
		})
	}
	group.Wait()
	if n := len(ends(t, s, id)); n != 40 {
		t.Errorf("%d ends of 40 orders", n)
	}
}
