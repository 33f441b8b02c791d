package purchase

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/provider"
	"poold/internal/redisdb/redistest"
	"poold/internal/spool"
)

// A service answers with one token for two tasks. The first order lands it, the
// other one fails with the reason, by polling and by callback.
func TestATokenThatWasSoldBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		l := &ledger{}
		stock, err := pooltest.Open(pool.Options{Addresses: "redis://bubble", Dial: redis.Dial, Prefix: "repeated", Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = stock.Close() }()
		fake := newFakeProvider(l, "one")
		fake.poll = func(context.Context, int) (provider.Solution, error) {
			return provider.Solution{Token: "03AFthesame"}, nil
		}
		tasks := 0
		fake.submit = func(context.Context) (string, error) {
			tasks++
			return "t" + string(rune('0'+tasks)), nil
		}
		d := NewBuyer(stock, "no letters", witness{l}, quiet())
		d.SetProviders([]Entry{{Provider: fake, Concurrency: 5}})
		order := func() *Order { return mustPlace(t, d, spec()) }
		if r := d.orders.collect(t.Context(), order()); r.Err != nil {
			t.Fatal(r.Err)
		}
		l.forget()
		r := d.orders.collect(t.Context(), order())
		if r.Outcome != Failed || !strings.Contains(r.Err.Error(), pool.RepeatedText) {
			t.Errorf("the second order: %v", r.Err)
		}
		if all := strings.Join(l.all(), ", "); !strings.Contains(all, "login at one: failed") || strings.Contains(all, "solved") {
			t.Errorf("told: %s", all)
		}
		got, err := stock.Look(t.Context(), spec().ID, 0, 0)
		if f := got.Figures; err != nil || got.Fresh != 1 || got.Orders != 0 || f.Solved != 1 || f.Failed != 1 || f.Bought != 2 {
			t.Errorf("%+v, %v", got, err)
		}

		called := order()
		ended := make(chan Result, 1)
		go func() { ended <- d.orders.collect(t.Context(), called) }()
		time.Sleep(2 * time.Second) // before the first poll
		record, _, err := stock.Find(t.Context(), called.Ref)
		if err != nil {
			t.Fatal(err)
		}
		how, err := d.callbacks.deliver(t.Context(), spool.Letter{Order: called.String(), Provider: "one", Task: record.Task, Token: "03AFthesame"}, time.Now())
		if err != nil || how != CallbackFailed {
			t.Errorf("the callback: %v, %v", how, err)
		}
		if r := <-ended; r.Outcome != Failed || !strings.Contains(r.Err.Error(), pool.RepeatedText) {
			t.Errorf("the order of the callback: %v", r.Err)
		}
		if places, err := stock.Holders(t.Context(), "one"); err != nil || len(places) != 0 || d.slots()[0] != 0 {
			t.Errorf("left: %v, %v", places, err)
		}
	})
}
