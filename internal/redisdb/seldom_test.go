package redisdb

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// For each name, a fact is written at most once within the time Every. A failed write is tried
// again. Expired names are dropped.
func TestSeldomWritesEachNameOnceWithinEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, failure := Seldom{Every: time.Hour}, errors.New("away")
		do := func(name string, fails error, want bool) {
			t.Helper()
			written := false
			err := s.Do(name, func(at time.Time) error {
				written = at.Equal(time.Now())
				return fails
			})
			if written != want || want && !errors.Is(err, fails) {
				t.Errorf("%s: written %v, %v; want %v", name, written, err, want)
			}
		}
		do("a", failure, true)
		do("a", nil, true)
		do("a", nil, false)
		do("b", nil, true)
		time.Sleep(time.Hour - time.Millisecond)
		do("a", nil, false)
		do("late", nil, true)
		time.Sleep(time.Millisecond)
		do("a", failure, true)
		do("a", nil, true)
		for i := range 1000 {
			do(strconv.Itoa(i), nil, true)
		}
		do("late", nil, false)
		do("a", nil, false)
		time.Sleep(time.Hour)
		do("late", nil, true)
		if n := len(s.last); n != 1 {
			t.Errorf("%d names are kept", n)
		}
	})
}
