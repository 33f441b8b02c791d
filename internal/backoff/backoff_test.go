package backoff_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/backoff"
	"poold/internal/testkit"
)

// Pauses double from First to Most and spread over 50 % to 150 %.
func TestDoubling(t *testing.T) {
	d := backoff.Doubling{First: time.Second, Most: 5 * time.Second}
	for n, want := range []time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second,
		100: 5 * time.Second} {
		if want == 0 {
			continue
		}
		var seen []time.Duration
		for range 1000 {
			seen = append(seen, d.Pause(n))
		}
		least, most := slices.Min(seen), slices.Max(seen)
		if least < want/2 || most > want*3/2 || least > want*6/10 || most < want*14/10 {
			t.Errorf("after %d failures: %v to %v, want %v to %v", n, least, most, want/2, want*3/2)
		}
	}
}

func TestAround(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 500 {
		seen[backoff.Around(10, 0.2)] = true
	}
	testkit.DeepEqual(t, "around 10, by a fifth", slices.Sorted(maps.Keys(seen)), []time.Duration{8, 9, 10, 11, 12})
	testkit.Equal(t, "up to nothing", backoff.UpTo(0)+backoff.UpTo(-1), 0)
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := backoff.Sleep(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := backoff.Sleep(limited, time.Minute); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		testkit.ErrorIs(t, "without a pause", backoff.Sleep(limited, 0), context.DeadlineExceeded)
	})
}
