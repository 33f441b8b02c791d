package outcomes

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// replica is one Book with its log.
type replica struct {
	*Book
	logged  strings.Builder
	changes atomic.Int64 // calls of onNewBest
}

// inBubble runs a test with several replicas, which share a Redis and the providers a (1 per 1000) and
// b (1.2 per 1000).
func inBubble(t *testing.T, replicas int, test func(t *testing.T, redis *redistest.Bubble, rs []*replica)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		var rs []*replica
		for range replicas {
			rs = append(rs, start(t, redis, provider("a", 0.001), provider("b", 0.0012)))
		}
		test(t, redis, rs)
	})
}

func start(t *testing.T, redis *redistest.Bubble, providers ...Provider) *replica {
	t.Helper()
	r := new(replica)
	log := slog.New(slog.NewTextHandler(&r.logged, nil))
	db, err := redisdb.Open(redisdb.Options{Addresses: redistest.BubbleAddress, Prefix: "test", Dial: redis.Dial, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	r.Book = New(db, func(captcha.Type) { r.changes.Add(1) }, log)
	r.SetProviders(providers)
	done := make(chan error, 1)
	go func() { done <- r.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = db.Close()
	})
	return r
}

func provider(name string, price float64) Provider {
	return Provider{Name: name, Price: func(captcha.Type) float64 { return price }}
}

// end adds the end of an order after a lead time of 10 s.
func (r *replica) end(provider string, outcome pool.How) {
	at := time.Now()
	r.Ended(purchase.Purchase{
		Identity: captcha.Identity{Type: captcha.HCaptcha}, Provider: provider, Outcome: outcome,
		Submitted: at.Add(-10 * time.Second), Solved: at,
	})
}

// chooses returns the provider of an order for the stock with the policy best.
func (r *replica) chooses() string {
	names := []string{"a", "b"}
	spec := &purchase.Spec{Identity: captcha.Identity{Type: captcha.HCaptcha}, Policy: Best, Afford: time.Minute, MissCost: 3}
	i, _ := r.Choose(spec, []purchase.Offer{{Provider: "a", Price: 0.001, Slots: 9}, {Provider: "b", Price: 0.0012, Slots: 9}})
	return names[i]
}

// The ends of orders at one replica change the choice of every replica, also of one that starts later.
func TestReplicasShareTheirOutcomes(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, redis *redistest.Bubble, rs []*replica) {
		for i := range 60 {
			rs[i%2].end("a", pool.Solved)
			rs[i%2].end("b", pool.Solved)
			time.Sleep(time.Second)
		}
		for _, r := range rs {
			if got := r.chooses(); got != "a" {
				t.Errorf("chooses %s while a is cheaper and both solve", got)
			}
		}
		for range 20 {
			rs[0].end("a", pool.Failed)
			time.Sleep(time.Second)
		}
		for range 20 {
			rs[1].end("b", pool.Solved)
			time.Sleep(time.Second)
		}
		time.Sleep(2 * newsFor)
		late := start(t, redis, provider("a", 0.001), provider("b", 0.0012))
		time.Sleep(2 * time.Second)
		for i, r := range append(rs, late) {
			if n := r.changes.Load(); i < 2 && n != 10 {
				t.Errorf("replica %d: %d calls of onNewBest, want one a second for 10 s", i, n)
			}
			if got := r.chooses(); got != "b" {
				t.Errorf("replica %d chooses %s after 20 failures of a", i, got)
			}
			changes := r.Changes()
			if len(changes) != 1 || changes[0].From != "a" || changes[0].To != "b" || !strings.HasPrefix(changes[0].Reason, "a: ") ||
				!strings.Contains(changes[0].Reason, "% of hcaptcha unsolved in the last") {
				t.Errorf("replica %d: %+v", i, changes)
			}
		}
		if !strings.Contains(rs[0].logged.String(), "another provider gets the most orders") || late.logged.Len() > 0 {
			t.Errorf("logged %q and, by a replica that started later, %q", rs[0].logged.String(), late.logged.String())
		}
	})
}

// The orders of an identity avoid a provider that refused its parameters. Other identities do not.
func TestARefusalConcernsItsIdentity(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *redistest.Bubble, rs []*replica) {
		r := rs[0]
		chooses := func(identity string) int {
			spec := &purchase.Spec{Identity: captcha.Identity{Type: captcha.HCaptcha}, Policy: Cheapest, ID: captcha.ID(identity)}
			i, _ := r.Choose(spec, []purchase.Offer{{Provider: "a", Price: 1}, {Provider: "b", Price: 2}})
			return i
		}
		refuse := func(provider string) {
			r.Ended(purchase.Purchase{ID: "wrong", Identity: captcha.Identity{Type: captcha.HCaptcha}, Provider: provider, Outcome: pool.Hopeless})
		}
		refuse("a")
		if chooses("wrong") != 1 || chooses("right") != 0 {
			t.Errorf("the refused identity chooses %d, another one %d", chooses("wrong"), chooses("right"))
		}
		refuse("b")
		if chooses("wrong") != 0 {
			t.Error("after the refusals of all providers the policy does not decide")
		}
		time.Sleep(avoidFor + time.Second)
		refuse("b")
		if chooses("wrong") != 0 {
			t.Error("the refusal counts for ever")
		}
		if rows := r.Rows(time.Now()); len(rows) != 0 {
			t.Errorf("refusals count in %+v", rows)
		}
	})
}

// Rows show the share of the orders, the cost and the figures of each provider.
func TestRows(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *redistest.Bubble, rs []*replica) {
		r := rs[0]
		for i := range 40 {
			r.end("a", pool.Solved)
			r.Reported("a", captcha.HCaptcha, "tests", i%2 == 0)
			if i%4 == 0 {
				r.end("b", pool.Solved)
				r.end("b", pool.Busy) // not an outcome of the provider's work
			}
		}
		time.Sleep(2 * time.Second)
		rows := r.Rows(time.Now())
		if len(rows) != 2 {
			t.Fatalf("%+v", rows)
		}
		a, b := rows[0], rows[1]
		if a.Provider != "a" || a.Type != captcha.HCaptcha || a.Share < 0.79 || a.Share > 0.81 || b.Share < 0.19 || b.Share > 0.21 {
			t.Errorf("shares of %+v and %+v, want 0.8 and 0.2", a, b)
		}
		if a.Accepted < 0.45 || a.Accepted > 0.6 || a.Cost < 0.0016 || a.Cost > 0.0023 || b.Reports != 0 || b.Cost > 0.0013 {
			t.Errorf("%+v, %+v", a, b)
		}
		if a.LeadP50 < 9*time.Second || a.LeadP50 > 11*time.Second {
			t.Errorf("lead %v, want 10s", a.LeadP50)
		}
	})
}

// With one provider, or for a provider that is not in the file, nothing is written to Redis.
func TestOneProviderWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		one, two := start(t, redis, provider("a", 1)), start(t, redis, provider("a", 1), provider("b", 1))
		one.end("a", pool.Solved)
		one.Reported("a", captcha.HCaptcha, "tests", true)
		two.end("removed", pool.Solved)
		time.Sleep(3 * time.Second)
		if keys := redis.Keys(); len(keys) > 0 {
			t.Errorf("keys %v", keys)
		}
		if rows := one.Rows(time.Now()); rows != nil {
			t.Errorf("rows %+v", rows)
		}
	})
}

// While Redis is away, the estimates stay as they are; later entries count again.
func TestRedisAway(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, redis *redistest.Bubble, rs []*replica) {
		r := rs[0]
		r.end("a", pool.Solved)
		time.Sleep(2 * time.Second)
		redis.SetDown(true)
		r.end("a", pool.Failed)
		time.Sleep(20 * time.Second)
		redis.SetDown(false)
		time.Sleep(10 * time.Second)
		r.end("b", pool.Solved)
		time.Sleep(5 * time.Second)
		if rows := r.Rows(time.Now()); len(rows) != 2 || rows[0].Solved <= 0.9 || rows[1].Ended != 1 {
			t.Errorf("%+v", rows)
		}
	})
}

// Another program's value under a stream's key, and foreign entries of a stream, change nothing.
func TestForeignValues(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, redis *redistest.Bubble, rs []*replica) {
		r := rs[0]
		if err := redis.Set("test:outcomes:{a}:hcaptcha", "text"); err != nil {
			t.Fatal(err)
		}
		for _, fields := range [][]string{{"solved", "yes"}, {"accepted", "1"}, {"x", "y"}} {
			if _, err := redis.XAdd("test:outcomes:{b}:hcaptcha", "*", fields); err != nil {
				t.Fatal(err)
			}
		}
		r.end("a", pool.Solved)
		time.Sleep(3 * time.Second)
		r.end("b", pool.Solved)
		time.Sleep(3 * time.Second)
		if rows := r.Rows(time.Now()); len(rows) != 1 || rows[0].Provider != "b" || rows[0].Ended != 1 {
			t.Errorf("%+v", rows)
		}
	})
}
