package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/purchase"
)

// books contains the sold orders and how each order ended.
type books struct {
	pool       *pool.Pool
	identities int
	sold       []sale
}

// sale describes one order that a test places and ends.
type sale struct {
	purchase.Purchase
	how history.How
}

// subject returns an order for the i-th identity.
func subject(i int) purchase.Purchase {
	types := captcha.Types()
	p := purchase.Purchase{
		Target: fmt.Sprint("target-", i%7), Owner: fmt.Sprint("owner-", i%3), Provider: "one",
		Identity: captcha.Identity{Type: types[i%len(types)], Sitekey: fmt.Sprint("site ", i), Pageurl: "https://example.com/"},
	}
	p.ID = p.Identity.ID()
	return p
}

// journal returns the order of a purchase. Each one has an account of its own, so that no account is braked.
func journal(p *purchase.Purchase) *pool.Order {
	return &pool.Order{
		Name: p.Order, ID: p.ID, Account: p.Order, Key: p.Order, Life: time.Hour, Concurrency: 1, Depth: 1 << 20,
		Price: p.Price,
	}
}

func text(p purchase.Purchase) string {
	row, _ := json.Marshal(p)
	return string(row)
}

// place stores an order, and says that its submit may have left.
func place(ctx context.Context, to *pool.Pool, p *purchase.Purchase) error {
	at, _, err := to.Place(ctx, journal(p))
	if err != nil {
		return err
	}
	p.Placed, p.Submitted = at, at
	_, err = to.Begin(ctx, p.Order, "nonce")
	return err
}

// end ends an order in Redis.
func end(ctx context.Context, at *pool.Pool, p purchase.Purchase, how history.How) error {
	if how != history.Refused {
		p.Task = "t" + p.Order
	}
	e := &pool.End{How: pool.How(how), Provider: p.Provider, Task: p.Task, Value: p.Order, Lifetime: time.Minute}
	e.Row = text(p)
	if how == history.Discarded { // its token comes too late
		e.How, e.Margin = pool.Solved, time.Hour
	}
	_, _, err := at.End(ctx, journal(&p), e)
	return err
}

// sell places orders and ends them with the scripts of package pool.
func sell(t *testing.T, address string, orders, identities int) *books {
	t.Helper()
	hows := []history.How{history.Solved, history.Failed, history.Refused, history.Lost, history.Discarded}
	b := &books{pool: poolOf(dbAt(t, address)), identities: identities}
	for i := range orders {
		s := sale{subject(i % identities), hows[(i+i/identities)%len(hows)]}
		s.Order, s.Price = fmt.Sprint("o", i), int64(1000+i)
		b.sold = append(b.sold, s)
	}
	b.forEach(t, func(ctx context.Context, s *sale) error { return place(ctx, b.pool, &s.Purchase) })
	b.forEach(t, func(ctx context.Context, s *sale) error { return end(ctx, b.pool, s.Purchase, s.how) })
	return b
}

// forEach calls the function do for each order, in eight goroutines.
func (b *books) forEach(t *testing.T, do func(ctx context.Context, s *sale) error) {
	t.Helper()
	var group sync.WaitGroup
	for part := range slices.Chunk(b.sold, (len(b.sold)+7)/8) {
		group.Go(func() {
			for i := range part {
				if err := do(t.Context(), &part[i]); err != nil {
					t.Errorf("%s: %v", part[i].how, err)
				}
			}
		})
	}
	group.Wait()
}

// rows returns all rows from Redis.
func (b *books) rows(t *testing.T) []pool.Row {
	t.Helper()
	rows, mine, err := b.pool.Rows(t.Context(), pool.Ends, len(b.sold)+1)
	if err != nil || !mine || len(rows) != len(b.sold) {
		t.Fatalf("%d rows of %d orders; %v, %v", len(rows), len(b.sold), mine, err)
	}
	if err := b.pool.Done(t.Context(), pool.Ends, nil); err != nil {
		t.Fatal(err)
	}
	return rows
}

// days returns the figures that a store must have, by date. The times of the ends come from the rows.
func (b *books) days(rows []pool.Row) map[string]history.Day {
	ended := map[string]time.Time{}
	for _, r := range rows {
		ended[r.Order] = r.At
	}
	days := map[string]history.Day{}
	for _, s := range b.sold {
		date := ended[s.Order].Format(time.DateOnly)
		if days[date].Types == nil {
			days[date] = history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
		}
		f := history.Record{How: s.how, Price: s.Price, Submitted: s.Submitted, Ended: ended[s.Order]}.Figures()
		owned := history.Owned{Target: s.Target, Owner: s.Owner}
		days[date].Types[s.Identity.Type] = days[date].Types[s.Identity.Type].Plus(f)
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
		want[history.OrderID(&s.Purchase)] = s.how
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
