package pool

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// expire lets the lease of an order end now.
func expire(t *testing.T, s *replica, order Ref) {
	t.Helper()
	must(t, s.LetGo(t.Context(), []Ref{order}))
}

func testLeasesAndAdoption(t *testing.T, o Options) {
	o.Prefix = "leases"
	one, two, id := open(t, o), open(t, o), identity("lease")
	order := Ref{id, "a"}
	placeOrder(t, one, Order{Ref: order, Depth: 5, TTL: time.Minute, Price: PriceUnknown, Facts: Facts{Target: "what | the buyer says"}})
	expect(t, true)(one.Mark(t.Context(), order))
	expect(t, true)(one.Submitted(t.Context(), order, "task|4711"))

	// While the lease is good nobody else gets the order.
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
	// The old owner learns that it is not its own any more.
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

// A replica that was stopped for longer than its lease neither submits nor
// settles nor gives up what another one has taken over.
func testALostLeaseIsFenced(t *testing.T, o Options) {
	o.Prefix = "fence"
	one, two, id := open(t, o), open(t, o), identity("fence")
	order := Ref{id, "a"}
	place(t, one, id, "a")
	expire(t, one, order)
	if got, _, err := two.Adopt(t.Context(), id, []string{"a"}); err != nil || len(got) != 1 || got[0].State != Intent {
		t.Fatalf("adopting: %+v, %v", got, err)
	}
	if ok, err := one.Mark(t.Context(), order); err != nil || ok {
		t.Errorf("the old owner may submit: %v, %v", ok, err)
	}
	if how, err := one.Settle(t.Context(), Landing{Ref: order, Value: "x", Lifetime: time.Minute}); err != nil || how != Stolen {
		t.Errorf("the old owner settled: %v, %v", how, err)
	}
	for _, bought := range []bool{true, false} {
		if how, err := one.Fail(t.Context(), Failure{Ref: order, Bought: bought}); err != nil || how != Stolen {
			t.Errorf("the old owner gave up: %v, %v", how, err)
		}
	}
	if ok, err := two.Mark(t.Context(), order); err != nil || !ok {
		t.Errorf("the new owner may not submit: %v, %v", ok, err)
	}
	// Twice is once: the same command can arrive again.
	if ok, err := two.Mark(t.Context(), order); err != nil || !ok {
		t.Errorf("the mark cannot be repeated: %v, %v", ok, err)
	}
	// A submit of the old owner that was under way all the time brings a task
	// after all. Who knows it owns the order.
	if ok, err := one.Submitted(t.Context(), order, "1"); err != nil || !ok {
		t.Errorf("a task that became known late: %v, %v", ok, err)
	}
	if how, err := two.Fail(t.Context(), Failure{Ref: order, Bought: true}); err != nil || how != Stolen {
		t.Errorf("without the task: %v, %v", how, err)
	}
	if how, err := one.Settle(t.Context(), Landing{Ref: order, Value: "x", Lifetime: time.Minute}); err != nil || how != Ended {
		t.Errorf("with the task: %v, %v", how, err)
	}
	if ok, err := one.Mark(t.Context(), order); err != nil || ok {
		t.Errorf("an order that has ended may be submitted: %v, %v", ok, err)
	}
	if ok, err := one.Submitted(t.Context(), order, "1"); err != nil || ok {
		t.Errorf("an order that has ended got a task: %v, %v", ok, err)
	}
}

func testATaskHasOneOrder(t *testing.T, o Options) {
	s := open(t, o)
	a, b := Ref{identity("a"), "one"}, Ref{identity("b"), "two"}
	for _, step := range []struct {
		provider, task string
		order          Ref
		ok             bool
	}{{"p", "1", a, true}, {"p", "1", a, true}, {"p", "1", b, false}, {"q", "1", b, true}, {"p", "2", b, true}} {
		ok, err := s.Claim(t.Context(), step.provider, step.task, step.order, time.Minute)
		if err != nil || ok != step.ok {
			t.Errorf("%+v: %v, %v", step, ok, err)
		}
	}
}

func testUnknownOrders(t *testing.T, o Options) {
	o.Prefix = "unknown"
	one, two, id := open(t, o), open(t, o), identity("unknown")
	for _, name := range []string{"a", "b"} {
		order := Ref{id, name}
		place(t, one, id, name)
		expect(t, true)(one.Mark(t.Context(), order))
		// Its life is the order's where that is shorter.
		for _, step := range []struct{ hold, least, most time.Duration }{
			{time.Hour, 50 * time.Second, time.Minute}, {20 * time.Second, 50 * time.Second, time.Minute},
		} {
			expect(t, true)(one.Unknown(t.Context(), order, step.hold))
			if left := look(t, one, id).NextEnd; left < step.least || left > step.most {
				t.Errorf("held for %v: forgotten in %v", step.hold, left)
			}
		}
	}
	brief := Ref{identity("unknown for a moment"), "c"}
	place(t, one, brief.Identity, "c")
	expect(t, true)(one.Mark(t.Context(), brief))
	expect(t, true)(one.Unknown(t.Context(), brief, 10*time.Second))
	if left := look(t, one, brief.Identity).NextEnd; left < 5*time.Second || left > 10*time.Second {
		t.Errorf("forgotten in %v", left)
	}
	// Only who owned it could say so, and only of what was marked.
	place(t, one, id, "intent")
	place(t, one, id, "marked")
	expect(t, true)(one.Mark(t.Context(), Ref{id, "marked"}))
	if ok, err := one.Unknown(t.Context(), Ref{id, "intent"}, time.Minute); err != nil || ok {
		t.Errorf("an intent is of unknown fate: %v, %v", ok, err)
	}
	if ok, err := two.Unknown(t.Context(), Ref{id, "marked"}, time.Minute); err != nil || ok {
		t.Errorf("another replica's order is of unknown fate: %v, %v", ok, err)
	}
	for _, name := range []string{"intent", "marked"} {
		expect(t, Ended)(one.Fail(t.Context(), Failure{Ref: Ref{id, name}}))
	}
	got := look(t, one, id)
	if got.Orders != 2 || got.Unknown != 2 || got.Bought != 2 || got.Figures.Bought != 2 {
		t.Fatalf("two of unknown fate: %+v", got)
	}
	// Nobody needs to look after them, so nobody adopts them.
	// The lease of an order with an owner would have ended by then.
	shift(t, one, one.keys(id).leases, Lease+time.Second)
	if adopted, gone, err := two.Adopt(t.Context(), id, []string{"a", "b"}); err != nil || len(adopted)+len(gone) != 0 {
		t.Fatalf("adopted: %+v, %v, %v", adopted, gone, err)
	}
	if lost, err := one.Renew(t.Context(), []Ref{{id, "a"}, {id, "b"}}); err != nil || len(lost) != 2 {
		t.Errorf("renewed what is of unknown fate: lost %v, %v", lost, err)
	}
	// One becomes known after all, the other is lost when its time is over.
	expect(t, true)(one.Submitted(t.Context(), Ref{id, "a"}, "1"))
	if ok, err := one.Unknown(t.Context(), Ref{id, "a"}, time.Minute); err != nil || ok {
		t.Errorf("what is known became unknown: %v, %v", ok, err)
	}
	land(t, one, id, "a", 0, time.Minute)
	shift(t, one, one.keys(id).orders, 61*time.Second)
	got = look(t, one, id)
	if got.Orders != 0 || got.Unknown != 0 || got.Figures.Lost != 1 || got.Figures.Bought != 2 || got.Figures.Solved != 1 {
		t.Errorf("after its time: %+v", got)
	}
}

// listening waits until so many stores hear what is told to all replicas.
func listening(t *testing.T, s *replica, stores int64) {
	t.Helper()
	testkit.Within(t, 10*time.Second, "the stores listen", func() bool {
		var hear int64
		count := func(ctx context.Context, node redis.Cmdable) error {
			n, err := node.PubSubNumSub(ctx, s.db.Channel()).Result()
			hear += n[s.db.Channel()]
			return err
		}
		if cluster, ok := s.db.Slow.(*redis.ClusterClient); ok {
			var mu sync.Mutex
			return cluster.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
				mu.Lock()
				defer mu.Unlock()
				return count(ctx, node)
			}) == nil && hear >= stores
		}
		return count(t.Context(), s.db.Slow) == nil && hear >= stores
	})
}

func testCallbacksNeedNoLease(t *testing.T, o Options) {
	o.Prefix = "callbacks"
	type ending struct {
		order Ref
		how   string
	}
	ended := make(chan ending, 10)
	o.OnEnded = func(order Ref, how string) { ended <- ending{order, how} }
	one, id := open(t, o), identity("cb")
	o.OnEnded = nil
	two := open(t, o)
	listening(t, one, 2)
	for _, name := range []string{"a", "b"} {
		place(t, one, id, name)
		expect(t, true)(one.Mark(t.Context(), Ref{id, name}))
	}
	landing := Landing{Ref: Ref{id, "a"}, Provider: "p", Task: "9", Value: "v", Lifetime: time.Minute, Callback: true}
	expect(t, Ended)(two.Settle(t.Context(), landing))
	if how, err := two.Settle(t.Context(), landing); err != nil || how != Gone {
		t.Fatalf("twice: %v, %v", how, err)
	}
	expect(t, Ended)(two.Fail(t.Context(), Failure{Ref: Ref{id, "b"}, Bought: true, Callback: true, Tell: "refused CODE"}))
	// The replica that waits for them is told.
	for _, want := range []ending{{Ref{id, "a"}, Solved}, {Ref{id, "b"}, "refused CODE"}} {
		select {
		case got := <-ended:
			if got != want {
				t.Errorf("told of %+v, want %+v", got, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("not told of %+v", want)
		}
	}
	got := look(t, one, id)
	if got.Fresh != 1 || got.Figures.Bought != 2 || got.Figures.Solved != 1 || got.Figures.Failed != 1 || len(got.Leads) != 0 {
		t.Errorf("after both: %+v", got)
	}
	// A landing by polling wakes who waits for a token, and says nothing of callbacks.
	if _, err := two.Flush(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	waiter := parkOne(t, one, Request{ID: id, Wait: 20 * time.Second, MaxWaiting: 5})
	place(t, two, id, "c")
	land(t, two, id, "c", 0, time.Minute)
	<-waiter
	select {
	case got := <-ended:
		t.Errorf("told of %+v", got)
	default:
	}
}

// shift moves the moments in a zset into the past, so that a test can let time pass.
func shift(t *testing.T, s *replica, key string, by time.Duration) {
	t.Helper()
	entries, err := s.db.Slow.ZRangeWithScores(t.Context(), key, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		entry.Score -= float64(by.Milliseconds())
		must(t, s.db.Slow.ZAdd(t.Context(), key, entry).Err())
	}
}

func testBudgetsSlide(t *testing.T, o Options) {
	s, id := open(t, o), identity("budget")
	next := 0
	order := Order{Depth: 1000, TTL: time.Hour, PerHour: 3, PerDay: 5}
	put := func() Placing {
		t.Helper()
		next++
		order.Ref = Ref{id, "o" + strconv.Itoa(next)}
		got, err := s.Place(t.Context(), order)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	about := func(got Placing, want time.Duration) {
		t.Helper()
		if got.Placed || got.BudgetWait > want || got.BudgetWait < want-10*time.Second {
			t.Errorf("%+v, want a wait of %v", got, want)
		}
	}
	key := s.keys(id).spend
	for range 3 {
		if got := put(); !got.Placed {
			t.Fatalf("within the budget: %+v", got)
		}
	}
	// The same order again costs nothing more.
	order.Ref = Ref{id, "o3"}
	placeOrder(t, s, order)
	about(put(), time.Hour)
	// What was provably not bought comes back; what failed does not.
	expect(t, Ended)(s.Fail(t.Context(), Failure{Ref: Ref{id, "o3"}}))
	expect(t, Ended)(s.Fail(t.Context(), Failure{Ref: Ref{id, "o2"}, Bought: true}))
	if got := put(); !got.Placed {
		t.Fatalf("after a refund: %+v", got)
	}
	about(put(), time.Hour)
	shift(t, s, key, 40*time.Minute)
	about(put(), 20*time.Minute)
	shift(t, s, key, 21*time.Minute)
	if got := look(t, s, id); got.HourUsed != 0 || got.DayUsed != 3 {
		t.Errorf("used: %d, %d", got.HourUsed, got.DayUsed)
	}
	// The hour is over, the day is not.
	for range 2 {
		if got := put(); !got.Placed {
			t.Fatalf("in the next hour: %+v", got)
		}
	}
	about(put(), 24*time.Hour-61*time.Minute)
	// A lower limit waits for more than the oldest.
	order.PerDay = 3
	about(put(), 24*time.Hour-61*time.Minute)
	order.PerDay = 2
	about(put(), 24*time.Hour)
	// None is none.
	order.PerHour, order.PerDay = 0, 0
	if got := put(); !got.Placed {
		t.Fatalf("without a budget: %+v", got)
	}
}

// The guests' budget has caps for the hour and for the day, and is another one than
// the overall budget.
func testTheBudgetOfGuests(t *testing.T, o Options) {
	s := open(t, o)
	book := func(order string) time.Duration {
		t.Helper()
		wait, err := s.Book(t.Context(), OfGuests, Ref{identity(order), order}, Caps{PerHour: 2, PerDay: 3}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	used := func(of Budget, wantHour, wantDay int) {
		t.Helper()
		if hour, day, err := s.Booked(t.Context(), of); err != nil || hour != wantHour || day != wantDay {
			t.Errorf("%d and %d of %s used, %v; want %d and %d", hour, day, of, err, wantHour, wantDay)
		}
	}
	if book("one") != 0 || book("two") != 0 || book("two") != 0 {
		t.Fatal("within the budget")
	}
	if wait := book("three"); wait < 59*time.Minute || wait > time.Hour {
		t.Errorf("beyond the hour's: %v", wait)
	}
	if err := s.Refund(t.Context(), Overall, Ref{identity("two"), "two"}); err != nil {
		t.Error(err) // it is not in there, and stays in the other
	}
	used(OfGuests, 2, 2)
	shift(t, s, s.shared(OfGuests), 2*time.Hour)
	if book("three") != 0 {
		t.Error("in another hour")
	}
	used(OfGuests, 1, 3)
	used(Overall, 0, 0)
	if wait := book("four"); wait < 22*time.Hour-time.Minute || wait > 22*time.Hour {
		t.Errorf("beyond the day's: %v", wait)
	}
	if err := s.Refund(t.Context(), OfGuests, Ref{identity("three"), "three"}); err != nil {
		t.Error(err)
	}
	if book("four") != 0 {
		t.Error("after a refund")
	}
}

func testReports(t *testing.T, o Options) {
	o.Prefix = "reports"
	s, other, id := open(t, o), open(t, o), identity("report")
	order := Ref{id, "a"}
	place(t, s, id, "a")
	if how, err := s.Settle(t.Context(), Landing{
		Ref: order, Provider: "p", Task: "t|1", Value: "v", SincePlaced: -10 * time.Second, Lifetime: time.Minute,
	}); err != nil || how != Ended {
		t.Fatal(how, err)
	}
	token, err := s.Take(t.Context(), Request{ID: id, Caller: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	for _, forged := range []struct{ token, caller string }{
		{token.ID, "bob"}, {"a", "alice"}, {"a.", "alice"}, {"", "alice"}, {"b" + token.ID[1:], "alice"}, {token.ID + "x", "alice"},
	} {
		if _, err := s.Report(t.Context(), id, forged.token, forged.caller, true); !errors.Is(err, ErrUnknownToken) {
			t.Errorf("%+v: %v", forged, err)
		}
		if err := s.Sold(t.Context(), id, forged.token, forged.caller); !errors.Is(err, ErrUnknownToken) {
			t.Errorf("sold %+v: %v", forged, err)
		}
	}
	if err := other.Sold(t.Context(), identity("x"), token.ID, "alice"); !errors.Is(err, ErrUnknownToken) {
		t.Errorf("sold for another identity: %v", err)
	}
	if err := other.Sold(t.Context(), id, token.ID, "alice"); err != nil {
		t.Errorf("sold: %v", err)
	}
	// At the other replica, of another target, then right, then twice.
	if _, err := other.Report(t.Context(), identity("x"), token.ID, "alice", true); !errors.Is(err, ErrUnknownToken) {
		t.Errorf("for another identity: %v", err)
	}
	sale, err := other.Report(t.Context(), id, token.ID, "alice", false)
	if err != nil || sale.Provider != "p" || sale.Task != "t|1" || sale.Age < 10*time.Second || sale.Age > 15*time.Second {
		t.Errorf("%+v, %v", sale, err)
	}
	if _, err := s.Report(t.Context(), id, token.ID, "alice", true); !errors.Is(err, ErrReported) {
		t.Errorf("the second report: %v", err)
	}
	got := look(t, s, id)
	if got.Figures.Rejected != 1 || got.Figures.Accepted != 0 || len(got.Verdicts) != 1 || got.Verdicts[0] {
		t.Errorf("%+v", got)
	}
}

// A service that sells one text for several tasks is paid for one token: the other
// orders fail, at every replica, by polling and by callback, until the token dies,
// also if it was taken long ago.
func testATextSoldTwiceLandsOnce(t *testing.T, o Options) {
	o.Prefix = "repeated"
	ended := make(chan string, 10)
	o.OnEnded = func(_ Ref, how string) { ended <- how }
	one, id := open(t, o), identity("repeated")
	o.OnEnded = nil
	two, other := open(t, o), identity("not repeated")
	listening(t, one, 2)
	settle := func(s *replica, id captcha.ID, order string, callback bool) Ending {
		t.Helper()
		placeOrder(t, one, Order{Ref: Ref{id, order}, Depth: 100, TTL: time.Minute})
		how, err := s.Settle(t.Context(), Landing{
			Ref: Ref{id, order}, Value: "the same", Lifetime: 1500 * time.Millisecond, Callback: callback,
		})
		if err != nil {
			t.Fatal(err)
		}
		return how
	}
	began := time.Now()
	if how := settle(one, id, "a", false); how != Ended {
		t.Fatal(how)
	}
	take(t, one, Request{ID: id}, 1)
	for _, how := range []Ending{settle(one, id, "b", false), settle(two, id, "c", true)} {
		if how != Repeated && time.Since(began) < time.Second {
			t.Errorf("the same text landed again: %v", how)
		}
	}
	if how := <-ended; how != RepeatedText {
		t.Errorf("the other replica was told %q", how)
	}
	if how := settle(one, other, "d", false); how != Ended {
		t.Errorf("for another identity: %v", how)
	}
	got := look(t, one, id)
	if f := got.Figures; got.Fresh != 0 || got.Orders != 0 || f.Solved != 1 || f.Failed != 2 || f.Bought != 3 {
		t.Errorf("%+v", got)
	}
	balanced(t, got)
	// The text is not kept a second time.
	if hashes := one.db.Slow.ZRange(t.Context(), one.keys(id).values, 0, -1).Val(); len(hashes) != 1 || len(hashes[0]) != 32 {
		t.Errorf("kept: %v", hashes)
	}
	time.Sleep(time.Until(began.Add(1700 * time.Millisecond)))
	if how := settle(one, id, "e", false); how != Ended {
		t.Errorf("after its death: %v", how)
	}
}

// A token's name is the order's and an HMAC-SHA256 of order and caller, cut to 12
// bytes.
func TestNamesOfTokens(t *testing.T) {
	s := newTokenSigner("secret")
	for _, caller := range []string{"", "a", "key\x00nightly\x00"} {
		mac := hmac.New(sha256.New, []byte("secret"))
		_, _ = mac.Write([]byte("ORDER\x00" + caller))
		want := "ORDER." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:12])
		for range 2 {
			if got := s.name("ORDER", caller); got != want {
				t.Errorf("%q: %s, want %s", caller, got, want)
			}
		}
	}
}

func testFlushThrowsAway(t *testing.T, o Options) {
	s, id := open(t, o), identity("flush")
	stock(t, s, id, 2, 0, time.Minute)
	stock(t, s, id, 1, 50*time.Second, time.Minute)
	thrown, err := s.Flush(t.Context(), id, 20*time.Second)
	if err != nil || thrown != 2 {
		t.Fatalf("thrown: %d, %v", thrown, err)
	}
	got := look(t, s, id)
	if got.Fresh != 0 || got.Figures.Discarded != 2 || got.Figures.Expired != 1 {
		t.Errorf("%+v", got)
	}
	if thrown, err := s.Flush(t.Context(), id, 0); err != nil || thrown != 0 {
		t.Errorf("an empty stock: %d, %v", thrown, err)
	}
}

// Whatever happens, in whatever order, what was bought is somewhere.
func testTheLedgerBalances(t *testing.T, o Options) {
	o.Prefix = "ledger"
	one, two, id := open(t, o), open(t, o), identity("ledger")
	random := rand.New(rand.NewPCG(3, uint64(len(t.Name()))))
	var orders []Ref
	var held []Token
	pick := func() Ref {
		if len(orders) == 0 {
			return Ref{id, "none"}
		}
		return orders[random.IntN(len(orders))]
	}
	const price = 2_990_000
	for step := range 600 {
		s := one
		if random.IntN(2) == 0 {
			s = two
		}
		var err error
		switch random.IntN(14) {
		case 0, 1, 2:
			ref := Ref{id, "s" + strconv.Itoa(step)}
			orders = append(orders, ref)
			_, err = s.Place(t.Context(), Order{Ref: ref, Depth: 1000, TTL: time.Duration(random.IntN(400)+1) * time.Millisecond, Price: price, PerDay: 1e6})
		case 3, 4:
			_, err = s.Mark(t.Context(), pick())
		case 5:
			_, err = s.Submitted(t.Context(), pick(), "t")
		case 6:
			_, err = s.Unknown(t.Context(), pick(), 50*time.Millisecond)
		case 7, 8:
			_, err = s.Settle(t.Context(), Landing{
				Ref: pick(), Value: strconv.Itoa(random.IntN(1000)), Lifetime: time.Duration(random.IntN(800)) * time.Millisecond, Callback: random.IntN(2) == 0,
			})
		case 9:
			_, err = s.Fail(t.Context(), Failure{Ref: pick(), Bought: random.IntN(2) == 0, Callback: random.IntN(2) == 0})
		case 10, 11:
			token, takeErr := s.Take(t.Context(), Request{ID: id, Margin: 20 * time.Millisecond})
			if takeErr == nil {
				held = append(held, token)
			} else if !isEmpty(takeErr) {
				err = takeErr
			}
		case 12:
			if len(held) > 0 {
				err = s.Return(held[random.IntN(len(held))])
			}
		case 13:
			switch random.IntN(6) {
			case 0:
				_, err = s.Flush(t.Context(), id, 20*time.Millisecond)
			default:
				expire(t, s, pick())
				_, _, err = s.Adopt(t.Context(), id, []string{pick().Order})
			}
		}
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if step%20 == 0 {
			time.Sleep(10 * time.Millisecond) // some orders run out of time
			got := look(t, s, id)
			f := got.Figures
			if sum := f.Hits + f.Waited - f.Returned + f.Expired + f.Failed + f.Lost + f.Discarded +
				int64(got.Fresh+got.Bought); sum != f.Bought {
				t.Fatalf("step %d: bought %d, accounted for %d: %+v", step, f.Bought, sum, got)
			}
			if f.Spent != price*(f.Solved+f.Lost) {
				t.Fatalf("spent %d for %d solved and %d lost", f.Spent, f.Solved, f.Lost)
			}
		}
	}
	// On a slow machine every flush of the walk may have come too late for the tokens.
	stock(t, one, id, 1, 0, time.Minute)
	if _, err := two.Flush(t.Context(), id, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if f := look(t, one, id).Figures; f.Lost == 0 || f.Expired == 0 || f.Failed == 0 || f.Returned == 0 || f.Discarded == 0 {
		t.Errorf("the walk left something out: %+v", f)
	}
}

// go-redis sends a command again whose answer was lost. An end of an order and a
// report are answered as if they had come once, and happen once.
func testLostRepliesOfEndings(t *testing.T, o Options) {
	o.Prefix = "endings"
	plain := open(t, o)
	thief := redistest.NewThief(0.3, ":sold:")
	o.Dial = thief.Over(o.Dial)
	s, id := open(t, o), identity("endings")
	signer, err := plain.signing.signer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.signing.signer(t.Context()); err != nil {
		t.Fatal(err)
	}
	const rounds = 30
	for i := range rounds {
		landed, failed := Ref{id, fmt.Sprint("l", i)}, Ref{id, fmt.Sprint("f", i)}
		for _, ref := range []Ref{landed, failed} {
			placeOrder(t, s, Order{Ref: ref, Depth: 1000, TTL: time.Minute})
		}
		how, err := s.Settle(t.Context(), Landing{Ref: landed, Value: landed.Order, Lifetime: time.Minute})
		if err == nil && how != Ended {
			t.Errorf("settling %s: %v", landed, how)
		}
		if how, err := s.Fail(t.Context(), Failure{Ref: failed, Bought: true}); err == nil && how != Ended {
			t.Errorf("failing %s: %v", failed, how)
		}
		if _, err := s.Report(t.Context(), id, signer.name(landed.Order, "me"), "me", false); errors.Is(err, ErrReported) {
			t.Errorf("the first report on %s: %v", landed, err)
		}
	}
	if thief.Stolen() < rounds/2 {
		t.Errorf("only %d answers were lost", thief.Stolen())
	}
	if f := look(t, plain, id).Figures; f.Solved != rounds || f.Failed != rounds || f.Rejected != rounds {
		t.Errorf("after %d of each, %d answers lost: %+v", rounds, thief.Stolen(), f)
	}
}

// A step that Redis carries out when nobody waits for it any more does nothing.
func testLateStepsDoNothing(t *testing.T, o Options) {
	s, order := open(t, o), Ref{identity("late"), "a"}
	now, err := s.db.Slow.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	at := Moment(now.UnixMilli())
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

// After a failover between placing and submit the clock can be a little behind.
func TestAClockThatIsBehindAtTheMark(t *testing.T) {
	redis := miniredis.RunT(t)
	s, order := open(t, Options{Addresses: "redis://" + redis.Addr()}), Ref{identity("behind"), "a"}
	now := time.Now()
	redis.SetTime(now)
	place(t, s, order.Identity, order.Order)
	redis.SetTime(now.Add(-30 * time.Millisecond))
	expect(t, true)(s.Mark(t.Context(), order))
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
