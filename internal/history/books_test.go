package history_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
)

// books contains the sold orders and how each order ended.
type books struct {
	stock      *pool.Store
	identities int
	sold       []sale
}

// sale describes one order that a test places and ends.
type sale struct {
	pool.Ref
	about pool.Facts
	how   history.How
	price int64
	value string // value of the order's token
}

// subject returns the facts of the orders for the i-th identity.
func subject(i int) pool.Facts {
	types := captcha.Types()
	return pool.Facts{
		Target: fmt.Sprint("target-", i%7), Owner: fmt.Sprint("owner-", i%3), Provider: "one",
		Identity: captcha.Identity{Type: types[i%len(types)], Sitekey: fmt.Sprint("site ", i), Pageurl: "https://example.com/"},
	}
}

// sell places orders and ends them with the Redis scripts of package pool.
func sell(t *testing.T, address string, orders, identities int) *books {
	t.Helper()
	hows := []history.How{history.Solved, history.Failed, history.Refused, history.Lost, history.Discarded}
	b := &books{stock: stockAt(t, address), identities: identities}
	for i := range orders {
		about := subject(i % identities)
		b.sold = append(b.sold, sale{
			Ref:   pool.Ref{Identity: about.Identity.ID(), Order: fmt.Sprint("o", i)},
			about: about, how: hows[(i+i/identities)%len(hows)], price: int64(1000 + i), value: fmt.Sprint("token ", i),
		})
	}
	b.forEach(t, b.place)
	time.Sleep(5 * time.Millisecond) // the tokens of discarded orders expire
	b.forEach(t, b.end)
	time.Sleep(5 * time.Millisecond)                       // the deadlines of lost orders pass
	b.forEach(t, func(ctx context.Context, s sale) error { // a look drops the expired tokens and orders
		_, err := b.stock.Tokens.Look(ctx, s.Identity, 0, 0)
		return err
	})
	return b
}

// forEach calls the function do for each order, in eight goroutines.
func (b *books) forEach(t *testing.T, do func(ctx context.Context, s sale) error) {
	t.Helper()
	var group sync.WaitGroup
	for part := range slices.Chunk(b.sold, (len(b.sold)+7)/8) {
		group.Go(func() {
			for _, s := range part {
				if err := do(t.Context(), s); err != nil {
					t.Errorf("%s: %v", s.how, err)
				}
			}
		})
	}
	group.Wait()
}

func (b *books) place(ctx context.Context, s sale) error {
	placed, err := b.stock.Orders.Place(ctx, pool.Order{
		Ref: s.Ref, Depth: 1 << 20, TTL: time.Hour, Price: s.price, Facts: s.about,
	})
	if err != nil || !placed.Placed {
		return fmt.Errorf("placed %+v, %w", placed, err)
	}
	_, err = b.stock.Orders.MarkSubmitting(ctx, s.Ref)
	return err
}

func (b *books) end(ctx context.Context, s sale) error {
	landing := pool.Landing{Ref: s.Ref, Provider: "two", Task: "t" + s.Order, Value: s.value, Lifetime: time.Hour, Submitted: time.Millisecond}
	var err error
	switch s.how {
	case history.Discarded:
		landing.Lifetime = time.Millisecond
		fallthrough
	case history.Solved:
		_, err = b.stock.Orders.Settle(ctx, landing)
	case history.Failed, history.Refused:
		_, err = b.stock.Orders.Fail(ctx, pool.Failure{Ref: s.Ref, Bought: s.how == history.Failed, Asked: &pool.Asked{Provider: "two"}})
	default:
		_, err = b.stock.Orders.Unknown(ctx, s.Ref, time.Millisecond)
	}
	return err
}

// lines returns the ended orders of all identities from Redis.
func (b *books) lines(t *testing.T) (all []pool.EndedOrder) {
	t.Helper()
	ids := make([]captcha.ID, b.identities)
	for i := range ids {
		ids[i] = subject(i).Identity.ID()
	}
	for some := range slices.Chunk(ids, 100) {
		kept, err := b.stock.Endings.Kept(t.Context(), some, len(b.sold))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, kept...)
	}
	return all
}

// days returns the figures that a store must have, by date. The times come from the argument lines,
// which contains the ended orders.
func (b *books) days(t *testing.T, lines []pool.EndedOrder) map[string]history.Day {
	t.Helper()
	line := map[string]pool.EndedOrder{}
	for _, l := range lines {
		line[l.String()] = l
	}
	if len(lines) != len(b.sold) || len(line) != len(b.sold) {
		t.Fatalf("%d lines of %d orders, for %d sold", len(lines), len(line), len(b.sold))
	}
	days := map[string]history.Day{}
	for _, s := range b.sold {
		l := line[s.String()]
		date := l.Ended.Format(time.DateOnly)
		if days[date].Types == nil {
			days[date] = history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
		}
		f := history.Record{How: s.how, Price: s.price, Submitted: l.Submitted, Ended: l.Ended}.Figures()
		owned := history.Owned{Target: s.about.Target, Owner: s.about.Owner}
		days[date].Types[s.about.Identity.Type] = days[date].Types[s.about.Identity.Type].Plus(f)
		days[date].Targets[owned] = days[date].Targets[owned].Plus(f)
	}
	return days
}

// compare compares a store with the books: the figures of each day, and the one record of each order.
func (b *books) compare(t *testing.T, store history.Store, days map[string]history.Day) {
	t.Helper()
	for date, want := range days {
		at, err := time.Parse(time.DateOnly, date)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := store.Day(t.Context(), at); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%+v, want\n%+v", date, err, got, want)
		}
	}
	want := map[string]history.How{}
	for _, s := range b.sold {
		want[s.String()] = s.how
	}
	for i := range b.identities {
		page, err := store.Site(t.Context(), subject(i).Identity.Sitekey, history.Query{Limit: history.MostLimit})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			if how, once := want[r.ID]; !once || r.How != how {
				t.Errorf("%s is recorded as %s, want %q, once", r.ID, r.How, how)
			}
			delete(want, r.ID)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d orders have no record", len(want))
	}
}
