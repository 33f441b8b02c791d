package pool_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// replica is a store on a Redis that contains a token, orders, an ended order and an idle guest.
type replica struct {
	*pool.Store

	redis  *redistest.Bubble
	log    *testkit.Log
	id     captcha.ID
	guest  captcha.ID
	sold   pool.Token // taken by the caller "c"
	order  pool.Ref   // in flight, without a lease
	intent pool.Ref   // placed by this replica
	ended  []pool.EndedOrder
}

const prefix = "test"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func identity(name string) captcha.ID {
	return captcha.Identity{Type: captcha.Turnstile, Sitekey: name}.ID()
}

// openIn opens a store that does not watch Redis and closes when the test ends.
func openIn(t testing.TB, redis *redistest.Bubble, log *slog.Logger) *pool.Store {
	t.Helper()
	s, err := pool.Open(pool.Options{Addresses: redistest.BubbleAddress, Prefix: prefix, Dial: redis.Dial, Log: log, Endings: 10})
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, goredis.ErrClosed) {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

// newReplica must be called inside a synctest bubble.
func newReplica(t testing.TB) *replica {
	t.Helper()
	ctx, redis, log := t.Context(), redistest.InBubble(t), &testkit.Log{}
	r := &replica{
		redis: redis, log: log, id: identity("target"), guest: identity("guest"),
		order: pool.Ref{Identity: identity("target"), Order: "order"}, intent: pool.Ref{Identity: identity("target"), Order: "intent"},
	}
	before := openIn(t, redis, slog.New(slog.DiscardHandler))
	place := func(by *pool.Store, order pool.Ref, guest bool) {
		t.Helper()
		if got, err := by.Orders.Place(ctx, pool.Order{Ref: order, Guest: guest, Depth: 99, TTL: 2 * time.Hour}); err != nil || !got.Placed {
			t.Fatal(got, err)
		}
	}
	must(t, before.Guests.Use(ctx, r.guest, pool.GuestUse{}))
	for _, id := range []captcha.ID{r.id, r.id, r.guest} {
		order := pool.Ref{Identity: id, Order: rand.Text()}
		place(before, order, id == r.guest)
		if got, err := before.Orders.Settle(ctx, pool.Landing{
			Ref: order, Provider: "p", Task: "t", Value: order.Order, Lifetime: time.Hour,
		}); err != nil || got != pool.Ended {
			t.Fatal(got, err)
		}
	}
	place(before, r.order, false)
	place(before, r.intent, false)
	must(t, before.Orders.ReleaseLeases(ctx, []pool.Ref{r.order}))
	var err error
	r.sold, err = before.Tokens.Take(ctx, pool.Request{ID: r.id, Caller: "c", Idempotency: "k"})
	must(t, err)
	_, err = before.Tokens.Take(ctx, pool.Request{ID: r.guest})
	must(t, err)
	guests, err := before.Endings.Kept(ctx, []captcha.ID{r.guest}, 1)
	must(t, err)
	must(t, before.Endings.Forget(ctx, guests))
	_, err = before.Tokens.FirstHolder(ctx, r.id, r.sold, "0")
	must(t, err)
	_, err = before.Orders.ClaimTask(ctx, "p", "task", pool.Ref{Identity: r.id, Order: "other"}, time.Hour)
	must(t, err)
	r.ended, err = before.Endings.Kept(ctx, []captcha.ID{r.id}, 1)
	must(t, err)
	_, err = redis.ZAdd(prefix+":placed", 1, string(identity("idle")))
	must(t, err)
	r.restart(t)
	return r
}

// restart replaces the store with a new store that has no cached state. Afterwards the guest is due
// for a check.
func (r *replica) restart(t testing.TB) {
	t.Helper()
	time.Sleep(2 * time.Minute)
	r.Store = openIn(t, r.redis, r.log.Logger())
}

// calls contains a call of each method that uses Redis.
var calls = map[string]func(ctx context.Context, r *replica) error{
	"Tokens.Take":   func(ctx context.Context, r *replica) error { return second(r.Tokens.Take(ctx, pool.Request{ID: r.id})) },
	"Tokens.Repeat": func(ctx context.Context, r *replica) error { return third(r.Tokens.Repeat(ctx, r.id, "k", "c")) },
	"Tokens.Bind":   func(ctx context.Context, r *replica) error { return r.Tokens.Bind(ctx, "k", r.id, time.Minute) },
	"Tokens.FirstHolder": func(ctx context.Context, r *replica) error {
		return second(r.Tokens.FirstHolder(ctx, r.id, r.sold, "0"))
	},
	"Tokens.TokenID": func(ctx context.Context, r *replica) error { return second(r.Tokens.TokenID(ctx, "order", "c")) },
	"Tokens.Sold":    func(ctx context.Context, r *replica) error { return r.Tokens.Sold(ctx, r.id, r.sold.ID, "c") },
	"Tokens.Report": func(ctx context.Context, r *replica) error {
		return second(r.Tokens.Report(ctx, r.id, r.sold.ID, "c", true))
	},
	"Tokens.Look":     func(ctx context.Context, r *replica) error { return second(r.Tokens.Look(ctx, r.id, 0, 0)) },
	"Tokens.LastLook": func(ctx context.Context, r *replica) error { return r.Tokens.LastLook(ctx, r.id, 0) },
	"Tokens.LastDay":  func(ctx context.Context, r *replica) error { return second(r.Tokens.LastDay(ctx, r.id, time.Now())) },
	"Tokens.LookAll": func(ctx context.Context, r *replica) error {
		return second(r.Tokens.LookAll(ctx, []pool.Query{{ID: r.id}}))
	},

	"Orders.Place": func(ctx context.Context, r *replica) error {
		return second(r.Orders.Place(ctx, pool.Order{Ref: pool.Ref{Identity: r.id, Order: "new"}, Depth: 99, TTL: time.Hour}))
	},
	"Orders.MarkSubmitting": func(ctx context.Context, r *replica) error { return second(r.Orders.MarkSubmitting(ctx, r.intent)) },
	"Orders.ClaimTask": func(ctx context.Context, r *replica) error {
		return second(r.Orders.ClaimTask(ctx, "p", "task", r.order, time.Minute))
	},
	"Orders.Submitted": func(ctx context.Context, r *replica) error { return second(r.Orders.Submitted(ctx, r.order, "task")) },
	"Orders.Unknown": func(ctx context.Context, r *replica) error {
		return second(r.Orders.Unknown(ctx, r.order, time.Minute))
	},
	"Orders.Settle": func(ctx context.Context, r *replica) error {
		return second(r.Orders.Settle(ctx, pool.Landing{Ref: r.order, Value: "v", Lifetime: time.Minute, Callback: true}))
	},
	"Orders.Fail": func(ctx context.Context, r *replica) error {
		return second(r.Orders.Fail(ctx, pool.Failure{Ref: r.order, Callback: true}))
	},
	"Orders.Remembers": func(ctx context.Context, r *replica) error { return second(r.Orders.Remembers(ctx, r.ended[0].Ref)) },
	"Orders.Find":      func(ctx context.Context, r *replica) error { return third(r.Orders.Find(ctx, r.order)) },
	"Orders.FindAll":   func(ctx context.Context, r *replica) error { return second(r.Orders.FindAll(ctx, []pool.Ref{r.order})) },
	"Orders.Adopt": func(ctx context.Context, r *replica) error {
		return third(r.Orders.Adopt(ctx, r.id, []string{"order"}))
	},
	"Orders.Renew": func(ctx context.Context, r *replica) error { return second(r.Orders.Renew(ctx, []pool.Ref{r.order})) },
	"Orders.ReleaseLeases": func(ctx context.Context, r *replica) error {
		return r.Orders.ReleaseLeases(ctx, []pool.Ref{r.order})
	},
	"Orders.Book": func(ctx context.Context, r *replica) error {
		return second(r.Orders.Book(ctx, pool.Overall, r.order, pool.Caps{PerDay: 9}, 0))
	},
	"Orders.Refund": func(ctx context.Context, r *replica) error { return r.Orders.Refund(ctx, pool.Overall, r.order) },
	"Orders.Booked": func(ctx context.Context, r *replica) error { return third(r.Orders.Booked(ctx, pool.Overall)) },

	"Controls.Pause":    func(ctx context.Context, r *replica) error { return r.Controls.Pause(ctx, r.id, pool.Pause{}) },
	"Controls.Resume":   func(ctx context.Context, r *replica) error { return r.Controls.Resume(ctx, r.id) },
	"Controls.Retry":    func(ctx context.Context, r *replica) error { return second(r.Controls.Retry(ctx, r.id)) },
	"Controls.Recall":   func(ctx context.Context, r *replica) error { return second(r.Controls.Recall(ctx, r.id)) },
	"Controls.Remember": func(ctx context.Context, r *replica) error { return r.Controls.Remember(ctx, r.id, []byte("x")) },
	"Controls.Flush":    func(ctx context.Context, r *replica) error { return second(r.Controls.Flush(ctx, r.id, 0)) },

	"Guests.Use":      func(ctx context.Context, r *replica) error { return r.Guests.Use(ctx, r.guest, pool.GuestUse{}) },
	"Guests.Count":    func(ctx context.Context, r *replica) error { return r.Guests.Count(ctx, 1, 1) },
	"Guests.Survey":   func(ctx context.Context, r *replica) error { return second(r.Guests.Survey(ctx)) },
	"Guests.HandOver": func(ctx context.Context, r *replica) error { return r.Guests.HandOver(ctx, []captcha.ID{r.guest}) },
	"Guests.Retire": func(ctx context.Context, r *replica) error {
		return second(r.Guests.Retire(ctx, func(captcha.ID) bool { return false }))
	},

	"Replicas.Heartbeat": func(ctx context.Context, r *replica) error { return third(r.Replicas.Heartbeat(ctx, time.Minute)) },
	"Replicas.Leave":     func(ctx context.Context, r *replica) error { return r.Replicas.Leave(ctx) },
	"Replicas.Share":     func(ctx context.Context, r *replica) error { return r.Replicas.Share(ctx, r.id, []byte("x")) },
	"Replicas.Shared":    func(ctx context.Context, r *replica) error { return second(r.Replicas.Shared(ctx, []captcha.ID{r.id})) },

	"Endings.Kept":   func(ctx context.Context, r *replica) error { return second(r.Endings.Kept(ctx, []captcha.ID{r.id}, 9)) },
	"Endings.Forget": func(ctx context.Context, r *replica) error { return r.Endings.Forget(ctx, r.ended) },
	"Endings.Sweep":  func(ctx context.Context, r *replica) error { return second(r.Endings.Sweep(ctx)) },
}

func second[A any](_ A, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }

// TestEveryMethodIsCalled: the map `calls` has an entry for each method of the parts of a Store.
func TestEveryMethodIsCalled(t *testing.T) {
	s := pool.Store{}
	for _, part := range []any{s.Tokens, s.Orders, s.Controls, s.Guests, s.Replicas, s.Endings} {
		of := reflect.TypeOf(part)
		for i := range of.NumMethod() {
			if name := of.Elem().Name() + "." + of.Method(i).Name; calls[name] == nil && name != "Tokens.Return" && name != "Tokens.Patience" { // neither calls Redis
				t.Errorf("calls lacks %s", name)
			}
		}
	}
}

// If Redis refuses any command of a call, the call fails with ErrDown. If Redis refuses all
// commands, the call changes nothing. The exception is PUBLISH: a refused announcement is not an
// error, because replicas also poll.
func TestCallsFailIfRedisRefusesACommand(t *testing.T) {
	for name, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			r := newReplica(t)
			for n, more := 0, true; more; n++ {
				r.restart(t)
				before, end := r.redis.Dump(), r.redis.RefuseFrom(n)
				err := call(t.Context(), r)
				refused := end()
				more = len(refused) > 0
				announced := !slices.ContainsFunc(refused, func(command string) bool { return command != "PUBLISH" })
				if announced && err != nil || !announced && !errors.Is(err, redisdb.ErrDown) {
					t.Errorf("%s, refused from command %d on (%v): %v", name, n, refused, err)
				}
				if n == 0 && r.redis.Dump() != before {
					t.Errorf("%s changed Redis without an answer:\n%s\nwas:\n%s", name, r.redis.Dump(), before)
				}
			}
		})
	}
}

// Without a connection, every call fails with ErrDown and changes nothing.
func TestCallsFailWithoutAConnection(t *testing.T) {
	for name, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			r := newReplica(t)
			before := r.redis.Dump()
			r.redis.SetDown(true)
			if err := call(t.Context(), r); !errors.Is(err, redisdb.ErrDown) {
				t.Errorf("%s: %v", name, err)
			}
			r.redis.SetDown(false)
			if r.redis.Dump() != before {
				t.Errorf("%s changed Redis", name)
			}
			time.Sleep(3 * time.Second) // until go-redis' goroutines end
		})
	}
}
