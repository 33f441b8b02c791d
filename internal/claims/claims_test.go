package claims_test

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/claims"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// suite has the tests that each store passes.
var suite = map[string]func(*testing.T, *world){
	"Stories":        func(t *testing.T, w *world) { play(t, w, nil) },
	"LostReplies":    testLostReplies,
	"OneOfManyHolds": testOneOfManyHolds,
	"BusyClaim":      testBusyClaim,
	"NothingIsLeft":  testNothingIsLeft,
}

// world is the store of a test, as three replicas use it, with a clock of the test.
type world struct {
	stores [3]claims.Store
	ms     atomic.Int64
	keep   atomic.Int64 // the life of the last value, in ns
}

// newWorld opens the stores. Those in PostgreSQL run until the test ends.
func newWorld(t *testing.T, open func() claims.Store) *world {
	t.Helper()
	w := &world{}
	w.ms.Store(1_800_000_000_000)
	for i := range w.stores {
		w.stores[i] = open()
		if s, is := w.stores[i].(*claims.Postgres); is {
			testkit.Run(t, s.Run)
		}
	}
	return w
}

func (w *world) pass(d time.Duration) { w.ms.Add(d.Milliseconds()) }

// replica returns the claims of a replica, on the clock of the test.
func (w *world) replica(i int) *claims.Claims {
	return &claims.Claims{Store: &clocked{w.stores[i], w}}
}

type clocked struct {
	claims.Store

	w *world
}

func (s *clocked) Load(ctx context.Context, key captcha.ID) ([]byte, int64, time.Time, error) {
	value, version, _, err := s.Store.Load(ctx, key)
	return value, version, time.UnixMilli(s.w.ms.Load()), err
}

func (s *clocked) Swap(ctx context.Context, key captcha.ID, version int64, to claims.Change) (bool, error) {
	s.w.keep.Store(int64(to.Keep))
	return s.Store.Swap(ctx, key, version, to)
}

// stories are steps of the replicas a, b and c, and times that pass, with what each step returns. Solves are numbered.
// A caller that waits knows the solve that its replica entered last.
//
//go:embed testdata/stories.txt
var stories string

// play plays the stories. The function lose makes the first swap of each step and loses its reply; nil = none is lost.
func play(t *testing.T, w *world, lose func(swap func() (bool, error)) (bool, error)) {
	t.Helper()
	for story := range strings.SplitSeq(strings.TrimSpace(stories), "\n\n") {
		name, text, _ := strings.Cut(story, "\n")
		var stores [3]*forgetful
		for i := range stores {
			stores[i] = &forgetful{&clocked{w.stores[i], w}, lose, false}
		}
		key, names, solves, fences := newKey(), []string{}, [3]string{}, [3]int64{}
		until := map[string]int64{} // ms, when a solve must have ended, and its token
		for step := range strings.SplitSeq(text, "\n") {
			does, want, _ := strings.Cut(strings.TrimSpace(step), ":")
			words, got, err := strings.Fields(does), "", error(nil)
			if pause, err := time.ParseDuration(words[0]); err == nil {
				w.pass(pause)
				continue
			}
			i := int(words[0][0] - 'a')
			c := claims.Claims{Store: stores[i]}
			stores[i].next = lose != nil
			switch words[1] {
			case "enters", "waits":
				e := entry(key, map[string]string{"waits": solves[i]}[words[1]])
				var claim claims.Claim
				claim, err = c.Enter(t.Context(), e)
				if claim.State == claims.Held && (claim.Fence <= slices.Max(fences[:]) || claim.Fence < w.ms.Load()) {
					t.Errorf("%s: %s: fence %d after %v, at %d", name, does, claim.Fence, fences, w.ms.Load())
				}
				if solves[i] = claim.Solve; !slices.Contains(names, claim.Solve) {
					names = append(names, claim.Solve)
					until[claim.Solve] = w.ms.Load() + claims.Longest.Milliseconds()
				}
				if left := time.Duration(until[claim.Solve]-w.ms.Load()) * time.Millisecond; claim.State != claims.Failed &&
					claim.Left != left {
					t.Errorf("%s: %s: %v left, want %v", name, does, claim.Left, left)
				}
				if keep := time.Duration(w.keep.Load()); claim.State == claims.Held && keep != claim.Left+claims.SharedFor {
					t.Errorf("%s: %s: kept for %v, and %v are left", name, does, keep, claim.Left)
				}
				fences[i] = max(fences[i], claim.Fence)
				got = strings.TrimSpace(fmt.Sprintf("%s %d %s", claim.State, 1+slices.Index(names, claim.Solve), claim.Value))
			case "holds":
				var mine bool
				mine, err = c.Hold(t.Context(), key, fences[i])
				got = map[bool]string{false: "lost", true: "mine"}[mine]
			case "releases":
				err = c.Release(t.Context(), key, fences[i])
			case "ends":
				lasts, _ := time.ParseDuration(words[3])
				var ok bool
				ok, err = c.End(t.Context(), key, fences[i],
					claims.End{Value: []byte(words[2]), Failed: words[2] == "failure", Lasts: lasts})
				if got = fmt.Sprint(ok); ok && words[2] != "failure" {
					until[solves[i]] = w.ms.Load() + min(lasts, claims.SharedFor).Milliseconds()
				}
			}
			if err != nil || got != strings.TrimSpace(want) {
				t.Errorf("%s: %s: %q, %v, want%s", name, does, got, err, want)
			}
		}
	}
}

func newKey() captcha.ID { return captcha.Identity{Type: captcha.Turnstile, Sitekey: rand.Text()}.ID() }

func entry(key captcha.ID, solve string) claims.Entry {
	return claims.Entry{Key: key, Solve: solve, Sitekey: "sitekey", Pageurl: "https://example.com/login"}
}

// forgetful is a store that loses the reply to the next swap.
type forgetful struct {
	claims.Store

	lose func(swap func() (bool, error)) (bool, error)
	next bool
}

func (s *forgetful) Swap(ctx context.Context, key captcha.ID, version int64, to claims.Change) (bool, error) {
	swap := func() (bool, error) { return s.Store.Swap(ctx, key, version, to) }
	if !s.next {
		return swap()
	}
	s.next = false
	return s.lose(swap)
}

// A lost reply changes nothing: the client sends the swap again, which finds another version, and the step has the same
// result.
func testLostReplies(t *testing.T, w *world) {
	play(t, w, func(swap func() (bool, error)) (bool, error) {
		if ok, err := swap(); err != nil || !ok {
			return ok, err
		}
		return swap()
	})
}

// One of many callers becomes the holder, and when the lease expires, one of many takes over. The others wait.
func testOneOfManyHolds(t *testing.T, w *world) {
	key, holder := newKey(), claims.Claim{}
	for round, stalls := 0, 0; round < 2; round++ {
		w.pass(claims.Lease)
		var stalled atomic.Bool
		answers, solve := make([]claims.Claim, 50), holder.Solve
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				var err error
				answers[i], err = w.replica(i%3).Enter(t.Context(), entry(key, solve))
				if errors.Is(err, redisdb.ErrDown) {
					stalled.Store(true)
				} else if err != nil {
					t.Errorf("entering: %v", err)
				}
			})
		}
		all.Wait()
		if stalls++; stalled.Load() && stalls < 10 { // a starved server: from the beginning
			key, holder, round = newKey(), claims.Claim{}, -1
			continue
		}
		held := slices.DeleteFunc(slices.Clone(answers), func(c claims.Claim) bool { return c.State != claims.Held })
		if len(held) != 1 || held[0].Fence <= holder.Fence || solve != "" && held[0].Solve != solve {
			t.Fatalf("holders after %+v: %+v", holder, held)
		}
		holder = held[0]
		for _, c := range answers {
			if c.Solve != holder.Solve || c.State != claims.Held && c.State != claims.Solving {
				t.Errorf("told %+v beside %+v", c, holder)
			}
		}
	}
}

// rival is a store whose swaps are always too late.
type rival struct{ claims.Store }

func (rival) Swap(context.Context, captcha.ID, int64, claims.Change) (bool, error) { return false, nil }

// A step that is too late each time gives up. Its error counts as an outage.
func testBusyClaim(t *testing.T, w *world) {
	c := claims.Claims{Store: rival{w.stores[0]}}
	_, err := c.Enter(t.Context(), entry(newKey(), ""))
	if !errors.Is(err, redisdb.ErrDown) || redisdb.Reason(err) != "the claim changes all the time" {
		t.Errorf("entering: %v", err)
	}
}

// A store has its own clock. It deletes a value when its life has passed, and not earlier.
func testNothingIsLeft(t *testing.T, w *world) {
	exact := false // to the ms
	version := func(key captcha.ID) int64 {
		_, version, now, err := w.stores[0].Load(t.Context(), key)
		if err != nil || time.Since(now).Abs() > time.Minute {
			t.Fatalf("loading: %v, %v", now, err)
		}
		exact = exact || now.Nanosecond() > 0
		return version
	}
	stays, goes := newKey(), newKey()
	for key, keep := range map[captcha.ID]time.Duration{stays: time.Hour, goes: 200 * time.Millisecond} {
		if ok, err := w.stores[1].Swap(t.Context(), key, 0,
			claims.Change{Version: 7, Value: []byte("{}"), Keep: keep}); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	testkit.Within(t, 20*time.Second, "it is deleted", func() bool { return version(goes) == 0 })
	if got := version(stays); got != 7 || !exact {
		t.Errorf("the other one has version %d; the clock has ms: %v", got, exact)
	}
}
