//go:build !race

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/history/redisstore"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// pair returns an order and a hand-out of this moment.
func pair(id string) []history.Row {
	return []history.Row{historytest.Order(id, time.Now()), historytest.Handout(id, time.Now())}
}

// Each key expires after the retention of its rows, counted from the last change.
func TestEachKeyExpires(t *testing.T) {
	db := openDB(t, redistest.Place{Addresses: "redis://" + redistest.Server(t)}, "p")
	s := redisstore.New(db, 100*time.Hour, 70*time.Hour)
	for _, id := range []string{"1", "2"} {
		testkit.NoError(t, s.Append(t.Context(), pair(id)))
		date := time.Now().UTC().Format(time.DateOnly)
		want := map[string]time.Duration{
			"p:orders:{history}:solved": 100 * time.Hour, "p:orders:{history}:site:site": 100 * time.Hour, "p:day:{history}:" +
				date: 100 * time.Hour, "p:handouts:{history}:key": 70 * time.Hour, "p:usage:{history}:" + date: 70 * time.Hour,
		}
		keys := db.Slow.Keys(t.Context(), "p:*").Val()
		for _, key := range keys {
			if left := db.Slow.PTTL(t.Context(), key).Val(); left > want[key] || left < want[key]-time.Minute {
				t.Errorf("%s expires in %v, want %v", key, left, want[key])
			}
			testkit.NoError(t, db.Slow.PExpire(t.Context(), key, time.Hour).Err()) // as if it were old
		}
		testkit.Equal(t, fmt.Sprintf("keys %q", keys), len(keys), len(want))
	}
}

// A list keeps its newest rows: 50 of a site, 1,000 of a status and 10,000 of a key. The figures count all.
func TestListsKeepTheNewest(t *testing.T) {
	s := redisstore.New(openDB(t, redistest.Place{Addresses: "redis://" + redistest.Server(t)}, "p"), week, week)
	began := time.Now().Add(-time.Minute)
	for batch := range 102 {
		var rows []history.Row
		for i := range history.MostBatch / 2 {
			n := 50*batch + i
			at := began.Add(time.Duration(n) * time.Millisecond)
			rows = append(rows, historytest.Order(fmt.Sprintf("%05d", n), at), historytest.Handout(fmt.Sprintf("%05d", 2*n), at),
				historytest.Handout(fmt.Sprintf("%05d", 2*n+1), at))
		}
		testkit.NoError(t, s.Append(t.Context(), rows))
	}
	for _, c := range []struct {
		by    history.By
		value string
		n     int
	}{{history.BySite, "site", 50}, {history.ByStatus, "solved", 1000}, {history.ByKey, "key", 10_000},
		{history.ByID, "00000", 0}, {history.ByID, "05000", 1}} {
		page, err := s.Find(t.Context(), history.Query{By: c.by, Value: c.value, Limit: 20_000})
		if err != nil || len(page.Rows) != c.n || page.More || c.n > 1 &&
			!strings.Contains(string(page.Rows[0]), map[bool]string{false: "05099", true: "10199"}[c.by == history.ByKey]) {
			t.Errorf("%s: %d rows, %v; want the newest %d", c.by, len(page.Rows), err, c.n)
		}
	}
	sums, err := s.Days(t.Context(), began)
	more, failed := s.Days(t.Context(), began.Add(time.Minute)) // perhaps of the next day
	if began.UTC().Day() != began.Add(time.Minute).UTC().Day() {
		sums = append(sums, more...)
	}
	var orders, taken int64
	for _, sum := range sums {
		taken += sum.Figures["taken"]
		if sum.Scope == history.ScopeTarget {
			orders += sum.Orders()
		}
	}
	if err != nil || failed != nil || orders != 5100 || taken != 10_200 {
		t.Errorf("%d orders, %d taken, %v, %v", orders, taken, err, failed)
	}
}

type call = func(context.Context, *redisstore.Lists) error

var calls = map[string]call{
	"Append": func(ctx context.Context, s *redisstore.Lists) error {
		return s.Append(ctx, pair("new"))
	},
	"Find": func(ctx context.Context, s *redisstore.Lists) error {
		_, err := s.Find(ctx, history.Query{By: history.ByTask, Value: "task", Limit: 1})
		return err
	},
	"Days": func(ctx context.Context, s *redisstore.Lists) error {
		_, err := s.Days(ctx, time.Now())
		return err
	},
}

// If Redis refuses any command of a call, the call fails with history.ErrDown. A refused Append changes nothing.
func TestCallsFailIfRedisRefusesACommand(t *testing.T) {
	for name, call := range calls {
		for n, more := 0, true; more; n++ {
			synctest.Test(t, func(t *testing.T) {
				redis := redistest.InBubble(t)
				s := redisstore.New(openDB(t, redistest.Place{Addresses: redistest.BubbleAddress, Dial: redis.Dial}, "faults"),
					week, week)
				testkit.NoError(t, s.Append(t.Context(), pair("old")))
				was, seen := redis.Dump(), 0
				var refused []string
				redis.SetAnswer(func(command string, _ []string) string {
					if seen++; seen <= n {
						return ""
					}
					refused = append(refused, command)
					return "-NOPERM this user has no permissions\r\n"
				})
				err := call(t.Context(), s)
				redis.SetAnswer(nil)
				if more = len(refused) > 0; more != errors.Is(err, history.ErrDown) || !more && err != nil {
					t.Errorf("%s, refused from command %d on (%v): %v", name, n, refused, err)
				}
				if more && redis.Dump() != was {
					t.Errorf("%s changed Redis without an answer:\n%s\nwas:\n%s", name, redis.Dump(), was)
				}
			})
		}
	}
}

// A value that cannot be read is an error, and no outage.
func TestMalformedValues(t *testing.T) {
	address := redistest.Server(t)
	s := redisstore.New(openDB(t, redistest.Place{Addresses: "redis://" + address}, "p"), week, week)
	redistest.Do(t, address, "ZADD", "p:orders:{history}:error", time.Now().UnixMilli(), "{")
	redistest.Do(t, address, "HSET", "p:day:{history}:"+time.Now().UTC().Format(time.DateOnly), "a", "1")
	for _, name := range []string{"Find", "Days"} {
		if err := calls[name](t.Context(), s); err == nil || errors.Is(err, history.ErrDown) ||
			!strings.Contains(err.Error(), "malformed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A row that is older than the retention is not found, even if its list still has a younger one. The next append
// removes it from its lists.
func TestListsForgetOldRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		db := openDB(t, redistest.Place{Addresses: redistest.BubbleAddress, Dial: redis.Dial}, "p")
		s := redisstore.New(db, 50*time.Hour, 60*time.Hour)
		for _, id := range []string{"old", "young"} {
			testkit.NoError(t, s.Append(t.Context(), pair(id)))
			time.Sleep(29 * time.Hour)
		}
		for q, want := range map[[2]string]int{{"sitekey", "site"}: 1, {"status", "solved"}: 1, {"id", "old"}: 0,
			{"id", "young"}: 1, {"key", "key"}: 2} {
			page, err := s.Find(t.Context(), history.Query{By: history.By(q[0]), Value: q[1], Limit: 9})
			if err != nil || len(page.Rows) != want {
				t.Errorf("%s: %d rows, %v; want %d", q, len(page.Rows), err, want)
			}
		}
		testkit.NoError(t, s.Append(t.Context(), pair("new")))
		for list, want := range map[string]int64{"orders:{history}:site:site": 2, "handouts:{history}:key": 3} {
			testkit.Equal(t, "rows in "+list, db.Slow.ZCard(t.Context(), "p:"+list).Val(), want)
		}
	})
}
