package pool

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/redisdb/redistest"
)

// hour reads the counts of the last hour in the same way as /status.json does.
func hour(t *testing.T, s *replica, q Query) []Period {
	t.Helper()
	q.Hour = true
	stocks, err := s.LookAll(t.Context(), []Query{q})
	if err != nil {
		t.Fatal(err)
	}
	return stocks[0].Hour(time.Now())
}

// Hour lists the counts of each minute of the last hour, including the counts that a look without
// Query.Hour added. The sum of these counts is the increase of the counters.
func TestTheLastHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, id := idle(t, redistest.InBubble(t)), identity("hour")
		midnight := time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
		at := func(minute int) {
			time.Sleep(time.Until(midnight.Add(time.Duration(minute)*time.Minute + time.Second)))
		}
		if list := hour(t, s, Query{ID: id}); len(list) != 0 {
			t.Errorf("of nothing: %+v", list)
		}
		look(t, s, id)
		miss := func(n int) {
			t.Helper()
			for range n {
				if _, err := s.Take(t.Context(), Request{ID: id}); err == nil {
					t.Fatal("a token that nobody bought")
				}
			}
		}
		want := func(minutes ...Period) {
			t.Helper()
			list := hour(t, s, Query{ID: id, Want: 7})
			if len(list) != len(minutes) {
				t.Fatalf("%+v, want %+v", list, minutes)
			}
			for i, m := range minutes {
				if list[i] != m {
					t.Errorf("%+v, want %+v", list[i], m)
				}
			}
		}
		misses := func(minute, n int) Period {
			return Period{At: midnight.Add(time.Duration(minute) * time.Minute), Figures: Figures{Requests: int64(n), Misses: int64(n)}, Want: 7}
		}
		at(0)
		miss(2)
		look(t, s, id) // a look of the refill, without the hour
		miss(1)
		want(misses(0, 3))
		at(1)
		stock(t, s, id, 1, 0, time.Hour)
		look(t, s, id) // at this look, the number of fresh tokens is lowest
		stock(t, s, id, 2, 0, time.Hour)
		take(t, s, Request{ID: id}, 1)
		first := Period{At: midnight.Add(time.Minute), Figures: Figures{Requests: 1, Hits: 1, Bought: 3, Solved: 3}, Fresh: 1, Want: 7}
		want(misses(0, 3), first)
		at(59)
		want(misses(0, 3), first)
		at(60)
		want(first)
		take(t, s, Request{ID: id}, 2)
		miss(4)
		last := Period{At: midnight.Add(60 * time.Minute), Figures: Figures{Requests: 6, Hits: 2, Misses: 4}, Want: 7}
		want(first, last)
		for minute := 61; minute < 200; minute++ {
			at(minute)
			miss(1)
			look(t, s, id)
		}
		if n := strings.Count(s.db.Slow.Get(t.Context(), s.keys(id).hour).Val(), "|"); n != 60 {
			t.Errorf("%d minutes are kept", n)
		}
		if list := hour(t, s, Query{ID: id}); len(list) != 60 || list[0].Figures != misses(140, 1).Figures {
			t.Errorf("%d minutes from %+v", len(list), list[0])
		}
	})
}

// LastDay lists the counts of the current UTC hour and of the 23 hours before it, even if no look
// came after the last minute with counts.
func TestTheLastDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, id := idle(t, redistest.InBubble(t)), identity("day")
		midnight := time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
		misses := func(n, want int) {
			t.Helper()
			for _, name := range []string{"requests", "misses"} {
				s.db.Slow.HIncrBy(t.Context(), s.keys(id).stats, name, int64(n))
			}
			if _, err := s.LookAll(t.Context(), []Query{{ID: id, Want: want}}); err != nil {
				t.Fatal(err)
			}
		}
		at := func(hour, minute int) {
			time.Sleep(time.Until(midnight.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)))
		}
		want := func(hours ...Period) {
			t.Helper()
			list, err := s.LastDay(t.Context(), id, time.Now())
			if err != nil || !slices.Equal(list, hours) {
				t.Errorf("%+v %v, want %+v", list, err, hours)
			}
		}
		hour := func(hour, n, want int) Period {
			return Period{At: midnight.Add(time.Duration(hour) * time.Hour), Figures: Figures{Requests: int64(n), Misses: int64(n)}, Want: want}
		}
		want()
		look(t, s, id)
		at(0, 0)
		misses(1, 3)
		misses(1, 4)
		want(hour(0, 2, 4))
		at(0, 59)
		misses(3, 5)
		misses(1, -1)
		want(hour(0, 6, 5))
		at(1, 0)
		misses(10, 6)
		at(9, 30)
		want(hour(0, 6, 5), hour(1, 10, 6))
		stock(t, s, id, 1, 0, 24*time.Hour)
		misses(0, 7)
		take(t, s, Request{ID: id}, 1)
		at(9, 31)
		misses(2, 8)
		ninth := Period{At: midnight.Add(9 * time.Hour), Figures: Figures{Requests: 3, Hits: 1, Misses: 2, Bought: 1, Solved: 1}, Want: 8}
		want(hour(0, 6, 5), hour(1, 10, 6), ninth)
		at(23, 59)
		want(hour(0, 6, 5), hour(1, 10, 6), ninth)
		at(24, 0)
		want(hour(1, 10, 6), ninth)
		for hour := 24; hour < 60; hour++ {
			at(hour, 1)
			misses(1, 9)
		}
		if list, err := s.LastDay(t.Context(), id, time.Now()); err != nil || len(list) != 24 || list[0] != hour(36, 1, 9) || list[23] != hour(59, 1, 9) {
			t.Errorf("%d hours from %+v %v", len(list), list[0], err)
		}
		if n := strings.Count(s.db.Slow.Get(t.Context(), s.keys(id).hours).Val(), "|"); n != 24 {
			t.Errorf("%d hours are kept", n)
		}
		at(59+23, 59)
		want(hour(59, 1, 9))
		at(59+24, 0)
		want()
	})
}
