package purchase

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/provider"
	"poold/internal/redisdb"
)

// mustReplay replays the dead letters and checks the result.
func (s *testBuyer) mustReplay(t *testing.T, want Replayed) {
	t.Helper()
	got, err := s.buyer.Replay(t.Context())
	if err != nil || got != want {
		t.Errorf("replay = %+v, %v, want %+v", got, err, want)
	}
	if n := s.buyer.DeadLetterCount(); n != want.Left {
		t.Errorf("%d letters are counted, want %d", n, want.Left)
	}
}

// Whichever step fails in Redis, the provider gets a success response, and the dead letter ends the
// order later. The token's age is counted from the first arrival of the callback.
func TestACallbackInAnOutageBecomesADeadLetter(t *testing.T) {
	const token, code = "id=t1&code=03AFcallback", "id=t1&code=ERROR_CAPTCHA_UNSOLVABLE"
	for name, c := range map[string]struct {
		step, text string
		lost       bool // the submit had no answer, so the task is unknown
	}{
		"at find":              {"look", token, false},
		"at settle":            {"settle", token, false},
		"at claim":             {"claim", token, true},
		"at fail":              {"fail", code, false},
		"at find, for a fault": {"look", code, false},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newCallbackBuyer(t, filepath.Join(t.TempDir(), "letters"))
			if c.lost {
				s.provider.submit = func(context.Context) (string, error) {
					return "", &provider.Error{Class: provider.Capacity, Code: "EOF", Unknown: true}
				}
			}
			ended := s.startCollecting(t, s.order(t))
			time.Sleep(15 * time.Second)
			before := s.stock.dump()
			s.stock.failSteps(c.step)
			s.forget()
			s.mustCall(t, callbackTo(s.provider.submitted.Pingback, c.text))
			s.mustCall(t, callbackTo(s.provider.submitted.Pingback, c.text)) // services repeat callbacks
			if got := s.all(); got[len(got)-1] != "callback kept" || s.buyer.DeadLetterCount() != 1 {
				t.Fatalf("what happened: %q, %d letters", got, s.buyer.DeadLetterCount())
			}
			if after := s.stock.dump(); after != before {
				t.Errorf("redis was changed:\n%s\nto:\n%s", before, after)
			}
			time.Sleep(17 * time.Second)
			s.stock.failSteps()
			s.forget()
			s.mustReplay(t, Replayed{Replayed: 1})
			r := <-ended
			got := s.all()
			if c.text == code {
				if r.Outcome != Failed || s.stock.failures() != 1 {
					t.Errorf("collect = %v, %d failed", r.Err, s.stock.failures())
				}
				s.want(t, "fail bought=true", "release", "login at one: failed", "letter replayed")
			} else {
				if l := s.stock.landed(); len(l) != 1 || l[0].SincePlaced != 5*time.Second || l[0].Lead != 15*time.Second || l[0].Task != "t1" {
					t.Errorf("landed %+v, want it born 10s before it arrived after 15s", l)
				}
				if wanted := map[bool]Outcome{true: Lost, false: Solved}[c.lost]; r.Outcome != wanted {
					t.Errorf("collect = %+v, want %v", r, wanted)
				}
				if got[len(got)-1] != "letter replayed" {
					t.Errorf("what happened: %q", got)
				}
			}
			s.wantLeft(t, 0, 0, 0)
			s.mustReplay(t, Replayed{})
		})
	}
}

// If Redis' reply is lost, the token lands once, and the dead letter has no effect.
func TestACallbackWithALostReplyLandsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, t.TempDir())
		o := s.order(t)
		s.stock.lostReply = loseAnswer("settle", redisdb.ErrDown)
		s.mustCall(t, callbackTo(o.address(), "code=03AFcallback"))
		s.stock.lostReply = nil
		s.mustReplay(t, Replayed{Dropped: 1})
		if s.stock.tokens() != 1 {
			t.Errorf("%d tokens", s.stock.tokens())
		}
		s.want(t, "settle", "callback kept", "release", "letter dropped")
	})
}

// The provider must retry only if neither Redis nor the disk stored the callback.
func TestACallbackThatIsNotStoredIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(blocked, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s := newCallbackBuyer(t, blocked)
		o := s.order(t)
		c := callbackTo(o.address(), "code=03AFcallback")
		s.stock.failSteps("look")
		if err := s.buyer.Callback(t.Context(), c); !errors.Is(err, ErrNotKept) {
			t.Errorf("callback = %v, want ErrNotKept", err)
		}
		s.stock.failSteps()
		s.mustCall(t, c)
		s.want(t, "callback refused", "settle", "release", "login at one: solved", "callback settled")
	})
}

// A dead letter is kept for the lifetime of the identity's tokens. After that it is removed without a
// call to Redis, so that it cannot stop other letters.
func TestDeadLettersExpire(t *testing.T) {
	for name, c := range map[string]struct {
		foreign bool // the buyer that has the letter has never placed an order for this identity
		life    time.Duration
	}{"a known life": {false, 120 * time.Second}, "an unknown life": {true, 24 * time.Hour}} {
		runBubble(t, name, func(t *testing.T) {
			s := newCallbackBuyer(t, t.TempDir())
			o := s.order(t)
			keeper := s
			if c.foreign {
				keeper = s.replica(t.TempDir())
				keeper.reload(callbackSettings("first"))
			}
			s.stock.failSteps("look")
			keeper.mustCall(t, callbackTo(o.address(), "code=03AFcallback"))
			shown, err := keeper.buyer.DeadLetters()
			if err != nil || len(shown) != 1 || shown[0].Until.Sub(shown[0].Arrived) != c.life || shown[0].Kind != "token" {
				t.Fatalf("letters %+v, %v", shown, err)
			}
			time.Sleep(c.life - time.Millisecond)
			if _, err := keeper.buyer.Replay(t.Context()); !errors.Is(err, redisdb.ErrDown) || keeper.buyer.DeadLetterCount() != 1 {
				t.Errorf("replay = %v, %d letters", err, keeper.buyer.DeadLetterCount())
			}
			time.Sleep(time.Millisecond)
			s.forget()
			keeper.mustReplay(t, Replayed{Expired: 1})
			s.want(t, "letter expired")
		})
	}
}

// If Redis fails, a replay ends, and the remaining letters stay.
func TestAReplayEndsWhenRedisGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, t.TempDir())
		s.stock.failSteps("look")
		for range 4 {
			s.mustCall(t, callbackTo(s.order(t).address(), "code=03AFcallback"))
			time.Sleep(time.Second)
		}
		looks := 0
		s.stock.change(func() {
			s.stock.fault = func(step string) error {
				if strings.HasPrefix(step, "look") {
					if looks++; looks > 2 {
						return redisdb.ErrDown
					}
				}
				return nil
			}
		})
		got, err := s.buyer.Replay(t.Context())
		want := Replayed{Replayed: 2, Left: 2, Reason: "redis does not take the others now"}
		if err != nil || got != want || looks != 3 {
			t.Errorf("replay = %+v, %v after %d questions, want %+v after 3", got, err, looks, want)
		}
		s.stock.failSteps()
		s.mustReplay(t, Replayed{Replayed: 2})
		born := time.Duration(-1)
		for _, l := range s.stock.landed() {
			if l.Lead < born {
				t.Error("the letters were not replayed oldest first")
			}
			born = l.Lead
		}
	})
}

// Run of the next process replays the dead letters in the folder at once, even though that process has
// neither the orders nor their secrets.
func TestDeadLettersSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "deep", "letters")
		s := newCallbackBuyer(t, folder)
		if err := s.buyer.OpenDeadLetters(); err != nil {
			t.Fatal(err)
		}
		o := s.order(t)
		time.Sleep(15 * time.Second)
		s.stock.failSteps("look")
		s.mustCall(t, callbackTo(o.address(), "id=t5&code=03AFcallback"))
		s.stock.failSteps()
		next := s.replica(folder)
		next.buyer.SetProviders(nil)
		if err := next.buyer.OpenDeadLetters(); err != nil || next.buyer.DeadLetterCount() != 1 {
			t.Fatalf("opened: %v, %d letters", err, next.buyer.DeadLetterCount())
		}
		time.Sleep(17 * time.Second)
		next.startRunning(t)()
		// The clock may have changed between the two processes, so the token's age is counted from the
		// submit.
		if l := s.stock.landed(); len(l) != 1 || l[0].SincePlaced != 0 || l[0].Lead != 0 || l[0].Value != "03AFcallback" {
			t.Errorf("landed %+v", l)
		}
		if orders, places := s.stock.counts(); orders != 0 || places != 0 {
			t.Errorf("left: %d orders, %d permits", orders, places)
		}
		s.mustReplay(t, Replayed{}) // the folder is now empty for the first process too
	})
}

// If two replays run concurrently, each dead letter counts once. A replay that waits for the other
// replay ends when its context ends.
func TestConcurrentReplaysCountALetterOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, t.TempDir())
		s.stock.failSteps("look")
		for i := range 3 {
			s.mustCall(t, callbackTo(s.order(t).address(), fmt.Sprint("code=03AFcallback", i)))
		}
		s.stock.change(func() {
			s.stock.fault = func(step string) error {
				if step == "settle" {
					time.Sleep(time.Second)
				}
				return nil
			}
		})
		s.forget()
		sums := make(chan Replayed, 2)
		var replays sync.WaitGroup
		for range 2 {
			replays.Go(func() {
				r, err := s.buyer.Replay(t.Context())
				if err != nil {
					t.Error(err)
				}
				sums <- r
			})
		}
		impatient, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leave()
		time.Sleep(100 * time.Millisecond) // the first replay is running
		if _, err := s.buyer.Replay(impatient); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("replay = %v, want ctx's error", err)
		}
		replays.Wait()
		a, b := <-sums, <-sums
		if a.Replayed+b.Replayed != 3 || a.Dropped+b.Dropped+a.Left+b.Left != 0 || s.stock.tokens() != 3 {
			t.Errorf("replays %+v and %+v, %d tokens", a, b, s.stock.tokens())
		}
		if n := strings.Count(strings.Join(s.all(), "\n"), "letter replayed"); n != 3 {
			t.Errorf("%d letters were observed, want 3", n)
		}
	})
}
