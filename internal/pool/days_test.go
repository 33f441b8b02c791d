package pool

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/redisdb/redistest"
)

// Days lists the figures of each of the last seven days, no matter which event a day begins with.
// The figures of all days add up to the total figures.
func TestDaysOfAnIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, id := idle(t, redistest.InBubble(t)), identity("days")
		if list := (&Stock{}).Days(time.Now()); len(list) != 0 {
			t.Errorf("%+v", list)
		}
		at := func(day int, clock time.Duration) { // day 0 is tomorrow
			midnight := time.Date(2026, 1, 3+day, 0, 0, 0, 0, time.UTC)
			time.Sleep(time.Until(midnight.Add(clock)))
		}
		want := map[string]Figures{}
		for day := range 12 {
			date := fmt.Sprintf("2026-01-%02d", 3+day)
			if day == 6 {
				continue // no caller came
			}
			at(day, time.Millisecond)
			if day%2 == 0 { // a landing is the first event
				stock(t, s, id, day+1, 0, time.Hour)
				take(t, s, Request{ID: id}, day)
				want[date] = Figures{Bought: int64(day) + 1, Solved: int64(day) + 1, Requests: int64(day), Hits: int64(day)}
				at(day, 23*time.Hour+59*time.Minute+59*time.Second)
				look(t, s, id)
				f := want[date]
				f.Expired++
				want[date] = f
			} else { // a miss is the first event
				if _, err := s.Take(t.Context(), Request{ID: id}); err == nil {
					t.Fatal("a token that nobody bought")
				}
				want[date] = Figures{Requests: 1, Misses: 1}
			}
			stock := look(t, s, id)
			list := stock.Days(time.Now())
			for i, d := range list {
				if d.Figures != want[d.Date] {
					t.Errorf("day %d: of %s %+v, want %+v", day, d.Date, d.Figures, want[d.Date])
				}
				if i > 0 && d.Date >= list[i-1].Date {
					t.Errorf("day %d: %s behind %s", day, d.Date, list[i-1].Date)
				}
			}
			if n := map[bool]int{true: min(day+1, 7), false: min(day, 6)}[day < 6]; len(list) != n {
				t.Errorf("day %d: %d days are told, want %d", day, len(list), n)
			}
		}
		noted := 0
		for field := range s.db.Slow.HGetAll(t.Context(), s.keys(id).stats).Val() {
			if _, is := dayOf(field); is {
				noted++
			}
		}
		if noted > 8 {
			t.Errorf("%d days are noted", noted)
		}
	})
}
