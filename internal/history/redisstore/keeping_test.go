//go:build !race

package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/redisdb/redistest"
)

// withStore runs a test in a bubble with a store whose two retention times differ.
func withStore(t *testing.T, test func(t *testing.T, redis *redistest.Bubble, s *redisstore.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		db := openDB(t, redistest.Place{Addresses: redistest.BubbleAddress, Dial: redis.Dial}, "kept")
		test(t, redis, redisstore.New(db, redisstore.Options{Keep: 48 * time.Hour, KeepAudit: 24 * time.Hour}))
	})
}

// solvedRecord returns a record that ends now.
func solvedRecord(sitekey string, n int) history.Record {
	id := captcha.Identity{Type: captcha.Turnstile, Sitekey: sitekey}.ID()
	return history.Record{
		ID: fmt.Sprintf("order%d.%s", n, id), Identity: id, Target: "login", Type: captcha.Turnstile, Sitekey: sitekey,
		Provider: "p", Task: fmt.Sprint("task", n), How: history.Solved, Placed: time.Now(), Submitted: time.Now(), Ended: time.Now(),
	}
}

// countMembers counts the members of all keys whose names contain the given text.
func countMembers(t *testing.T, redis *redistest.Bubble, part string) (n int) {
	t.Helper()
	for _, key := range redis.Keys() {
		if strings.Contains(key, part) {
			members, err := redis.ZMembers(key)
			if err != nil {
				t.Fatal(err)
			}
			n += len(members)
		}
	}
	return n
}

// Each key of the history lives as long as its newest value must be kept. A write removes older
// values from the lists.
func TestHistoryIsKeptForItsTime(t *testing.T) {
	withStore(t, func(t *testing.T, redis *redistest.Bubble, s *redisstore.Store) {
		write := func(n int) {
			t.Helper()
			if err := s.Write(t.Context(), []history.Record{solvedRecord("site", n)}); err != nil {
				t.Fatal(err)
			}
			entry := history.Entry{ID: fmt.Sprint("entry", n), At: time.Now(), Key: "alice", Action: history.Taken, Target: "login"}
			if err := s.WriteEntries(t.Context(), []history.Entry{entry}); err != nil {
				t.Fatal(err)
			}
		}
		for n, pause := range []time.Duration{0, 20 * time.Hour, 30 * time.Hour} {
			time.Sleep(pause)
			write(n)
		}
		lives := map[string]time.Duration{}
		for _, key := range redis.Keys() {
			lives[key] = redis.TTL(key)
		}
		newest := 0
		for key, life := range lives {
			want := 48 * time.Hour
			if strings.HasPrefix(key, "kept:audit:") || strings.HasPrefix(key, "kept:usage:") {
				want = 24 * time.Hour
			}
			// The marks, aliases and days of the first two writes were not renewed by the last
			// write.
			if life == want {
				newest++
			} else if life <= 0 || life > want {
				t.Errorf("%s lives for %v, want at most %v", key, life, want)
			}
		}
		if newest != 7 { // keys: mark, alias, site, status, day, entries, day of the entries
			t.Errorf("%d keys live as long as the newest value: %v", newest, lives)
		}
		for part, want := range map[string]int{":records:{history}:site:": 2, ":records:{history}:solved": 2, ":audit:": 1} {
			if got := countMembers(t, redis, part); got != want {
				t.Errorf("%d members in %s, want %d", got, part, want)
			}
		}
	})
}

// A write that removes older entries of its list counts all of its own.
func TestRemovedEntriesDoNotChangeTheFigures(t *testing.T) {
	withStore(t, func(t *testing.T, redis *redistest.Bubble, s *redisstore.Store) {
		for n := range 3 {
			time.Sleep(15 * time.Hour) // an entry is kept for 24 h
			entry := history.Entry{ID: fmt.Sprint("entry", n), At: time.Now(), Key: "alice", Action: history.Taken, Target: "login"}
			if err := s.WriteEntries(t.Context(), []history.Entry{entry}); err != nil {
				t.Fatal(err)
			}
		}
		if n := countMembers(t, redis, ":audit:"); n != 2 {
			t.Errorf("%d entries are kept, want 2", n)
		}
		today, err := s.KeyDay(t.Context(), time.Now())
		yesterday, err2 := s.KeyDay(t.Context(), time.Now().Add(-15*time.Hour))
		if n := today["alice"].HandedOut + yesterday["alice"].HandedOut; err != nil || err2 != nil || n != 2 {
			t.Errorf("the days of the last two entries count %d, want 2; %v, %v", n, err, err2)
		}
	})
}
