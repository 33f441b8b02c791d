package pool

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
)

// The dates of the scripts agree with the calendar, at moments that differ from day to day.
func TestDatesAgreeWithTheCalendar(t *testing.T) {
	db := redis.NewClient(&redis.Options{Addr: redistest.Server(t)})
	defer func() { _ = db.Close() }()
	from, until := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2099, 12, 31, 0, 0, 0, 0, time.UTC)
	const body = `local all = {}
for moment = ARGV[1], ARGV[2], 43199999 do all[#all + 1] = date(moment) end
return table.concat(all, ' ')`
	text, err := db.Eval(t.Context(), link(head, body), nil, from.UnixMilli(), until.UnixMilli()).Text()
	if err != nil || len(text) < 800000 {
		t.Fatal(len(text), err)
	}
	at := from
	for got := range strings.FieldsSeq(text) {
		if want := at.Format(time.DateOnly); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		at = at.Add(43199999 * time.Millisecond)
	}
}

// Orders of several replicas at once never exceed the money of a day and of a month. Orders that cost nothing give it
// back, and a repetition of either step changes nothing. The money of the last month does not count.
func TestOrdersNeverExceedTheMoney(t *testing.T) {
	db := redis.NewClient(&redis.Options{Addr: redistest.Server(t)})
	defer func() { _ = db.Close() }()
	if left := time.Until(time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)); left < 30*time.Second {
		time.Sleep(left) // else the UTC day could end during the test
	}
	now, ctx := time.Now().UTC(), context.Background()
	const price, limit = 2_990_000, 50 * 2990
	db.HSet(ctx, "{p}:money:owner:qa:"+now.AddDate(0, 0, -now.Day()).Format("2006-01"), now.Format("02"), limit)
	var orders sync.WaitGroup
	var running, bought atomic.Int64
	replica := func(name string) *Pool {
		return New(Config{Slow: db, Fast: db, Prefix: "p", Replica: name, Log: slog.New(slog.DiscardHandler)})
	}
	for r := range 4 {
		p := replica(fmt.Sprint("r", r))
		for i := range 100 {
			orders.Go(func() {
				o := theOrder()
				o.Name, o.Price, o.Concurrency = fmt.Sprint(r, "-", i), price, 1000
				o.ID = captcha.ID(o.Name) // lost orders brake their identity
				o.Budgets = []Budget{{Scope: "owner:qa", MicrosPerDay: limit + 1}, {Scope: ScopeOverall, MicrosPerMonth: limit * 2}}
				for placed := 0; placed < 2; placed++ { // the second is a repetition
					if _, _, err := p.Place(ctx, o); err != nil {
						if bought.Load() == 50 {
							return
						}
						placed--
						time.Sleep(time.Millisecond)
					}
				}
				if n := running.Add(1); n > 50 {
					t.Errorf("%d orders have a reservation", n)
				}
				end := &End{Outcome: Lost}
				if i%2 == 0 {
					end.Outcome = Stopped
					running.Add(-1)
				} else {
					bought.Add(1)
				}
				for range 2 {
					if _, _, err := p.End(ctx, o, end); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	orders.Wait()
	totals, err := replica("r").Totals(ctx, "owner:qa", ScopeOverall)
	spent := totals.Spent
	n := bought.Load()
	want := Spending{Hour: int(n), Day: int(n), MoneyDay: 2990 * n, MoneyMonth: 2990 * n}
	if err != nil || spent["owner:qa"] != want || spent[ScopeOverall] != want || n != 50 {
		t.Errorf("%v spent, want %v %v", spent, want, err)
	}
}
