package compatapi

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
)

// TestLostSubmitKeepsItsNumber: within lostFor after a lost reply, the next submission by the same
// caller with the same identity gets the same number.
func TestLostSubmitKeepsItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ss submits
		a, b := submitKey{"caller", "a"}, submitKey{"caller", "b"}
		lose := func(key submitKey, number string) {
			s := ss.begin(t.Context(), key)
			s.number = number
			ss.end(key, s, true)
		}
		lose(a, "1")
		if s := ss.begin(t.Context(), b); s.number != "" {
			t.Errorf("another identity got %s", s.number)
		} else {
			ss.end(b, s, false)
		}
		if s := ss.begin(t.Context(), submitKey{"other", "a"}); s.number != "" {
			t.Errorf("another caller got %s", s.number)
		} else {
			ss.end(submitKey{"other", "a"}, s, false)
		}
		// The reply to the repeated submission is also lost. The reply to the third submission arrives.
		for _, lost := range []bool{true, false} {
			s := ss.begin(t.Context(), a)
			if s.number != "1" {
				t.Errorf("got %q", s.number)
			}
			ss.end(a, s, lost)
		}
		lose(a, "2")
		time.Sleep(lostFor)
		s := ss.begin(t.Context(), a)
		if s.number != "" {
			t.Errorf("got %s after its time", s.number)
		}
		// A submission in flight does not delay equal submissions. If the client of the first submission
		// left, equal submissions wait for the number.
		leaving, leave := context.WithCancel(t.Context())
		first := ss.begin(leaving, b)
		other := ss.begin(t.Context(), b)
		leave()
		var repeated *submit
		go func() { repeated = ss.begin(t.Context(), b) }()
		synctest.Wait()
		if repeated != nil {
			t.Error("it did not wait for the number")
		}
		first.number = "3"
		ss.end(b, first, true)
		synctest.Wait()
		if repeated == nil || repeated.number != "3" {
			t.Errorf("it got %+v", repeated)
		}
		ss.end(a, s, false)
		ss.end(b, other, false)
		ss.end(b, repeated, false)
		// The number of kept submissions with a lost reply is limited.
		for i := range mostLost + 5 {
			lose(submitKey{"caller", captcha.ID(fmt.Sprint(i))}, "4")
		}
		if len(ss.of) != mostLost || ss.lost != mostLost {
			t.Errorf("%d identities and %d lost submits are kept", len(ss.of), ss.lost)
		}
		time.Sleep(lostFor)
		ss.end(a, ss.begin(t.Context(), a), false)
		if len(ss.of) != 0 || ss.lost != 0 {
			t.Errorf("%d identities and %d lost submits are kept when their time is over", len(ss.of), ss.lost)
		}
	})
}
