package redisclaims

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/ondemand/dedup"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// suite runs on every kind of server, in addition to claimtest.
var suite = map[string]func(*testing.T, redisdb.Options){
	"AClaim":              testAClaim,
	"KeysOfClaims":        testKeysOfClaims,
	"LostRepliesOfClaims": testLostRepliesOfClaims,
}

func makeHolder(t *testing.T, s *Claims, key captcha.ID) dedup.Claim {
	t.Helper()
	got, err := s.Enter(t.Context(), dedup.ClaimEntry{Key: key, Identity: identity("of claims")})
	if err != nil || got.State != dedup.ClaimHeld {
		t.Fatalf("entering: %+v, %v", got, err)
	}
	return got
}

func sumSavings(t *testing.T, s *Claims) map[dedup.SavingsSource]int64 {
	t.Helper()
	days, err := s.Days(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := map[dedup.SavingsSource]int64{}
	for _, day := range days {
		for source, n := range day.BySource {
			sum[source] += n
		}
	}
	return sum
}

// This test follows one claim from its start to its end. It also runs as a Redis user with the
// minimal rights that the docs list.
func testAClaim(t *testing.T, o redisdb.Options) {
	s, key := open(t, o), identity("claim")
	got := makeHolder(t, s, key)
	if mine, _, err := s.Hold(t.Context(), key, got.Fence, "x"); err != nil || !mine {
		t.Errorf("holding: %v, %v", mine, err)
	}
	if ok, err := s.End(t.Context(), key, got.Fence, dedup.ClaimEnd{Value: []byte("v"), Lasts: time.Minute}); err != nil || !ok {
		t.Errorf("ending: %v, %v", ok, err)
	}
	if shared, err := s.Enter(t.Context(), dedup.ClaimEntry{Key: key, Callers: 2}); err != nil || string(shared.Value) != "v" {
		t.Errorf("sharing: %+v, %v", shared, err)
	}
	if err := s.Count(t.Context(), map[dedup.SavingsSource]int{dedup.SavedSolve: 1}); err != nil {
		t.Errorf("counting: %v", err)
	}
	want := map[dedup.SavingsSource]int64{dedup.SavedSolve: 1, dedup.SavedAfter: 2}
	if sum := sumSavings(t, s); !maps.Equal(sum, want) {
		t.Errorf("counted %v, want %v", sum, want)
	}
}

// Each key of a claim expires together with its content.
func testKeysOfClaims(t *testing.T, o redisdb.Options) {
	s, key := open(t, o), identity("keys of claims")
	ctx, k := t.Context(), s.keys(key)
	lives := func(name string, at time.Duration) {
		t.Helper()
		// The names of savings and marks contain a part that the test does not know.
		found := keysOf(t, s.db, name)
		if len(found) == 0 {
			t.Errorf("there is no %s", name)
			return
		}
		if ttl := s.db.Slow.PTTL(ctx, found[0]).Val(); ttl > at || ttl < at-5*time.Second {
			t.Errorf("%s lives for %v, want %v", found[0], ttl, at)
		}
	}
	first := makeHolder(t, s, key)
	lives(k.claim, dedup.ClaimLongest+dedup.ClaimSolved)
	if ok, err := s.End(ctx, key, first.Fence, dedup.ClaimEnd{Failed: true}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	lives(k.claim, dedup.ClaimSolved)
	lives(k.failure, dedup.ClaimFailed)
	second := makeHolder(t, s, key)
	lives(k.claim, dedup.ClaimLongest+dedup.ClaimSolved)
	if ok, err := s.End(ctx, key, second.Fence, dedup.ClaimEnd{Value: []byte("v"), Lasts: 40 * time.Second}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	lives(k.claim, dedup.ClaimSolved)
	lives(k.token, 40*time.Second)
	if got, err := s.Enter(ctx, dedup.ClaimEntry{Key: key, Callers: 2}); err != nil || got.State != dedup.ClaimShared {
		t.Fatal(got, err)
	}
	lives(s.savingsKey("*"), 7*24*time.Hour)
	lives(s.countedKey("*"), 10*time.Second)
	want := []string{k.claim, k.failure, k.token}
	if got := keysOf(t, s.db, s.db.Prefix+":claim:*"); len(got) != len(want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}

// One reply in three is lost. The client retries the call. The call takes effect once, and the retry
// gets the same reply.
func testLostRepliesOfClaims(t *testing.T, o redisdb.Options) {
	plain := open(t, o)
	thief := redistest.NewThief(0.35, "{dedup}")
	o.Prefix, o.Dial = plain.db.Prefix, thief.Over(o.Dial)
	s := open(t, o)
	ctx, begun, unknown := t.Context(), 0, int64(0)
	want := int64(0)
	const rounds = 40
	for i := range rounds {
		key := identity(fmt.Sprint("lost ", i))
		got, err := s.Enter(ctx, dedup.ClaimEntry{Key: key, Identity: identity("lost")})
		if err != nil {
			continue // the replies to all attempts were lost
		}
		if begun++; got.State != dedup.ClaimHeld {
			t.Fatalf("round %d: %+v", i, got)
		}
		if mine, wanted, err := s.Hold(ctx, key, got.Fence, identity("lost")); err == nil && (!mine || wanted) {
			t.Fatalf("round %d: holding = %v, %v", i, mine, wanted)
		}
		if ok, err := s.End(ctx, key, got.Fence, dedup.ClaimEnd{Value: []byte("v"), Lasts: time.Minute}); err != nil {
			continue
		} else if !ok {
			t.Fatalf("round %d: not ended", i)
		}
		if _, err := s.Enter(ctx, dedup.ClaimEntry{Key: key, Callers: 3}); err != nil {
			unknown += 3
		} else {
			want += 3
		}
		if err := s.Count(ctx, map[dedup.SavingsSource]int{dedup.SavedAfter: 2}); err != nil {
			unknown += 2
		} else {
			want += 2
		}
	}
	if begun < rounds/2 || thief.Stolen() < rounds/2 {
		t.Fatalf("%d begun, %d answers stolen", begun, thief.Stolen())
	}
	if got := sumSavings(t, plain)[dedup.SavedAfter]; got < want || got > want+unknown {
		t.Errorf("counted %d, want %d, and up to %d more that are unknown", got, want, unknown)
	}
}

// In a Redis without free memory a claim can be held, ended and shared.
func TestClaimsOutOfMemory(t *testing.T) {
	t.Parallel()
	s, key := open(t, redisdb.Options{Prefix: "test", Addresses: "redis://" + redistest.Server(t, "--maxmemory-policy", "noeviction")}), identity("memory")
	got := makeHolder(t, s, key)
	if err := s.db.Slow.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if mine, _, err := s.Hold(t.Context(), key, got.Fence, "x"); err != nil || !mine {
		t.Errorf("holding: %v, %v", mine, err)
	}
	if ok, err := s.End(t.Context(), key, got.Fence, dedup.ClaimEnd{Value: []byte("v"), Lasts: time.Minute}); err != nil || !ok {
		t.Errorf("ending: %v, %v", ok, err)
	}
	if shared, err := s.Enter(t.Context(), dedup.ClaimEntry{Key: key, Solve: got.Solve, Callers: 1}); err != nil || string(shared.Value) != "v" {
		t.Errorf("sharing: %+v, %v", shared, err)
	}
	if err := s.Count(t.Context(), map[dedup.SavingsSource]int{dedup.SavedReplay: 1}); err != nil {
		t.Errorf("counting: %v", err)
	}
	want := map[dedup.SavingsSource]int64{dedup.SavedReplay: 1, dedup.SavedWaiting: 1}
	if sum := sumSavings(t, s); !maps.Equal(sum, want) {
		t.Errorf("counted %v, want %v", sum, want)
	}
}

// Without Redis each call fails with redisdb.ErrDown.
func TestClaimsWithoutRedis(t *testing.T) {
	t.Parallel()
	s := open(t, redisdb.Options{Prefix: "test", Addresses: "redis://" + redistest.FreeAddress(t)})
	_, entering := s.Enter(t.Context(), dedup.ClaimEntry{Key: "k"})
	_, _, holding := s.Hold(t.Context(), "k", 1, "x")
	_, ending := s.End(t.Context(), "k", 1, dedup.ClaimEnd{})
	_, telling := s.Days(t.Context())
	for what, err := range map[string]error{
		"entering": entering, "holding": holding, "letting go": s.Release(t.Context(), "k", 1, "x"), "ending": ending, "telling": telling,
		"counting": s.Count(t.Context(), map[dedup.SavingsSource]int{dedup.SavedPool: 1}),
	} {
		if !errors.Is(err, redisdb.ErrDown) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// After Redis' clock was set back by at most 10 s, claims and tokens stay. After a larger step their
// age is unknown, so they count as ended.
func TestClaimsAndAClockThatIsSetBack(t *testing.T) {
	for _, c := range []struct {
		back  time.Duration
		stays bool
	}{{9 * time.Second, true}, {11 * time.Second, false}, {24 * time.Hour, false}} {
		synctest.Test(t, func(t *testing.T) {
			server := redistest.InBubble(t)
			s := openInBubble(t, server)
			solving, solved, failed := identity("solving"), identity("solved"), identity("failed")
			under := makeHolder(t, s, solving)
			token, failure := makeHolder(t, s, solved), makeHolder(t, s, failed)
			for key, e := range map[captcha.ID]dedup.ClaimEnd{solved: {Value: []byte("v"), Lasts: time.Hour}, failed: {Value: []byte("why"), Failed: true}} {
				fence := map[captcha.ID]int64{solved: token.Fence, failed: failure.Fence}[key]
				if ok, err := s.End(t.Context(), key, fence, e); err != nil || !ok {
					t.Fatal(ok, err)
				}
			}
			server.SetTime(time.Now().Add(-c.back))
			enter := func(key captcha.ID, solve string) dedup.Claim {
				t.Helper()
				got, err := s.Enter(t.Context(), dedup.ClaimEntry{Key: key, Solve: solve})
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			if got := enter(failed, failure.Solve); (string(got.Value) == "why") != c.stays {
				t.Errorf("back by %v, who waited: %+v", c.back, got)
			}
			if got := enter(solved, token.Solve); (got.State == dedup.ClaimShared) != c.stays {
				t.Errorf("back by %v, the token: %+v", c.back, got)
			}
			got := enter(solving, "")
			if c.stays && got.State != dedup.ClaimSolving || !c.stays && (got.State != dedup.ClaimHeld || got.Solve == under.Solve || got.Fence <= under.Fence) {
				t.Errorf("back by %v, the solve: %+v after %+v", c.back, got, under)
			}
		})
	}
}

// Another replica takes over a claim if the lease ends too far in the future, even while the solve is
// in flight.
func TestALeaseOfAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := redistest.InBubble(t)
		s, key := openInBubble(t, server), identity("lease")
		first := makeHolder(t, s, key)
		time.Sleep(dedup.ClaimLongest - time.Second)
		if mine, _, err := s.Hold(t.Context(), key, first.Fence, "x"); err != nil || !mine {
			t.Fatal(mine, err)
		}
		server.SetTime(time.Now().Add(-time.Minute))
		got, err := s.Enter(t.Context(), dedup.ClaimEntry{Key: key})
		if err != nil || got.State != dedup.ClaimHeld || got.Solve != first.Solve || got.Fence <= first.Fence {
			t.Errorf("entering: %+v, %v after %+v", got, err, first)
		}
	})
}

// The savings of seven days are kept. Redis' clock decides where a day begins.
func TestSavingsByDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := redistest.InBubble(t)
		s := openInBubble(t, server)
		at := time.Date(2028, 2, 28, 23, 59, 59, 0, time.UTC)
		server.SetTime(at)
		count := func(n int) {
			t.Helper()
			if err := s.Count(t.Context(), map[dedup.SavingsSource]int{dedup.SavedSolve: n}); err != nil {
				t.Fatal(err)
			}
		}
		told := func(want ...int64) {
			t.Helper()
			days, err := s.Days(t.Context())
			if err != nil || len(days) != 7 {
				t.Fatal(days, err)
			}
			for i, day := range days {
				date := at.AddDate(0, 0, -i).Format(time.DateOnly)
				if day.Date != date || day.BySource[dedup.SavedSolve] != want[i] {
					t.Errorf("day %d: %+v, want %d on %s", i, day, want[i], date)
				}
			}
		}
		pass := func(d time.Duration) {
			at = at.Add(d)
			server.SetTime(at)
		}
		count(1)
		told(1, 0, 0, 0, 0, 0, 0)
		pass(time.Second) // a leap day begins
		count(2)
		count(3)
		told(5, 1, 0, 0, 0, 0, 0)
		pass(24 * time.Hour)
		count(6)
		told(6, 5, 1, 0, 0, 0, 0)
		pass(4*24*time.Hour + 23*time.Hour + 59*time.Minute)
		told(0, 0, 0, 0, 6, 5, 1)
		pass(time.Minute)
		told(0, 0, 0, 0, 0, 6, 5)
		pass(2 * 24 * time.Hour)
		told(0, 0, 0, 0, 0, 0, 0)
		if left := keysOf(t, s.db, s.savingsKey("*")); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// The scripts compute the same dates as Go, for two centuries.
func TestDates(t *testing.T) {
	testkit.WithoutRace(t)
	s := open(t, redisdb.Options{Addresses: "redis://embedded", Dial: redistest.Embedded(t).Dial})
	first, days := time.Date(2000, 1, 1, 23, 59, 59, 999e6, time.UTC), 200*365
	prelude, _, _ := strings.Cut(scripts.Get("savings_days").Text, "-- Reads the savings")
	script := prelude + `
		local dates = {}
		for i = 0, tonumber(ARGV[2]) - 1 do dates[#dates + 1] = date(ARGV[1] + i * day_ms) end
		return dates`
	const step = 500 // a script may take at most a second, also on a busy machine
	for from := 0; from < days; from += step {
		dates, err := s.db.Slow.Eval(t.Context(), script, nil, first.AddDate(0, 0, from).UnixMilli(), step).StringSlice()
		if err != nil || len(dates) != step {
			t.Fatal(len(dates), err)
		}
		for i, date := range dates {
			if want := first.AddDate(0, 0, from+i).Format(time.DateOnly); date != want {
				t.Fatalf("%s, want %s", date, want)
			}
		}
	}
}

// A Redis user without the right to the channel can end and release a claim. Only the replica of this
// user wakes.
func TestWithoutTheRightToTheChannel(t *testing.T) {
	t.Parallel()
	words := slices.DeleteFunc(redistest.Rights(t), func(word string) bool { return strings.HasPrefix(word, "&") })
	addr := redistest.Server(t, append([]string{"--user"}, words...)...)
	o := optionsAt(redistest.Place{Addresses: "redis://poold:" + redistest.Password + "@" + addr})
	woken := 0
	s := New(runDB(t, o, func(string) {}), Options{Wake: func(captcha.ID) { woken++ }})
	key := identity("deaf")
	held := makeHolder(t, s, key)
	if err := s.Release(t.Context(), key, held.Fence, "x"); err != nil || woken != 1 {
		t.Errorf("letting go: %v, woken %d times", err, woken)
	}
	if ok, err := s.End(t.Context(), key, held.Fence, dedup.ClaimEnd{Failed: true}); err != nil || !ok || woken != 2 {
		t.Errorf("ending: %v, %v, woken %d times", ok, err, woken)
	}
}
