package pool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
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

// Each call for an order renews the order's lease.
func TestEveryStepRenewsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, one, two *replica, id captcha.ID) {
		order := Ref{id, "a"}
		lease := func(after string, want time.Duration) {
			t.Helper()
			score, err := one.db.Slow.ZScore(t.Context(), one.keys(id).leases, "a").Result()
			if got := time.Until(time.UnixMilli(int64(score))); err != nil || got != want {
				t.Errorf("after %s the lease is %v, want %v: %v", after, got, want, err)
			}
			time.Sleep(time.Second)
		}
		place(t, one, id, "a")
		lease("placing", Lease)
		for range 2 { // the second call is a retry
			expect(t, true)(one.MarkSubmitting(t.Context(), order))
			lease("marking", Lease)
			if r, ok, err := one.Find(t.Context(), order); err != nil || !ok || r.Unsolved != time.Second || r.State != Submitting {
				t.Errorf("marked: %+v, %v, %v", r, ok, err)
			}
		}
		expect(t, true)(one.Submitted(t.Context(), order, "t"))
		lease("the submit", Lease)
		if lost, err := one.Renew(t.Context(), []Ref{order}); err != nil || len(lost) != 0 {
			t.Fatal(lost, err)
		}
		lease("renewing", Lease)
		// No replica can adopt the order before its lease ends. Afterwards any replica can adopt it.
		if adopted, _, err := two.Adopt(t.Context(), id, []string{"a"}); err != nil || len(adopted) != 0 {
			t.Errorf("adopted early: %+v, %v", adopted, err)
		}
		time.Sleep(Lease - time.Second)
		adopted, _, err := two.Adopt(t.Context(), id, []string{"a"})
		if err != nil || len(adopted) != 1 || !adopted[0].Until.Equal(adopted[0].Placed.Add(time.Minute)) {
			t.Fatalf("adopted: %+v, %v", adopted, err)
		}
		lease("adopting", Lease)
		if again, _, err := one.Adopt(t.Context(), id, []string{"a"}); err != nil || len(again) != 0 {
			t.Errorf("adopted back: %+v, %v", again, err)
		}
		must(t, two.ReleaseLeases(t.Context(), []Ref{order}))
		lease("letting go", 0)
	})
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

// slow is a connection that delays both directions.
type slow struct{ net.Conn }

const slowness = 50 * time.Millisecond

func (c slow) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(slowness)
	return n, err
}

func (c slow) Write(b []byte) (int, error) {
	time.Sleep(slowness)
	return c.Conn.Write(b)
}

// Placed and Until of a record are safe, however slow Redis was: the order was placed at Placed or
// earlier, and ends at Until or later.
func TestTimesOfRecordsAreSafeOnASlowConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, id := Options{Addresses: redistest.BubbleAddress, Prefix: "slow"}, identity("slow")
		server := redistest.InBubble(t)
		o.Dial = server.Dial
		fast := open(t, o)
		t.Cleanup(func() { time.Sleep(2 * slowness) }) // until the last Read of a closed connection returns
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := server.Dial(ctx, network, address)
			return slow{conn}, err
		}
		s := open(t, o)
		placed, order := time.Now(), Ref{id, "a"}
		place(t, fast, id, "a")
		time.Sleep(Lease)
		found, ok, err := s.Find(t.Context(), order)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		all, err := s.FindAll(t.Context(), []Ref{order})
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		adopted, _, err := s.Adopt(t.Context(), id, []string{"a"})
		if err != nil || len(adopted) != 1 {
			t.Fatal(adopted, err)
		}
		for what, r := range map[string]Record{"found": found, "found with others": all[0], "adopted": adopted[0]} {
			if late := r.Placed.Sub(placed); late < 0 || late > 10*slowness {
				t.Errorf("%s: placed %v later", what, late)
			}
			if early := placed.Add(time.Minute).Sub(r.Until); early < 0 || early > 10*slowness {
				t.Errorf("%s: ends %v earlier", what, early)
			}
		}
	})
}

// A node that fails does not hide a lease that was lost at another node.
func TestRenewReportsLostLeasesBesideAFault(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		for i := range 8 { // the replies come in any order
			broken := identity(fmt.Sprint("broken ", i))
			must(t, s.db.Slow.Set(t.Context(), s.keys(broken).leases, "foreign", 0).Err())
			lost, err := s.Renew(t.Context(), []Ref{{id, "lost"}, {broken, "unknown"}})
			if !errors.Is(err, redisdb.ErrDown) || len(lost) != 1 || lost[0] != (Ref{id, "lost"}) {
				t.Fatalf("lost %v, %v", lost, err)
			}
		}
	})
}
