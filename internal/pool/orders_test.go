package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// expire ends the lease of an order immediately.
func expire(t *testing.T, s *replica, order Ref) {
	t.Helper()
	must(t, s.ReleaseLeases(t.Context(), []Ref{order}))
}

func testATaskHasOneOrder(t *testing.T, o Options) {
	s := open(t, o)
	a, b := Ref{identity("a"), "one"}, Ref{identity("b"), "two"}
	for _, step := range []struct {
		provider, task string
		order          Ref
		ok             bool
	}{{"p", "1", a, true}, {"p", "1", a, true}, {"p", "1", b, false}, {"q", "1", b, true}, {"p", "2", b, true}} {
		ok, err := s.ClaimTask(t.Context(), step.provider, step.task, step.order, time.Minute)
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
		expect(t, true)(one.MarkSubmitting(t.Context(), order))
		// The order keeps its deadline if the given time is longer. A second call changes nothing.
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
	expect(t, true)(one.MarkSubmitting(t.Context(), brief))
	expect(t, true)(one.Unknown(t.Context(), brief, 10*time.Second))
	if left := look(t, one, brief.Identity).NextEnd; left < 5*time.Second || left > 10*time.Second {
		t.Errorf("forgotten in %v", left)
	}
	// Only the owner may record that the outcome is unknown, and only after MarkSubmitting.
	place(t, one, id, "intent")
	place(t, one, id, "marked")
	expect(t, true)(one.MarkSubmitting(t.Context(), Ref{id, "marked"}))
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
	// No replica adopts these orders, because no replica could do anything for them. An ordinary
	// lease would have ended when the test had shifted its time like this.
	shift(t, one, one.keys(id).leases, Lease+time.Second)
	if adopted, gone, err := two.Adopt(t.Context(), id, []string{"a", "b"}); err != nil || len(adopted)+len(gone) != 0 {
		t.Fatalf("adopted: %+v, %v, %v", adopted, gone, err)
	}
	if lost, err := one.Renew(t.Context(), []Ref{{id, "a"}, {id, "b"}}); err != nil || len(lost) != 2 {
		t.Errorf("renewed what is of unknown fate: lost %v, %v", lost, err)
	}
	// The task of one order becomes known later. The other order is lost at its deadline.
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

// listening waits until the given number of stores listen to the channel.
func listening(t *testing.T, s *replica, stores int64) {
	t.Helper()
	testkit.Within(t, 20*time.Second, "the stores listen", func() bool {
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
		expect(t, true)(one.MarkSubmitting(t.Context(), Ref{id, name}))
	}
	landing := Landing{Ref: Ref{id, "a"}, Provider: "p", Task: "9", Value: "v", Lifetime: time.Minute, Callback: true}
	expect(t, Ended)(two.Settle(t.Context(), landing))
	if how, err := two.Settle(t.Context(), landing); err != nil || how != Gone {
		t.Fatalf("twice: %v, %v", how, err)
	}
	expect(t, Ended)(two.Fail(t.Context(), Failure{Ref: Ref{id, "b"}, Bought: true, Callback: true, Message: "refused CODE"}))
	// The callback is announced to the replica that owns the orders.
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
	// A landing by polling wakes the pending caller and does not call OnEnded.
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

// If a service sells one text for several tasks, only one token lands. Until this token dies, the
// other orders fail at every replica, by polling and by callback, even if the token was taken.
func testRepeatedTextsLandOnce(t *testing.T, o Options) {
	o.Prefix = "repeated"
	ended := make(chan string, 10)
	o.OnEnded = func(_ Ref, how string) { ended <- how }
	one, id := open(t, o), identity("repeated")
	o.OnEnded = nil
	two, other := open(t, o), identity("not repeated")
	listening(t, one, 2)
	settle := func(s *replica, id captcha.ID, order string, callback bool) EndResult {
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
	for _, how := range []EndResult{settle(one, id, "b", false), settle(two, id, "c", true)} {
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
	// The hash of the text is stored only once.
	if hashes := one.db.Slow.ZRange(t.Context(), one.keys(id).values, 0, -1).Val(); len(hashes) != 1 || len(hashes[0]) != 32 {
		t.Errorf("kept: %v", hashes)
	}
	time.Sleep(time.Until(began.Add(1700 * time.Millisecond)))
	if how := settle(one, id, "e", false); how != Ended {
		t.Errorf("after its death: %v", how)
	}
}

func testFlushDiscardsTheStock(t *testing.T, o Options) {
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

// After any events in any order, the equation in the comment of Figures holds.
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
			_, err = s.MarkSubmitting(t.Context(), pick())
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
			time.Sleep(10 * time.Millisecond) // some orders reach their deadline
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
	// On a slow machine, the tokens may have expired before each random Flush.
	stock(t, one, id, 1, 0, time.Minute)
	if _, err := two.Flush(t.Context(), id, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if f := look(t, one, id).Figures; f.Lost == 0 || f.Expired == 0 || f.Failed == 0 || f.Returned == 0 || f.Discarded == 0 {
		t.Errorf("the walk left something out: %+v", f)
	}
}

// go-redis retries a command whose reply was lost. A retried Settle, Fail or Report is executed
// once and gets the same answer.
func testEndingsSurviveLostReplies(t *testing.T, o Options) {
	o.Prefix = "endings"
	plain := open(t, o)
	thief := redistest.NewThief(0.3, ":sold:")
	o.Dial = thief.Over(o.Dial)
	s, id := open(t, o), identity("endings")
	signer, err := plain.secret.Signer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.secret.Signer(t.Context()); err != nil {
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
		if _, err := s.Report(t.Context(), id, signer.ID(landed.Order, "me"), "me", false); errors.Is(err, ErrReported) {
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
