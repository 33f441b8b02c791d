package pool

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
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// claimed makes a replica hold a key that nobody holds.
func claimed(t *testing.T, s *replica, key captcha.ID) Claim {
	t.Helper()
	got, err := s.Claims.Enter(t.Context(), ClaimEntry{Key: key, Identity: identity("of claims")})
	if err != nil || got.State != ClaimHeld {
		t.Fatalf("entering: %+v, %v", got, err)
	}
	return got
}

// counted adds the days up.
func counted(t *testing.T, s *replica) map[SavingsSource]int64 {
	t.Helper()
	days, err := s.Claims.Days(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := map[SavingsSource]int64{}
	for _, day := range days {
		for source, n := range day.BySource {
			sum[source] += n
		}
	}
	return sum
}

// One claim from its begin to its end. claimtest proves the rest; this one is run with the
// rights that the docs name too.
func testAClaim(t *testing.T, o Options) {
	s, key := open(t, o), identity("claim")
	got := claimed(t, s, key)
	if mine, _, err := s.Claims.Hold(t.Context(), key, got.Fence, "x"); err != nil || !mine {
		t.Errorf("holding: %v, %v", mine, err)
	}
	if ok, err := s.Claims.End(t.Context(), key, got.Fence, ClaimEnd{Value: []byte("v"), Lasts: time.Minute}); err != nil || !ok {
		t.Errorf("ending: %v, %v", ok, err)
	}
	if shared, err := s.Claims.Enter(t.Context(), ClaimEntry{Key: key, Callers: 2}); err != nil || string(shared.Value) != "v" {
		t.Errorf("sharing: %+v, %v", shared, err)
	}
	if err := s.Claims.Count(t.Context(), map[SavingsSource]int{SavedSolve: 1}); err != nil {
		t.Errorf("counting: %v", err)
	}
	want := map[SavingsSource]int64{SavedSolve: 1, SavedAfter: 2}
	if sum := counted(t, s); !maps.Equal(sum, want) {
		t.Errorf("counted %v, want %v", sum, want)
	}
}

// Each key of a claim lives as long as what is in it, and none for ever.
func testKeysOfClaims(t *testing.T, o Options) {
	s, key := open(t, o), identity("keys of claims")
	ctx, k := t.Context(), s.claim(key)
	lives := func(name string, at time.Duration) {
		t.Helper()
		// The key of a day says which; a call's mark which call.
		found := KeysOf(t, s.Store, name)
		if len(found) == 0 {
			t.Errorf("there is no %s", name)
			return
		}
		if ttl := s.db.Slow.PTTL(ctx, found[0]).Val(); ttl > at || ttl < at-5*time.Second {
			t.Errorf("%s lives for %v, want %v", found[0], ttl, at)
		}
	}
	first := claimed(t, s, key)
	lives(k.claim, ClaimLongest+ClaimSolved)
	if ok, err := s.Claims.End(ctx, key, first.Fence, ClaimEnd{Failed: true}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	lives(k.claim, ClaimSolved)
	lives(k.failure, ClaimFailed)
	second := claimed(t, s, key)
	lives(k.claim, ClaimLongest+ClaimSolved)
	if ok, err := s.Claims.End(ctx, key, second.Fence, ClaimEnd{Value: []byte("v"), Lasts: 40 * time.Second}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	lives(k.claim, ClaimSolved)
	lives(k.token, 40*time.Second)
	if got, err := s.Claims.Enter(ctx, ClaimEntry{Key: key, Callers: 2}); err != nil || got.State != ClaimShared {
		t.Fatal(got, err)
	}
	lives(s.savings("*"), 7*24*time.Hour)
	lives(s.counted("*"), 10*time.Second)
	want := []string{k.claim, k.failure, k.token}
	if got := KeysOf(t, s.Store, s.prefix+":claim:*"); len(got) != len(want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}

// Another program put a value of another type where one of our keys belongs: what needs
// the key names it and changes nothing, and all goes on once it is gone.
func testForeignTypesOfClaims(t *testing.T, o Options) {
	s, key := open(t, o), identity("foreign claim")
	ctx, k := t.Context(), s.claim(key)
	everything := func() string {
		t.Helper()
		var all []string
		for _, name := range KeysOf(t, s.Store, s.prefix+":*:{dedup}*") {
			fields, _ := s.db.Slow.HGetAll(ctx, name).Result()
			for field, value := range fields {
				all = append(all, name+" "+field+" "+value)
			}
			all = append(all, name)
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	for _, name := range []string{k.claim, k.token, k.failure, s.Claims.today()} {
		s.db.Slow.Del(ctx, k.claim, k.token, k.failure, s.Claims.today())
		first := claimed(t, s, key)
		if name == k.claim {
			s.db.Slow.Del(ctx, name)
		}
		s.db.Slow.Set(ctx, name, "foreign", time.Minute)
		before := everything()
		_, entering := s.Claims.Enter(ctx, ClaimEntry{Key: key, Callers: 1})
		_, waiting := s.Claims.Enter(ctx, ClaimEntry{Key: key, Solve: first.Solve, Callers: 1})
		failures := map[string]error{"entering": entering, "waiting": waiting}
		if name == k.claim {
			_, _, failures["holding"] = s.Claims.Hold(ctx, key, first.Fence, "x")
		}
		if name != s.Claims.today() {
			_, failures["ending"] = s.Claims.End(ctx, key, first.Fence, ClaimEnd{Value: []byte("v"), Lasts: time.Minute})
		} else {
			failures["counting"] = s.Claims.Count(ctx, map[SavingsSource]int{SavedPool: 1})
			_, failures["telling"] = s.Claims.Days(ctx)
		}
		for what, err := range failures {
			if !errors.Is(err, redisdb.ErrDown) || !strings.Contains(err.Error(), "the key "+name+" holds a string where a hash belongs; delete") {
				t.Errorf("%s with a foreign %s: %v", what, name, err)
			}
		}
		if after := everything(); after != before {
			t.Errorf("with a foreign %s:\n%s\nbecame\n%s", name, before, after)
		}
		s.db.Slow.Del(ctx, name)
		if name == k.claim {
			continue // what was in it is gone
		}
		if ok, err := s.Claims.End(ctx, key, first.Fence, ClaimEnd{Value: []byte("v"), Lasts: time.Minute}); err != nil || !ok {
			t.Errorf("after a foreign %s: %v, %v", name, ok, err)
		}
	}
}

// Of every three answers one is lost. The client sends such a call again, and what it did
// the first time is done once and told again.
func testLostRepliesOfClaims(t *testing.T, o Options) {
	plain := open(t, o)
	thief := redistest.NewThief(0.35, "{dedup}")
	o.Prefix, o.Dial = plain.prefix, thief.Over(o.Dial)
	s := open(t, o)
	ctx, begun, unknown := t.Context(), 0, int64(0)
	want := int64(0)
	const rounds = 40
	for i := range rounds {
		key := identity(fmt.Sprint("lost ", i))
		got, err := s.Claims.Enter(ctx, ClaimEntry{Key: key, Identity: identity("lost")})
		if err != nil {
			continue // all tries were struck
		}
		if begun++; got.State != ClaimHeld {
			t.Fatalf("round %d: %+v", i, got)
		}
		if mine, wanted, err := s.Claims.Hold(ctx, key, got.Fence, identity("lost")); err == nil && (!mine || wanted) {
			t.Fatalf("round %d: holding = %v, %v", i, mine, wanted)
		}
		if ok, err := s.Claims.End(ctx, key, got.Fence, ClaimEnd{Value: []byte("v"), Lasts: time.Minute}); err != nil {
			continue
		} else if !ok {
			t.Fatalf("round %d: not ended", i)
		}
		if _, err := s.Claims.Enter(ctx, ClaimEntry{Key: key, Callers: 3}); err != nil {
			unknown += 3
		} else {
			want += 3
		}
		if err := s.Claims.Count(ctx, map[SavingsSource]int{SavedAfter: 2}); err != nil {
			unknown += 2
		} else {
			want += 2
		}
	}
	if begun < rounds/2 || thief.Stolen() < rounds/2 {
		t.Fatalf("%d begun, %d answers stolen", begun, thief.Stolen())
	}
	if got := counted(t, plain)[SavedAfter]; got < want || got > want+unknown {
		t.Errorf("counted %d, want %d, and up to %d more of which nobody knows", got, want, unknown)
	}
}

// What a solve needs was there before it ended: in a Redis that is out of memory it is
// held, ended and shared all the same.
func TestClaimsOutOfMemory(t *testing.T) {
	t.Parallel()
	s, key := open(t, Options{Addresses: "redis://" + redistest.Server(t, "--maxmemory-policy", "noeviction")}), identity("memory")
	got := claimed(t, s, key)
	if err := s.db.Slow.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if mine, _, err := s.Claims.Hold(t.Context(), key, got.Fence, "x"); err != nil || !mine {
		t.Errorf("holding: %v, %v", mine, err)
	}
	if ok, err := s.Claims.End(t.Context(), key, got.Fence, ClaimEnd{Value: []byte("v"), Lasts: time.Minute}); err != nil || !ok {
		t.Errorf("ending: %v, %v", ok, err)
	}
	if shared, err := s.Claims.Enter(t.Context(), ClaimEntry{Key: key, Solve: got.Solve, Callers: 1}); err != nil || string(shared.Value) != "v" {
		t.Errorf("sharing: %+v, %v", shared, err)
	}
	if err := s.Claims.Count(t.Context(), map[SavingsSource]int{SavedReplay: 1}); err != nil {
		t.Errorf("counting: %v", err)
	}
	want := map[SavingsSource]int64{SavedReplay: 1, SavedWaiting: 1}
	if sum := counted(t, s); !maps.Equal(sum, want) {
		t.Errorf("counted %v, want %v", sum, want)
	}
}

// A Redis that is away is told as by every call.
func TestClaimsWithoutRedis(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addresses: "redis://" + redistest.FreeAddress(t)})
	_, entering := s.Claims.Enter(t.Context(), ClaimEntry{Key: "k"})
	_, _, holding := s.Claims.Hold(t.Context(), "k", 1, "x")
	_, ending := s.Claims.End(t.Context(), "k", 1, ClaimEnd{})
	_, telling := s.Claims.Days(t.Context())
	for what, err := range map[string]error{
		"entering": entering, "holding": holding, "letting go": s.Claims.LetGo(t.Context(), "k", 1, "x"), "ending": ending, "telling": telling,
		"counting": s.Claims.Count(t.Context(), map[SavingsSource]int{SavedPool: 1}),
	} {
		if !errors.Is(err, redisdb.ErrDown) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Redis' clock is set back. By a little, and nothing that is under way or shared is given
// up for it. By more, and nobody knows how old anything is: it is over.
func TestClaimsAndAClockThatIsSetBack(t *testing.T) {
	for _, c := range []struct {
		back  time.Duration
		stays bool
	}{{9 * time.Second, true}, {11 * time.Second, false}, {24 * time.Hour, false}} {
		synctest.Test(t, func(t *testing.T) {
			server := redistest.InBubble(t)
			s := idle(t, server)
			solving, solved, failed := identity("solving"), identity("solved"), identity("failed")
			under := claimed(t, s, solving)
			token, failure := claimed(t, s, solved), claimed(t, s, failed)
			for key, e := range map[captcha.ID]ClaimEnd{solved: {Value: []byte("v"), Lasts: time.Hour}, failed: {Value: []byte("why"), Failed: true}} {
				fence := map[captcha.ID]int64{solved: token.Fence, failed: failure.Fence}[key]
				if ok, err := s.Claims.End(t.Context(), key, fence, e); err != nil || !ok {
					t.Fatal(ok, err)
				}
			}
			server.SetTime(time.Now().Add(-c.back))
			enter := func(key captcha.ID, solve string) Claim {
				t.Helper()
				got, err := s.Claims.Enter(t.Context(), ClaimEntry{Key: key, Solve: solve})
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			if got := enter(failed, failure.Solve); (string(got.Value) == "why") != c.stays {
				t.Errorf("back by %v, who waited: %+v", c.back, got)
			}
			if got := enter(solved, token.Solve); (got.State == ClaimShared) != c.stays {
				t.Errorf("back by %v, the token: %+v", c.back, got)
			}
			got := enter(solving, "")
			if c.stays && got.State != ClaimSolving || !c.stays && (got.State != ClaimHeld || got.Solve == under.Solve || got.Fence <= under.Fence) {
				t.Errorf("back by %v, the solve: %+v after %+v", c.back, got, under)
			}
		})
	}
}

// A claim whose lease lies too far in the future, and whose solve does not, is taken over.
func TestALeaseOfAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := redistest.InBubble(t)
		s, key := idle(t, server), identity("lease")
		first := claimed(t, s, key)
		time.Sleep(ClaimLongest - time.Second)
		if mine, _, err := s.Claims.Hold(t.Context(), key, first.Fence, "x"); err != nil || !mine {
			t.Fatal(mine, err)
		}
		server.SetTime(time.Now().Add(-time.Minute))
		got, err := s.Claims.Enter(t.Context(), ClaimEntry{Key: key})
		if err != nil || got.State != ClaimHeld || got.Solve != first.Solve || got.Fence <= first.Fence {
			t.Errorf("entering: %+v, %v after %+v", got, err, first)
		}
	})
}

// Days are those of Redis' clock, whatever this process has, and are kept for seven.
func TestSavingsByDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := redistest.InBubble(t)
		s := idle(t, server)
		at := time.Date(2028, 2, 28, 23, 59, 59, 0, time.UTC)
		server.SetTime(at)
		count := func(n int) {
			t.Helper()
			if err := s.Claims.Count(t.Context(), map[SavingsSource]int{SavedSolve: n}); err != nil {
				t.Fatal(err)
			}
		}
		told := func(want ...int64) {
			t.Helper()
			days, err := s.Claims.Days(t.Context())
			if err != nil || len(days) != 7 {
				t.Fatal(days, err)
			}
			for i, day := range days {
				date := at.AddDate(0, 0, -i).Format(time.DateOnly)
				if day.Date != date || day.BySource[SavedSolve] != want[i] {
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
		if left := KeysOf(t, s.Store, s.savings("*")); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// The scripts' calendar is that of everybody, over two centuries.
func TestDates(t *testing.T) {
	testkit.WithoutRace(t)
	s := open(t, Options{Addresses: "redis://embedded", Dial: redistest.Embedded(t).Dial})
	first, days := time.Date(2000, 1, 1, 23, 59, 59, 999e6, time.UTC), 200*365
	script := source("savings.lua") + `
		local dates = {}
		for i = 0, tonumber(ARGV[2]) - 1 do dates[#dates + 1] = date(ARGV[1] + i * day_ms) end
		return dates`
	const step = 500 // a script may take a second, also on a busy machine
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
