//go:build !race

package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/history/redisstore"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// expiring is a Redis in which every key expires.
type expiring struct {
	t   *testing.T
	db  *redisdb.DB
	s   *redisstore.Store
	now time.Time
}

// write writes two records for each kind of end, and two entries for each action. The
// records and entries are from two days.
func (e expiring) write(round int) {
	e.t.Helper()
	now := e.now
	var records []history.Record
	for i, how := range []history.How{history.Solved, history.Discarded, history.Failed, history.Refused, history.Lost} {
		for day := range 2 {
			identity := captcha.Identity{Type: captcha.Turnstile, Sitekey: "site"}.ID()
			records = append(records, history.Record{
				ID: fmt.Sprintf("o%d%d%d.%s", round, i, day, identity), Identity: identity, Target: "login", Type: captcha.Turnstile,
				Sitekey: "site", Task: fmt.Sprint("task", i), How: how, Placed: now, Submitted: now, Ended: now.Add(-time.Duration(day) * 24 * time.Hour),
			})
		}
	}
	var entries []history.Entry
	for i, action := range []history.Action{history.Taken, history.Bought, history.Accepted, history.Rejected} {
		for day := range 2 {
			at := now.Add(-time.Duration(day) * 24 * time.Hour)
			entries = append(entries, history.Entry{ID: fmt.Sprintf("e%d%d%d", round, i, day), At: at, Key: "key", Action: action})
		}
	}
	for what, write := range map[string]func(context.Context) error{
		"records": func(ctx context.Context) error { return e.s.Write(ctx, records) },
		"entries": func(ctx context.Context) error { return e.s.WriteEntries(ctx, entries) },
	} {
		if err := write(e.t.Context()); err != nil {
			e.t.Fatalf("writing %s: %v", what, err)
		}
	}
}

// remainingLives returns the remaining life of each key.
func (e expiring) remainingLives() map[string]time.Duration {
	e.t.Helper()
	lives := map[string]time.Duration{}
	for _, key := range e.db.Slow.Keys(e.t.Context(), "*").Val() {
		lives[key] = e.db.Slow.PTTL(e.t.Context(), key).Val()
	}
	return lives
}

// Each key expires after the retention time of its kind, counted from the last write to the key.
// Only the mark of a record is not renewed by a write, because the mark only has to outlive the
// record.
func TestEachKeyExpires(t *testing.T) {
	db, err := redisdb.Open(redisdb.Options{
		Addresses: "redis://" + redistest.Server(t), Prefix: "p", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const keep, keepAudit = 100 * time.Hour, 70 * time.Hour
	e := expiring{t, db, redisstore.New(db, redisstore.Options{Keep: keep, KeepAudit: keepAudit}), time.Now().UTC().Truncate(time.Millisecond)}
	kinds := map[string]struct {
		keep time.Duration
		keys int
	}{
		"solve": {keep, 10}, "alias": {keep, 5}, "records": {keep, 3}, "day": {keep, 2},
		"audit": {keepAudit, 1}, "usage": {keepAudit, 2},
	}
	for round := range 2 {
		e.write(round)
		keys := map[string]int{}
		for key, left := range e.remainingLives() {
			kind := strings.Split(key, ":")[1]
			if kind == "solve" && strings.Contains(key, ":o0") && round > 0 {
				continue
			}
			keys[kind]++
			if want := kinds[kind].keep; left > want || left < want-time.Minute {
				t.Errorf("round %d: %s expires in %v, want %v", round, key, left, want)
			}
			if err := db.Slow.PExpire(t.Context(), key, time.Hour).Err(); err != nil { // as if the key were old
				t.Fatal(err)
			}
		}
		for kind, want := range kinds {
			if n := keys[kind]; n != want.keys {
				t.Errorf("round %d: %d keys of the kind %s, want %d", round, n, kind, want.keys)
			}
		}
	}
}

// Each list keeps its newest members: 50 records of a site, 1,000 records of a status, and 10,000
// entries of a key.
func TestListsKeepTheNewest(t *testing.T) {
	place := redistest.Place{Addresses: "redis://" + redistest.Server(t)}
	s := redisstore.New(openDB(t, place, "p"), redisstore.Options{})
	began := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	identity := captcha.Identity{Type: captcha.Turnstile, Sitekey: "site"}.ID()
	for batch := range 101 { // the last record is the newest one
		var records []history.Record
		var entries []history.Entry
		for i := range 100 {
			n := 100*batch + i
			at := began.Add(time.Duration(n) * time.Millisecond)
			records = append(records, history.Record{
				ID: fmt.Sprintf("o%d.%s", n, identity), Identity: identity, Sitekey: "site", How: history.Solved, Placed: at, Submitted: at, Ended: at,
			})
			entries = append(entries, history.Entry{ID: fmt.Sprint("e", n), At: at, Key: "key", Action: history.Taken})
		}
		if batch < 11 {
			if err := s.Write(t.Context(), records); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.WriteEntries(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
	}
	site, err := s.Site(t.Context(), "site", history.Query{Limit: history.MostLimit})
	if n := len(site.Records); err != nil || n != 50 || site.Records[0].ID != "o1099."+string(identity) {
		t.Errorf("%d records of the site, %v; want the newest 50", n, err)
	}
	solved, err := s.Tasks(t.Context(), history.StatusSolved, history.Query{Limit: 2000})
	if n := len(solved.Records); err != nil || n != 1000 || solved.Records[0].ID != "o1099."+string(identity) {
		t.Errorf("%d solved records, %v; want the newest 1,000", n, err)
	}
	entries, err := s.Entries(t.Context(), "key", history.Query{Limit: 20_000})
	if n := len(entries.List); err != nil || n != 10_000 || entries.List[0].ID != "e10099" {
		t.Errorf("%d entries, %v; want the newest 10,000", n, err)
	}
}

// Records and audit entries have separate retention times.
func TestKeepingTimes(t *testing.T) {
	place := redistest.Place{Addresses: "redis://" + redistest.Server(t)}
	historytest.TestKeepingTimes(t, func(t testing.TB, keep, keepAudit time.Duration) (history.Store, history.Audit) {
		db := openDB(t, place, fmt.Sprint("history", prefixes.Add(1)))
		s := redisstore.New(db, redisstore.Options{Keep: keep, KeepAudit: keepAudit})
		return s, s
	})
}
