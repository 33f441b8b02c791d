package pool

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"poold/internal/redisdb"
)

func testLeasesAndAdoption(t *testing.T, o Options) {
	o.Prefix = "leases"
	one, two, id := open(t, o), open(t, o), identity("lease")
	order := Ref{id, "a"}
	placeOrder(t, one, Order{Ref: order, Depth: 5, TTL: time.Minute, Price: PriceUnknown, Facts: Facts{Target: "what | the buyer says"}})
	expect(t, true)(one.MarkSubmitting(t.Context(), order))
	expect(t, true)(one.Submitted(t.Context(), order, "task|4711"))

	// No other replica can adopt the order while its lease lasts.
	if got, gone, err := two.Adopt(t.Context(), id, []string{"a", "none"}); err != nil || len(got) != 0 || len(gone) != 1 || gone[0] != (Ref{id, "none"}) {
		t.Fatalf("adopted under a lease: %+v, %v, %v", got, gone, err)
	}
	if lost, err := one.Renew(t.Context(), []Ref{order, {id, "none"}}); err != nil || len(lost) != 1 || lost[0].Order != "none" {
		t.Fatalf("renewing: %v, %v", lost, err)
	}
	expire(t, one, order)
	got, _, err := two.Adopt(t.Context(), id, []string{"none", "a"})
	if err != nil || len(got) != 1 {
		t.Fatalf("adopting: %+v, %v", got, err)
	}
	r := got[0]
	if r.Ref != order || r.State != Bought || r.Task != "task|4711" || r.Facts.Target != "what | the buyer says" || r.Price != PriceUnknown || r.Unreadable != nil {
		t.Errorf("adopted %+v", r)
	}
	if age := time.Since(r.Placed); age < 0 || age > 5*time.Second || time.Until(r.Until) > time.Minute {
		t.Errorf("adopted with age %v, until %v", age, time.Until(r.Until))
	}
	// The old owner learns that it no longer owns the order.
	if lost, err := one.Renew(t.Context(), []Ref{order}); err != nil || len(lost) != 1 {
		t.Errorf("renewed another's order: %v, %v", lost, err)
	}
	if found, ok, err := one.Find(t.Context(), order); err != nil || !ok || found.Task != r.Task {
		t.Errorf("found %+v, %v, %v", found, ok, err)
	}
	if _, ok, err := one.Find(t.Context(), Ref{id, "none"}); err != nil || ok {
		t.Errorf("found an order that is not there: %v, %v", ok, err)
	}
}

// A replica is stopped for longer than its lease, and another replica adopts its order. The first
// replica can then no longer submit, settle or remove the order.
func testALostLeaseIsFenced(t *testing.T, o Options) {
	o.Prefix = "fence"
	one, two, id := open(t, o), open(t, o), identity("fence")
	order := Ref{id, "a"}
	place(t, one, id, "a")
	expire(t, one, order)
	if got, _, err := two.Adopt(t.Context(), id, []string{"a"}); err != nil || len(got) != 1 || got[0].State != Intent {
		t.Fatalf("adopting: %+v, %v", got, err)
	}
	if ok, err := one.MarkSubmitting(t.Context(), order); err != nil || ok {
		t.Errorf("the old owner may submit: %v, %v", ok, err)
	}
	if how, err := one.Settle(t.Context(), Landing{Ref: order, Value: "x", Lifetime: time.Minute}); err != nil || how != NotOwner {
		t.Errorf("the old owner settled: %v, %v", how, err)
	}
	for _, bought := range []bool{true, false} {
		if how, err := one.Fail(t.Context(), Failure{Ref: order, Bought: bought}); err != nil || how != NotOwner {
			t.Errorf("the old owner gave up: %v, %v", how, err)
		}
	}
	if ok, err := two.MarkSubmitting(t.Context(), order); err != nil || !ok {
		t.Errorf("the new owner may not submit: %v, %v", ok, err)
	}
	// A repeated MarkSubmitting succeeds, because a command can arrive twice.
	if ok, err := two.MarkSubmitting(t.Context(), order); err != nil || !ok {
		t.Errorf("the mark cannot be repeated: %v, %v", ok, err)
	}
	// Now the submit of the old owner, which was still in flight, returns a task. The replica that
	// knows the task owns the order.
	if ok, err := one.Submitted(t.Context(), order, "1"); err != nil || !ok {
		t.Errorf("a task that became known late: %v, %v", ok, err)
	}
	if how, err := two.Fail(t.Context(), Failure{Ref: order, Bought: true}); err != nil || how != NotOwner {
		t.Errorf("without the task: %v, %v", how, err)
	}
	if how, err := one.Settle(t.Context(), Landing{Ref: order, Value: "x", Lifetime: time.Minute}); err != nil || how != Ended {
		t.Errorf("with the task: %v, %v", how, err)
	}
	if ok, err := one.MarkSubmitting(t.Context(), order); err != nil || ok {
		t.Errorf("an order that has ended may be submitted: %v, %v", ok, err)
	}
	if ok, err := one.Submitted(t.Context(), order, "1"); err != nil || ok {
		t.Errorf("an order that has ended got a task: %v, %v", ok, err)
	}
}

// A script that Redis executes after its caller gave up does nothing.
func testLateStepsDoNothing(t *testing.T, o Options) {
	s, order := open(t, o), Ref{identity("late"), "a"}
	now, err := s.db.Slow.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	at := RedisTime(now.UnixMilli())
	late, soon := at.After(-time.Second), at.After(time.Minute)
	if _, err := s.Book(t.Context(), Overall, order, Caps{PerDay: 5}, late); !errors.Is(err, redisdb.ErrDown) {
		t.Errorf("booked late: %v", err)
	}
	placing, err := s.Place(t.Context(), Order{Ref: order, Depth: 5, TTL: time.Minute, NotAfter: late})
	if _, n, _ := s.Booked(t.Context(), Overall); !errors.Is(err, redisdb.ErrDown) || placing.Placed || n != 0 || look(t, s, order.Identity).Orders != 0 {
		t.Errorf("placed late: %+v, %v, %d booked", placing, err, n)
	}
	if wait, err := s.Book(t.Context(), Overall, order, Caps{PerDay: 5}, soon); err != nil || wait != 0 {
		t.Errorf("booked in time: %v, %v", wait, err)
	}
	placing, err = s.Place(t.Context(), Order{Ref: order, Depth: 5, TTL: time.Minute, NotAfter: soon})
	if err != nil || !placing.Placed {
		t.Errorf("placed in time: %+v, %v", placing, err)
	}
}

// If a failover comes between placing and submit, the clock of the new master may be a little behind.
func TestMarkWithAClockThatIsBehind(t *testing.T) {
	redis := miniredis.RunT(t)
	s, order := open(t, Options{Addresses: "redis://" + redis.Addr()}), Ref{identity("behind"), "a"}
	now := time.Now()
	redis.SetTime(now)
	place(t, s, order.Identity, order.Order)
	redis.SetTime(now.Add(-30 * time.Millisecond))
	expect(t, true)(s.MarkSubmitting(t.Context(), order))
	if r, ok, err := s.Find(t.Context(), order); err != nil || !ok || r.Unsolved != 0 {
		t.Errorf("marked before it was placed: %+v, %v", r, err)
	}
	redis.SetTime(now.Add(time.Second))
	if ok, err := s.Submitted(t.Context(), order, "4711"); err != nil || !ok {
		t.Errorf("the task id was not stored: %v, %v", ok, err)
	}
	if how, err := s.Settle(t.Context(), Landing{Ref: order, Value: "x", Lifetime: time.Minute}); err != nil || how != Ended {
		t.Errorf("a paid token did not land: %v, %v", how, err)
	}
}
