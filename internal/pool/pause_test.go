package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/redisdb/redistest"
)

// A pause stores its author and reason. A pause with an end lasts until that end, whatever the number
// of looks. A pause without an end does not expire.
func TestPausesKeepTheirCauseAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, id := idle(t, redistest.InBubble(t)), identity("paused")
		until := time.Now().Add(2 * time.Hour).Truncate(time.Millisecond)
		for _, p := range []Pause{
			{By: "nightly", Reason: "the page | is being <changed>", Until: until}, {By: "nightly", Until: until}, {}, {By: "a|b", Reason: "x"},
		} {
			must(t, s.Pause(t.Context(), id, p))
			got := look(t, s, id)
			if !got.Paused || got.Pause.By != p.By || got.Pause.Reason != p.Reason || !got.Pause.Until.Equal(p.Until) {
				t.Errorf("%v %+v, want %+v", got.Paused, got.Pause, p)
			}
		}
		time.Sleep(20 * 24 * time.Hour)
		look(t, s, id)
		time.Sleep(20 * 24 * time.Hour)
		if !look(t, s, id).Paused {
			t.Error("a pause without an end is over")
		}
		must(t, s.Pause(t.Context(), id, Pause{Until: time.Now().Add(time.Hour)}))
		for range 5 {
			time.Sleep(11 * time.Minute)
			got := look(t, s, id)
			if !got.Paused {
				t.Fatal("it is over too early")
			}
			if left := time.Until(got.Pause.Until); (got.Resumes - left).Abs() > time.Second {
				t.Errorf("it ends in %v, want %v", got.Resumes, left)
			}
		}
		time.Sleep(6 * time.Minute)
		if got := look(t, s, id); got.Paused || got.Pause != (Pause{}) {
			t.Errorf("after its end: %+v", got.Pause)
		}
	})
}
