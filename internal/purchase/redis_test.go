package purchase

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

func key(kind string, id captcha.ID) string { return testPrefix + ":" + kind + ":{" + string(id) + "}" }

// members returns the members of all sorted sets of a kind, including expired members.
func (w *testRedis) members(kind string) (members []string) {
	w.t.Helper()
	for _, name := range w.redis.Keys() {
		if strings.HasPrefix(name, testPrefix+":"+kind+":") {
			found, err := w.redis.ZMembers(name)
			if err != nil {
				w.t.Fatal(err)
			}
			members = append(members, found...)
		}
	}
	return members
}

// counts returns the number of orders and of permits in Redis.
func (w *testRedis) counts() (orders, places int) {
	w.t.Helper()
	return len(w.members("orders")), len(w.members("places"))
}

// hasPermit reports whether an order has a permit at a provider.
func (w *testRedis) hasPermit(name string, order pool.Ref) bool {
	return slices.Contains(w.permitsAt(name), order.String())
}

func (w *testRedis) permitsAt(name string) []string {
	members, _ := w.redis.ZMembers(testPrefix + ":places:{" + name + "}") // an error means that the key does not exist
	return members
}

// permitTTL returns the remaining time of an order's permit.
func (w *testRedis) permitTTL(name string, order pool.Ref) time.Duration {
	w.t.Helper()
	ends, err := w.redis.ZScore(testPrefix+":places:{"+name+"}", order.String())
	if err != nil {
		w.t.Fatalf("the permit of %s: %v", order.Order, err)
	}
	return time.Until(time.UnixMilli(int64(ends)))
}

// booked returns the orders with a reservation in the overall budget.
func (w *testRedis) booked() []string { return w.bookedOf(pool.Overall) }

// bookedOf returns the orders with a reservation in a shared budget.
func (w *testRedis) bookedOf(of pool.Budget) []string {
	members, _ := w.redis.ZMembers(testPrefix + ":spend:{" + string(of) + "}") // an error means that the key does not exist
	return members
}

func (w *testRedis) isBooked(order pool.Ref) bool { return slices.Contains(w.booked(), order.String()) }

// lease returns the remaining time of an order's lease.
func (w *testRedis) lease(order pool.Ref) time.Duration {
	w.t.Helper()
	ends, err := w.redis.ZScore(key("leases", order.Identity), order.Order)
	if err != nil {
		w.t.Fatalf("the lease of %s: %v", order.Order, err)
	}
	return time.Until(time.UnixMilli(int64(ends)))
}

// The method tokens returns the number of landed tokens. The method failures returns the number of
// bought orders that failed.
func (w *testRedis) tokens() int   { return w.sum("solved") }
func (w *testRedis) failures() int { return w.sum("failed") }

func (w *testRedis) sum(name string) (n int) {
	for _, stats := range w.redis.Keys() {
		if strings.HasPrefix(stats, testPrefix+":stats:") {
			var one int
			_, _ = fmt.Sscan(w.redis.HGet(stats, name), &one) // a missing field leaves 0
			n += one
		}
	}
	return n
}

func (w *testRedis) record(order pool.Ref) pool.Record {
	w.t.Helper()
	r, there, err := w.other().Find(w.t.Context(), order)
	if err != nil || !there {
		w.t.Fatalf("finding %s: %v, %v", order.Order, there, err)
	}
	return r
}

// owner returns the replica that has the lease of an order.
func (w *testRedis) owner(order pool.Ref) string {
	return strings.Split(w.line(order), "|")[2]
}

func (w *testRedis) line(order pool.Ref) string {
	w.t.Helper()
	line := w.redis.HGet(key("journal", order.Identity), order.Order)
	if line == "" {
		w.t.Fatalf("%s is not in the journal", order.Order)
	}
	return line
}

func (w *testRedis) facts(order pool.Ref) string {
	w.t.Helper()
	return strings.SplitN(w.line(order), "|", 7)[6]
}

// endLease ends an order's lease, as if no replica had renewed it.
func (w *testRedis) endLease(order pool.Ref) {
	w.t.Helper()
	if _, err := w.redis.ZAdd(key("leases", order.Identity), float64(time.Now().UnixMilli()), order.Order); err != nil {
		w.t.Fatal(err)
	}
}

// steal makes the other replica adopt an order.
func (w *testRedis) steal(ctx context.Context, order pool.Ref) {
	w.t.Helper()
	w.endLease(order)
	got, _, err := w.other().Adopt(ctx, order.Identity, []string{order.Order})
	if err != nil || len(got) != 1 {
		w.t.Errorf("stealing %s: %+v, %v", order.Order, got, err)
	}
}

// landElsewhere makes the other replica land an order's token, as a callback does.
func (w *testRedis) landElsewhere(ctx context.Context, order pool.Ref) {
	w.t.Helper()
	how, err := w.other().Settle(ctx, pool.Landing{
		Ref: order, Provider: "one", Value: "03AFelsewhere", Callback: true, Lifetime: 2 * time.Minute,
	})
	if err != nil || how != pool.Ended {
		w.t.Errorf("landing %s elsewhere: %v, %v", order.Order, how, err)
	}
}

// claimElsewhere claims a task of the provider "one" for another order.
func (w *testRedis) claimElsewhere(task string) {
	w.t.Helper()
	another := pool.Ref{Identity: spec().ID, Order: "another"}
	if ok, err := w.other().ClaimTask(w.t.Context(), "one", task, another, time.Hour); err != nil || !ok {
		w.t.Error(ok, err)
	}
}

// pauseElsewhere pauses an identity at the other replica.
func (w *testRedis) pauseElsewhere(id captcha.ID) {
	w.t.Helper()
	if err := w.other().Pause(w.t.Context(), id, pool.Pause{}); err != nil {
		w.t.Error(err)
	}
}

// forgetOrder removes an order from Redis, like a restart of Redis without persistence.
func (w *testRedis) forgetOrder(order pool.Ref) {
	w.t.Helper()
	for _, kind := range []string{"orders", "leases"} {
		if _, err := w.redis.ZRem(key(kind, order.Identity), order.Order); err != nil {
			w.t.Error(err)
		}
	}
	w.redis.HDel(key("journal", order.Identity), order.Order)
}

// dump returns the whole content of Redis.
func (w *testRedis) dump() string { return w.redis.Dump() }

// landed returns the landings that the settle script executed in this test.
func (w *testRedis) landed() []pool.Landing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.landings)
}
