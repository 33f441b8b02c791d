package purchase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/spool"
)

// mustReplay replays the dead letters and compares how that went.
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

// Whichever step Redis misses, the provider is told that all is well, and the
// dead letter ends its order later: born when it first arrived, not when it was read.
func TestCallbackWhileRedisIsAway(t *testing.T) {
	const token, code = "id=t1&code=03AFcallback", "id=t1&code=ERROR_CAPTCHA_UNSOLVABLE"
	for name, c := range map[string]struct {
		step, text string
		lost       bool // its submit had no answer, so that the task is not known
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
			ended := s.collecting(t, s.order(t))
			time.Sleep(15 * time.Second)
			before := s.stock.picture()
			s.stock.away(c.step)
			s.forget()
			s.mustCall(t, callbackTo(s.provider.submitted.Pingback, c.text))
			s.mustCall(t, callbackTo(s.provider.submitted.Pingback, c.text)) // services repeat themselves
			if got := s.all(); got[len(got)-1] != "callback kept" || s.buyer.DeadLetterCount() != 1 {
				t.Fatalf("what happened: %q, %d letters", got, s.buyer.DeadLetterCount())
			}
			if after := s.stock.picture(); after != before {
				t.Errorf("redis was changed:\n%s\nto:\n%s", before, after)
			}
			time.Sleep(17 * time.Second)
			s.stock.away()
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

// With the token landed there is nothing to be kept; the place alone waits
// until it is found without its order.
func TestCallbackWhileRedisIsAwayAtRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, t.TempDir())
		ended := s.collecting(t, s.order(t))
		s.stock.away("release")
		s.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t1&code=03AFcallback"))
		if r := <-ended; r.Err != nil || s.buyer.DeadLetterCount() != 0 {
			t.Errorf("collect = %v, %d letters", r.Err, s.buyer.DeadLetterCount())
		}
		s.stock.away()
		s.wantLeft(t, 0, 1, 0)
		s.adopt(t)
		time.Sleep(orphanedFor)
		s.adopt(t)
		s.wantLeft(t, 0, 0, 0)
	})
}

// An answer of Redis that was lost leaves a dead letter of no use, and one token.
func TestCallbackWhoseSettlingHadNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, t.TempDir())
		o := s.order(t)
		s.stock.lostReply = lose("settle", redisdb.ErrDown)
		s.mustCall(t, callbackTo(o.address(), "code=03AFcallback"))
		s.stock.lostReply = nil
		s.mustReplay(t, Replayed{Dropped: 1})
		if s.stock.tokens() != 1 {
			t.Errorf("%d tokens", s.stock.tokens())
		}
		s.want(t, "settle", "callback kept", "release", "letter dropped")
	})
}

// Only where neither Redis nor the disk took it shall the provider try again.
func TestCallbackThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(blocked, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s := newCallbackBuyer(t, blocked)
		o := s.order(t)
		c := callbackTo(o.address(), "code=03AFcallback")
		s.stock.away("look")
		if err := s.buyer.Callback(t.Context(), c); !errors.Is(err, ErrNotKept) {
			t.Errorf("callback = %v, want ErrNotKept", err)
		}
		s.stock.away()
		s.mustCall(t, c)
		s.want(t, "callback refused", "settle", "release", "login at one: solved", "callback settled")
	})
}

// A dead letter whose order ended by then, here by a poll, changes nothing.
func TestReplayAfterTheOrderEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, t.TempDir())
		ended := s.collecting(t, s.order(t))
		s.stock.away("look")
		s.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t1&code=03AFcallback"))
		if r := <-ended; r.Err != nil {
			t.Error(r.Err)
		}
		s.stock.away()
		s.forget()
		s.mustReplay(t, Replayed{Dropped: 1})
		s.want(t, "release", "letter dropped")
		if s.stock.tokens() != 1 {
			t.Errorf("%d tokens", s.stock.tokens())
		}
	})
}

// A dead letter is of use for as long as a token of its identity can live; after
// that Redis is not even asked, so that it cannot stop the others.
func TestLettersOfNoUse(t *testing.T) {
	for name, c := range map[string]struct {
		foreign bool // the buyer that keeps it has never placed such an order
		life    time.Duration
	}{"a known life": {false, 120 * time.Second}, "an unknown life": {true, 24 * time.Hour}} {
		runBubble(t, name, func(t *testing.T) {
			s := newCallbackBuyer(t, t.TempDir())
			o := s.order(t)
			keeper := s
			if c.foreign {
				keeper = s.replica(t.TempDir())
				keeper.reload(calling("first"))
			}
			s.stock.away("look")
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

// Redis that goes away ends a replay: the rest is kept, and asked for no more.
func TestReplayWhileRedisGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, t.TempDir())
		s.stock.away("look")
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
		s.stock.away()
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

// What a daemon that is gone kept is found by the next one on the folder, which
// knows neither the order nor the secret.
func TestLettersOfAnEarlierBuyer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "deep", "letters")
		s := newCallbackBuyer(t, folder)
		if err := s.buyer.OpenDeadLetters(); err != nil {
			t.Fatal(err)
		}
		o := s.order(t)
		time.Sleep(15 * time.Second)
		s.stock.away("look")
		s.mustCall(t, callbackTo(o.address(), "id=t5&code=03AFcallback"))
		s.stock.away()
		next := s.replica(folder)
		next.buyer.SetProviders(nil)
		if err := next.buyer.OpenDeadLetters(); err != nil || next.buyer.DeadLetterCount() != 1 {
			t.Fatalf("opened: %v, %d letters", err, next.buyer.DeadLetterCount())
		}
		time.Sleep(17 * time.Second)
		next.mustReplay(t, Replayed{Replayed: 1})
		// Clocks can be set between two runs, so the token is as old as its submit.
		if l := s.stock.landed(); len(l) != 1 || l[0].SincePlaced != 0 || l[0].Lead != 0 || l[0].Value != "03AFcallback" {
			t.Errorf("landed %+v", l)
		}
		if orders, places := s.stock.counts(); orders != 0 || places != 0 {
			t.Errorf("left: %d orders, %d places", orders, places)
		}
		s.mustReplay(t, Replayed{}) // the folder is empty for the first one too
	})
}

// Two replays at once count each dead letter once, and one that waits ends with its
// caller.
func TestTwoReplaysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, t.TempDir())
		s.stock.away("look")
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
		time.Sleep(100 * time.Millisecond) // the others are at it
		if _, err := s.buyer.Replay(impatient); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("replay = %v, want ctx's error", err)
		}
		replays.Wait()
		a, b := <-sums, <-sums
		if a.Replayed+b.Replayed != 3 || a.Dropped+b.Dropped+a.Left+b.Left != 0 || s.stock.tokens() != 3 {
			t.Errorf("replays %+v and %+v, %d tokens", a, b, s.stock.tokens())
		}
		if n := strings.Count(strings.Join(s.all(), "\n"), "letter replayed"); n != 3 {
			t.Errorf("%d letters were told, want 3", n)
		}
	})
}

// Run replays by itself as soon as Redis is back; what is wrong with the folder
// blocks no dead letter and is said once, and once more when it is over.
func TestRunReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		folder := t.TempDir()
		s := newCallbackBuyer(t, folder)
		s.buyer.log = slog.New(slog.NewTextHandler(&logged, nil))
		s.stock.away("look")
		ended := s.collecting(t, s.order(t))
		s.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t1&code=03AFcallback"))
		if err := os.WriteFile(filepath.Join(folder, strings.Repeat("0", 64)+".json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		stop := s.running(t)
		// The replay is then at 10 s, between two renewals: one in the same moment may
		// find the order gone before its end is told.
		time.Sleep(8500 * time.Millisecond)
		s.stock.away()
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

// A folder that cannot be read is said once, however often it is tried.
func TestReplayOfAFolderThatCannotBeRead(t *testing.T) {
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

// A replay of many dead letters ends soon after a stop.
func TestAReplayEndsWithTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, t.TempDir())
		s.stock.away("look")
		for range 4 {
			s.mustCall(t, callbackTo(s.order(t).address(), "code=03AF"))
		}
		ctx, stop := context.WithCancel(t.Context())
		s.stock.change(func() {
			s.stock.fault = func(step string) error {
				if step == "settle" {
					stop()
					time.Sleep(2 * time.Second)
				}
				return nil
			}
		})
		began := time.Now()
		r, err := s.buyer.Replay(ctx)
		if time.Since(began) > 3*time.Second {
			t.Errorf("went on for %v after the stop: %+v, %v", time.Since(began), r, err)
		}
	})
}

// One broken dead letter does not stop the start.
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

// partly is a stock of which the slots of some identities do not answer.
type partly struct {
	Orders
	away  map[captcha.ID]bool
	asked []captcha.ID
}

func (p *partly) Find(ctx context.Context, order pool.Ref) (pool.Record, bool, error) {
	p.asked = append(p.asked, order.Identity)
	if p.away[order.Identity] {
		return pool.Record{}, false, redisdb.ErrDown
	}
	return p.Orders.Find(ctx, order)
}

// kept places an order of a target of its own and leaves a dead letter with its token.
func (r *replica) kept(t *testing.T, name string, letters int) captcha.ID {
	t.Helper()
	target := spec()
	target.Identity.Sitekey = name
	target.ID = target.Identity.ID()
	for i := range letters {
		slot, err := r.buyer.Admit(t.Context(), Bid{})
		if err != nil {
			t.Fatal(err)
		}
		o, err := r.buyer.placer.place(t.Context(), slot, target)
		if err != nil {
			t.Fatal(err)
		}
		slot.Free() // nobody collects it
		task := fmt.Sprint(name, i)
		if ok, err := r.store.Mark(t.Context(), o.Ref); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if ok, err := r.store.Submitted(t.Context(), o.Ref, task); err != nil || !ok {
			t.Fatal(ok, err)
		}
		at := time.Now()
		if err := r.buyer.callbacks.kept.Keep(spool.Letter{
			Order: o.String(), Identity: target.ID, Provider: "one", Task: task, Token: "03AF" + task,
			Arrived: at, Until: at.Add(time.Hour),
		}); err != nil {
			t.Fatal(err)
		}
	}
	return target.ID
}

const others = "redis does not take the others now"

// What cannot be delivered blocks nothing else, also where it is the oldest, and is
// tried in turns until it can be.
func TestALetterThatIsStuckBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		r := newReplica(t, pool.Options{Dial: bubble.Dial})
		r.buyer.SetProviders([]Entry{{Provider: newFakeProvider(r.ledger, "one"), Concurrency: 100}})
		p := &partly{Orders: r.store, away: map[captcha.ID]bool{}}
		r.buyer.stock = p
		for i := range 12 {
			p.away[r.kept(t, fmt.Sprint("dead", i), 2)] = true
			time.Sleep(time.Second)
		}
		for i := range 12 {
			r.kept(t, fmt.Sprint("alive", i), 1)
			time.Sleep(time.Second)
		}
		replay := func() (Replayed, error) {
			t.Helper()
			p.asked = nil
			got, err := r.buyer.Replay(t.Context())
			row := 0
			for i, id := range p.asked {
				if row++; !p.away[id] {
					row = 0
				}
				if row > mostStuck || p.away[id] && slices.Contains(p.asked[:i], id) {
					t.Errorf("asked too much: %v", p.asked)
				}
			}
			if row < mostStuck && got.Left > 0 {
				// It asked for all: each that is away has had its turn.
				for id := range p.away {
					if !slices.Contains(p.asked, id) {
						t.Errorf("nobody asked for %s", id)
					}
				}
			}
			time.Sleep(replayEvery)
			return got, err
		}
		got, err := replay()
		if want := (Replayed{Replayed: 12, Left: 24, Reason: others}); err != nil || got != want {
			t.Errorf("replay = %+v, %v, want %+v", got, err, want)
		}
		// Those that are left have their turns.
		turns := map[captcha.ID]bool{}
		for range 3 {
			if got, err := replay(); !errors.Is(err, redisdb.ErrDown) || got != (Replayed{Left: 24}) || len(p.asked) != mostStuck {
				t.Errorf("replay = %+v, %v after %d questions", got, err, len(p.asked))
			}
			for _, id := range p.asked {
				turns[id] = true
			}
		}
		if len(turns) != 12 {
			t.Errorf("%d of 12 had their turn", len(turns))
		}
		// Half of them come back, and wait for no one's turn for long.
		back := 0
		for id := range p.away {
			if back++; back <= 6 {
				delete(p.away, id)
			}
		}
		for range 3 {
			_, _ = replay()
		}
		if n := r.buyer.DeadLetterCount(); n != 12 {
			t.Errorf("%d letters are left, want the 12 of those that are away", n)
		}
		clear(p.away)
		for r.buyer.DeadLetterCount() > 0 {
			if got, err := r.buyer.Replay(t.Context()); err != nil || got.Replayed == 0 {
				t.Fatalf("replay = %+v, %v", got, err)
			}
		}
		if n := len(r.buyer.replay.stuck); n != 0 {
			t.Errorf("%d identities are still taken to be away", n)
		}
		if told := slices.DeleteFunc(r.all(), func(e string) bool { return e != "letter replayed" }); len(told) != 36 {
			t.Errorf("%d letters were told", len(told))
		}
	})
}

// Where those that are away happen to come first a replay ends early, and the next
// one tries others.
func TestAReplayGoesOnBehindWhatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		r := newReplica(t, pool.Options{Dial: bubble.Dial})
		r.buyer.SetProviders([]Entry{{Provider: newFakeProvider(r.ledger, "one"), Concurrency: 100}})
		var ids []captcha.ID
		for i := range 24 {
			ids = append(ids, r.kept(t, fmt.Sprint("key", i), 1))
		}
		slices.Sort(ids)
		p := &partly{Orders: r.store, away: map[captcha.ID]bool{}}
		for _, id := range ids[:12] {
			p.away[id] = true
		}
		r.buyer.stock = p
		for n, want := range []Replayed{{Left: 24}, {Left: 24}, {Replayed: 12, Left: 12, Reason: others}} {
			if got, err := r.buyer.Replay(t.Context()); got != want || errors.Is(err, redisdb.ErrDown) != (want.Replayed == 0) {
				t.Errorf("replay %d = %+v, %v, want %+v", n, got, err, want)
			}
			time.Sleep(replayEvery)
		}
	})
}

// What only outlived its token says nothing about Redis.
func TestExpiredLettersAreNoAnswerOfRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		r := newReplica(t, pool.Options{Dial: bubble.Dial})
		r.buyer.SetProviders([]Entry{{Provider: newFakeProvider(r.ledger, "one"), Concurrency: 100}})
		r.kept(t, "old", 3)
		time.Sleep(time.Hour)
		p := &partly{Orders: r.store, away: map[captcha.ID]bool{r.kept(t, "away", 3): true}}
		r.buyer.stock = p
		if got, err := r.buyer.Replay(t.Context()); !errors.Is(err, redisdb.ErrDown) || got != (Replayed{Expired: 3, Left: 3}) || len(p.asked) != 1 {
			t.Errorf("replay = %+v, %v after %d questions", got, err, len(p.asked))
		}
	})
}

// A cluster of which one node is dead for good, and serves what is left.
func TestReplayWithADeadNode(t *testing.T) {
	addresses := redistest.Cluster(t)
	r := newReplica(t, pool.Options{Addresses: "redis://" + strings.Join(addresses, ",redis://")})
	r.buyer.SetProviders([]Entry{{Provider: newFakeProvider(r.ledger, "one"), Concurrency: 100}})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
	t.Cleanup(func() { _ = client.Close() })
	node := func(key string) string {
		t.Helper()
		at, err := client.MasterForKey(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return at.Options().Addr
	}
	places := node("test:places:{one}")
	dead := addresses[slices.IndexFunc(addresses, func(a string) bool { return a != places })]
	left := 0
	for i := range 24 {
		if id := r.kept(t, fmt.Sprint("key", i), 1); node("test:orders:{"+string(id)+"}") == dead {
			left++
		}
	}
	if err := client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		return node.ConfigSet(ctx, "cluster-require-full-coverage", "no").Err()
	}); err != nil {
		t.Fatal(err)
	}
	if err := client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		if node.Options().Addr == dead {
			node.ShutdownNoSave(ctx)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// As Run does, again and again.
	for deadline := time.Now().Add(30 * time.Second); r.buyer.DeadLetterCount() > left; {
		got, err := r.buyer.Replay(t.Context())
		if err != nil && !errors.Is(err, redisdb.ErrDown) || err == nil && got.Left > 0 && got.Reason != others {
			t.Errorf("replay = %+v, %v", got, err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d letters are left, want %d", r.buyer.DeadLetterCount(), left)
		}
	}
	if got, err := r.buyer.Replay(t.Context()); !errors.Is(err, redisdb.ErrDown) || got != (Replayed{Left: left}) || left == 0 || left == 24 {
		t.Errorf("replay = %+v, %v, want %d left", got, err, left)
	}
}
