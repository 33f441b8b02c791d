package purchase

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/permits"
	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// testRedis is the Redis of a test, which all its replicas share, and its weather.
type testRedis struct {
	*ledger
	t     *testing.T
	redis *redistest.Bubble

	mu sync.Mutex
	// fault is asked before each step; an error makes it fail unexecuted. Steps that
	// only read or renew are named "look" and what they look at.
	fault func(step string) error
	// lostReply is asked after each step was carried out; an error replaces its answer.
	lostReply func(step string) error
	placed    map[pool.Ref]pool.Order // as the buyers asked for them
	landings  []pool.Landing          // that the script carried out
	second    *pooltest.Store         // another replica; see other
}

// stock is one replica's store, with the real scripts. It writes the steps into the
// ledger and lets a test reach between the buyer and Redis; it judges nothing.
type stock struct {
	*testRedis
	*pooltest.Store
}

const testPrefix = "test"

func newTestRedis(t *testing.T, l *ledger) *testRedis {
	t.Helper()
	return &testRedis{ledger: l, t: t, redis: redistest.InBubble(t), placed: map[pool.Ref]pool.Order{}}
}

// open is another replica's store.
func (w *testRedis) open(ended func(pool.Ref, string)) *pooltest.Store {
	w.t.Helper()
	s, err := pooltest.Open(pool.Options{
		Addresses: "redis://bubble", Prefix: testPrefix, Log: quiet(), Dial: w.redis.Dial, OnEnded: ended,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// other is a replica that has no buyer.
func (w *testRedis) other() *pooltest.Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.second == nil {
		w.second = w.open(nil)
	}
	return w.second
}

// change lets a test change the weather while others look at it.
func (w *testRedis) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// away makes Redis fail at the steps that begin with one of the names.
func (w *testRedis) away(names ...string) {
	w.change(func() {
		w.fault = func(step string) error {
			for _, name := range names {
				if strings.HasPrefix(step, name) {
					return redisdb.ErrDown
				}
			}
			return nil
		}
	})
}

// weather asks one of the functions about a step.
func (w *testRedis) weather(which *func(string) error, step string) error {
	w.mu.Lock()
	ask := *which
	w.mu.Unlock()
	if ask == nil {
		return nil
	}
	return ask(step)
}

// carry carries a step out, as the weather allows.
func carry[T any](w *testRedis, step string, do func() (T, error)) (answer T, err error) {
	var none T
	if err := w.weather(&w.fault, step); err != nil {
		return none, err
	}
	if !strings.HasPrefix(step, "look") {
		w.add("%s", step)
	}
	answer, err = do()
	if lost := w.weather(&w.lostReply, step); lost != nil {
		return none, lost
	}
	return answer, err
}

// limited is carry for a step whose limit the buyer sets.
func limited[T any](ctx context.Context, w *testRedis, step string, do func() (T, error)) (T, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		w.t.Errorf("%s is a step without a limit", step)
	}
	return carry(w, step, do)
}

// silent is for a step that answers nothing but its error.
func silent(do func() error) func() (struct{}, error) {
	return func() (struct{}, error) { return struct{}{}, do() }
}

func (s *stock) Acquire(ctx context.Context, name string, order pool.Ref, limit int, ttl, answered time.Duration) (permits.Permit, error) {
	return limited(ctx, s.testRedis, "reserve", func() (permits.Permit, error) {
		return s.Store.Acquire(ctx, name, order, limit, ttl, answered)
	})
}

func (s *stock) GiveBack(ctx context.Context, name string, order pool.Ref) error {
	_, err := limited(ctx, s.testRedis, "release", silent(func() error { return s.Store.GiveBack(ctx, name, order) }))
	return err
}

func (s *stock) Standing(ctx context.Context, name string) (permits.Standing, error) {
	return limited(ctx, s.testRedis, "look standing", func() (permits.Standing, error) { return s.Store.Standing(ctx, name) })
}

func (s *stock) Release(ctx context.Context, name string, order pool.Ref) error {
	release := silent(func() error { return s.Store.Release(ctx, name, order) })
	if _, bounded := ctx.Deadline(); !bounded {
		_, err := carry(s.testRedis, "look sweep", release)
		return err
	}
	_, err := carry(s.testRedis, "release", release)
	return err
}

func (s *stock) Holders(ctx context.Context, name string) ([]pool.Ref, error) {
	return carry(s.testRedis, "look places", func() ([]pool.Ref, error) { return s.Store.Holders(ctx, name) })
}

func (s *stock) InFlight(ctx context.Context, names []string) ([]int, error) {
	return limited(ctx, s.testRedis, "inflight", func() ([]int, error) { return s.Store.InFlight(ctx, names) })
}

func (s *stock) Book(ctx context.Context, of pool.Budget, order pool.Ref, caps pool.Caps, notAfter pool.Moment) (time.Duration, error) {
	return limited(ctx, s.testRedis, inBudget("book", of), func() (time.Duration, error) {
		return s.Store.Book(ctx, of, order, caps, notAfter)
	})
}

func (s *stock) Refund(ctx context.Context, of pool.Budget, order pool.Ref) error {
	_, err := limited(ctx, s.testRedis, inBudget("refund", of), silent(func() error { return s.Store.Refund(ctx, of, order) }))
	return err
}

// inBudget names a step in a shared budget.
func inBudget(step string, of pool.Budget) string {
	if of == pool.Overall {
		return step
	}
	return step + " of " + string(of)
}

func (s *stock) Booked(ctx context.Context, of pool.Budget) (hour, day int, err error) {
	used, err := carry(s.testRedis, "look booked", func() (used [2]int, err error) {
		used[0], used[1], err = s.Store.Booked(ctx, of)
		return used, err
	})
	return used[0], used[1], err
}

func (s *stock) Place(ctx context.Context, o pool.Order) (pool.Placing, error) {
	return limited(ctx, s.testRedis, "place", func() (pool.Placing, error) {
		s.change(func() { s.placed[o.Ref] = o })
		return s.Store.Place(ctx, o)
	})
}

func (s *stock) Mark(ctx context.Context, order pool.Ref) (bool, error) {
	return limited(ctx, s.testRedis, "mark", func() (bool, error) { return s.Store.Mark(ctx, order) })
}

func (s *stock) Claim(ctx context.Context, name, task string, order pool.Ref, ttl time.Duration) (bool, error) {
	return limited(ctx, s.testRedis, "claim "+task, func() (bool, error) { return s.Store.Claim(ctx, name, task, order, ttl) })
}

func (s *stock) Submitted(ctx context.Context, order pool.Ref, task string) (bool, error) {
	return limited(ctx, s.testRedis, "store "+task, func() (bool, error) { return s.Store.Submitted(ctx, order, task) })
}

func (s *stock) Unknown(ctx context.Context, order pool.Ref, hold time.Duration) (bool, error) {
	return limited(ctx, s.testRedis, "unknown", func() (bool, error) { return s.Store.Unknown(ctx, order, hold) })
}

func (s *stock) Settle(ctx context.Context, l pool.Landing) (pool.Ending, error) {
	return limited(ctx, s.testRedis, "settle", func() (pool.Ending, error) {
		how, err := s.Store.Settle(ctx, l)
		if err == nil && how == pool.Ended {
			s.change(func() { s.landings = append(s.landings, l) })
		}
		return how, err
	})
}

func (s *stock) Fail(ctx context.Context, f pool.Failure) (pool.Ending, error) {
	return limited(ctx, s.testRedis, fmt.Sprintf("fail bought=%v", f.Bought), func() (pool.Ending, error) { return s.Store.Fail(ctx, f) })
}

func (s *stock) Find(ctx context.Context, order pool.Ref) (pool.Record, bool, error) {
	type answer struct {
		r     pool.Record
		there bool
	}
	a, err := limited(ctx, s.testRedis, "look find", func() (a answer, err error) {
		a.r, a.there, err = s.Store.Find(ctx, order)
		return a, err
	})
	return a.r, a.there, err
}

func (s *stock) FindAll(ctx context.Context, orders []pool.Ref) ([]pool.Record, error) {
	return carry(s.testRedis, "look find", func() ([]pool.Record, error) { return s.Store.FindAll(ctx, orders) })
}

func (s *stock) Adopt(ctx context.Context, id captcha.ID, orders []string) ([]pool.Record, []pool.Ref, error) {
	type answer struct {
		adopted []pool.Record
		gone    []pool.Ref
	}
	a, err := carry(s.testRedis, "look adopt", func() (a answer, err error) {
		a.adopted, a.gone, err = s.Store.Adopt(ctx, id, orders)
		return a, err
	})
	return a.adopted, a.gone, err
}

func (s *stock) Renew(ctx context.Context, orders []pool.Ref) ([]pool.Ref, error) {
	return carry(s.testRedis, "look renew", func() ([]pool.Ref, error) { return s.Store.Renew(ctx, orders) })
}

func (s *stock) LetGo(ctx context.Context, orders []pool.Ref) error {
	_, err := limited(ctx, s.testRedis, "let go", silent(func() error { return s.Store.LetGo(ctx, orders) }))
	return err
}

// key names a key of one identity.
func key(kind string, id captcha.ID) string { return testPrefix + ":" + kind + ":{" + string(id) + "}" }

// members are those of all sorted sets of a kind, whatever their time.
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

// counts is what is left in Redis.
func (w *testRedis) counts() (orders, places int) {
	w.t.Helper()
	return len(w.members("orders")), len(w.members("places"))
}

// holdsPlace reports whether an order has a place at a provider.
func (w *testRedis) holdsPlace(name string, order pool.Ref) bool {
	return slices.Contains(w.placesAt(name), order.String())
}

func (w *testRedis) placesAt(name string) []string {
	members, _ := w.redis.ZMembers(testPrefix + ":places:{" + name + "}") // none: no such key
	return members
}

// placeFor is how long an order still has its place.
func (w *testRedis) placeFor(name string, order pool.Ref) time.Duration {
	w.t.Helper()
	ends, err := w.redis.ZScore(testPrefix+":places:{"+name+"}", order.String())
	if err != nil {
		w.t.Fatalf("the place of %s: %v", order.Order, err)
	}
	return time.Until(time.UnixMilli(int64(ends)))
}

// booked are the orders in the overall budget.
func (w *testRedis) booked() []string { return w.bookedOf(pool.Overall) }

// bookedOf are the orders in a shared budget.
func (w *testRedis) bookedOf(of pool.Budget) []string {
	members, _ := w.redis.ZMembers(testPrefix + ":spend:{" + string(of) + "}") // none: no such key
	return members
}

func (w *testRedis) isBooked(order pool.Ref) bool { return slices.Contains(w.booked(), order.String()) }

// lease is how long an order still belongs to who works on it.
func (w *testRedis) lease(order pool.Ref) time.Duration {
	w.t.Helper()
	ends, err := w.redis.ZScore(key("leases", order.Identity), order.Order)
	if err != nil {
		w.t.Fatalf("the lease of %s: %v", order.Order, err)
	}
	return time.Until(time.UnixMilli(int64(ends)))
}

// tokens and failures are how many orders landed, and how many were bought and
// brought nothing.
func (w *testRedis) tokens() int   { return w.sum("solved") }
func (w *testRedis) failures() int { return w.sum("failed") }

func (w *testRedis) sum(name string) (n int) {
	for _, stats := range w.redis.Keys() {
		if strings.HasPrefix(stats, testPrefix+":stats:") {
			var one int
			_, _ = fmt.Sscan(w.redis.HGet(stats, name), &one) // none: 0
			n += one
		}
	}
	return n
}

// record is an order as the journal has it.
func (w *testRedis) record(order pool.Ref) pool.Record {
	w.t.Helper()
	r, there, err := w.other().Find(w.t.Context(), order)
	if err != nil || !there {
		w.t.Fatalf("finding %s: %v, %v", order.Order, there, err)
	}
	return r
}

// owner is the replica that an order belongs to.
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

// facts returns the stored facts of an order.
func (w *testRedis) facts(order pool.Ref) string {
	w.t.Helper()
	return strings.SplitN(w.line(order), "|", 7)[6]
}

// refact replaces what is written in the journal for an adopter.
func (w *testRedis) refact(order pool.Ref, facts string) {
	w.t.Helper()
	fields := strings.SplitN(w.line(order), "|", 7)
	fields[6] = facts
	w.redis.HSet(key("journal", order.Identity), order.Order, strings.Join(fields, "|"))
}

// endLease is what a replica does that renews nothing for a while.
func (w *testRedis) endLease(order pool.Ref) {
	w.t.Helper()
	if _, err := w.redis.ZAdd(key("leases", order.Identity), float64(time.Now().UnixMilli()), order.Order); err != nil {
		w.t.Fatal(err)
	}
}

// steal has the other replica adopt an order.
func (w *testRedis) steal(ctx context.Context, order pool.Ref) {
	w.t.Helper()
	w.endLease(order)
	got, _, err := w.other().Adopt(ctx, order.Identity, []string{order.Order})
	if err != nil || len(got) != 1 {
		w.t.Errorf("stealing %s: %+v, %v", order.Order, got, err)
	}
}

// landElsewhere has a callback at the other replica bring an order's token.
func (w *testRedis) landElsewhere(ctx context.Context, order pool.Ref) {
	w.t.Helper()
	how, err := w.other().Settle(ctx, pool.Landing{
		Ref: order, Provider: "one", Value: "03AFelsewhere", Callback: true, Lifetime: 2 * time.Minute,
	})
	if err != nil || how != pool.Ended {
		w.t.Errorf("landing %s elsewhere: %v, %v", order.Order, how, err)
	}
}

// claimElsewhere makes a task of the provider "one" another order's.
func (w *testRedis) claimElsewhere(task string) {
	w.t.Helper()
	another := pool.Ref{Identity: spec().ID, Order: "another"}
	if ok, err := w.other().Claim(w.t.Context(), "one", task, another, time.Hour); err != nil || !ok {
		w.t.Error(ok, err)
	}
}

// pauseElsewhere is an operator at the other replica.
func (w *testRedis) pauseElsewhere(id captcha.ID) {
	w.t.Helper()
	if err := w.other().Pause(w.t.Context(), id, pool.Pause{}); err != nil {
		w.t.Error(err)
	}
}

// forgetOrder makes Redis forget an order, as one without a file does when it starts anew.
func (w *testRedis) forgetOrder(order pool.Ref) {
	w.t.Helper()
	for _, kind := range []string{"orders", "leases"} {
		if _, err := w.redis.ZRem(key(kind, order.Identity), order.Order); err != nil {
			w.t.Error(err)
		}
	}
	w.redis.HDel(key("journal", order.Identity), order.Order)
}

// picture is all that is in Redis.
func (w *testRedis) picture() string { return w.redis.Dump() }

// landed are the landings that the script carried out for buyers of this test.
func (w *testRedis) landed() []pool.Landing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.landings)
}
