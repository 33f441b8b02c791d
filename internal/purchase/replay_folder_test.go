package purchase

import (
	"bytes"
	"errors"
	"io/fs"
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

// A folder that cannot be read is logged once.
func TestAnUnreadableFolderIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		blocked := filepath.Join(t.TempDir(), "file")
		s := newCallbackBuyer(t, blocked)
		s.buyer.log = slog.New(slog.NewTextHandler(&logged, nil))
		for range 2 {
			if err := os.WriteFile(blocked, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				s.mustReplay(t, Replayed{})
			}
			if _, err := s.buyer.DeadLetters(); err == nil {
				t.Error("the list does not tell")
			}
			if err := os.Remove(blocked); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				s.mustReplay(t, Replayed{})
			}
		}
		for what, want := range map[string]int{"cannot be read or removed": 2, "can be read and removed again": 2} {
			if n := strings.Count(logged.String(), what); n != want {
				t.Errorf("%q was logged %d times:\n%s", what, n, logged.String())
			}
		}
	})
}

// If the folder cannot be opened, the start fails, and the error contains the folder's name.
func TestABlockedFolderStopsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(blocked, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s := newTestBuyerWith(t, 1, blocked)
		if err := s.buyer.OpenDeadLetters(); !errors.As(err, new(*fs.PathError)) || !strings.Contains(err.Error(), blocked) {
			t.Errorf("opening: %v", err)
		}
	})
}

func TestABrokenLetterDoesNotStopTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, strings.Repeat("0", 64)+".json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newTestBuyerWith(t, 1, folder)
		for range 2 {
			if err := s.buyer.OpenDeadLetters(); err != nil {
				t.Errorf("opening: %v", err)
			}
		}
		if n := s.buyer.DeadLettersSetAside(); n != 1 {
			t.Errorf("%d files are set aside", n)
		}
	})
}
