package purchase

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Run replays dead letters when Redis is available again. A fault of the folder loses no letter. The
// log gets one line when the fault starts and one line when it ends.
func TestRunReplaysDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		folder := t.TempDir()
		s := newCallbackBuyer(t, folder)
		s.buyer.log = slog.New(slog.NewTextHandler(&logged, nil))
		s.stock.failSteps("look")
		ended := s.startCollecting(t, s.order(t))
		s.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t1&code=03AFcallback"))
		if err := os.WriteFile(filepath.Join(folder, strings.Repeat("0", 64)+".json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		stop := s.startRunning(t)
		// After this pause, the replay comes at 10 s, between two renewals. A renewal at the same time
		// could find that the order is gone before the message about its end arrives.
		time.Sleep(8500 * time.Millisecond)
		s.stock.failSteps()
		back := time.Now()
		if r := <-ended; r.Err != nil || time.Since(back) > replayEvery {
			t.Errorf("collect = %v, %v after redis was back", r.Err, time.Since(back))
		}
		if n := s.stock.tokens(); n != 1 {
			t.Errorf("%d tokens landed", n)
		}
		time.Sleep(replayEvery)
		stop()
		for what, want := range map[string]int{"cannot be read or removed": 1, "can be read and removed again": 1, "dead letters were replayed": 1} {
			if n := strings.Count(logged.String(), what); n != want {
				t.Errorf("%q was logged %d times:\n%s", what, n, logged.String())
			}
		}
	})
}
