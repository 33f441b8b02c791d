package pool_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/ondemand/dedup"
	"poold/internal/ondemand/redisclaims"
	"poold/internal/permits"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// The rights in the docs suffice for all features, and each of them is needed.
func TestTheRightsThatTheDocsName(t *testing.T) {
	t.Parallel()
	words := redistest.Rights(t)
	addr := redistest.Server(t, append([]string{"--user"}, words...)...)
	o := pool.Options{Addresses: "redis://poold:" + redistest.Password + "@" + addr}
	for name, test := range pool.RightsSuite {
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
	neighbours := opened(t, o.Addresses)
	t.Run("Claims", func(t *testing.T) { testClaims(t, neighbours) })
	t.Run("Permits", func(t *testing.T) { testPermits(t, neighbours) })
	t.Run("Tasks", func(t *testing.T) { testTasks(t, neighbours) })
	t.Run("Archive", func(t *testing.T) { testArchive(t, neighbours) })
	t.Run("Audit", func(t *testing.T) { testAudit(t, neighbours) })
	if denied := redistest.Do(t, addr, "ACL", "LOG"); denied != "[]" {
		t.Errorf("Redis denied something: %s", denied)
	}
	used := redistest.Do(t, addr, "INFO", "commandstats")
	for _, word := range words {
		command, is := strings.CutPrefix(word, "+")
		if is && command != "cluster|slots" && command != "command" && !strings.Contains(used, "cmdstat_"+command+":") {
			t.Errorf("the docs grant %s, which nothing needed", word)
		}
	}
}

// opened connects to Redis as the other packages with Redis keys do.
func opened(t *testing.T, addresses string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(redisdb.Options{Addresses: addresses, Prefix: "test-neighbours", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// testClaims uses the rights that the claims need.
func testClaims(t *testing.T, db *redisdb.DB) {
	claims, ctx := redisclaims.New(db, redisclaims.Options{}), t.Context()
	held, err := claims.Enter(ctx, dedup.ClaimEntry{Key: "k", Identity: "x"})
	if err != nil || held.State != dedup.ClaimHeld {
		t.Fatalf("entering: %+v, %v", held, err)
	}
	if mine, _, err := claims.Hold(ctx, "k", held.Fence, "x"); err != nil || !mine {
		t.Errorf("holding: %v, %v", mine, err)
	}
	if err := claims.Release(ctx, "k", held.Fence, "x"); err != nil {
		t.Errorf("letting go: %v", err)
	}
	if ok, err := claims.End(ctx, "k", held.Fence, dedup.ClaimEnd{Value: []byte("v"), Lasts: time.Minute}); err != nil || !ok {
		t.Errorf("ending: %v, %v", ok, err)
	}
	if shared, err := claims.Enter(ctx, dedup.ClaimEntry{Key: "k", Callers: 2}); err != nil || string(shared.Value) != "v" {
		t.Errorf("sharing: %+v, %v", shared, err)
	}
	if err := claims.Count(ctx, map[dedup.SavingsSource]int{dedup.SavedSolve: 1}); err != nil {
		t.Errorf("counting: %v", err)
	}
	if days, err := claims.Days(ctx); err != nil || days[0].BySource[dedup.SavedAfter] != 2 {
		t.Errorf("days: %+v, %v", days, err)
	}
}

// testPermits uses the rights that the permits and standings need.
func testPermits(t *testing.T, db *redisdb.DB) {
	s, ctx, order := permits.New(db), t.Context(), pool.Ref{Identity: captcha.Identity{Type: captcha.Turnstile}.ID(), Order: "o"}
	fault := permits.Fault{Kind: "account", Next: time.Minute, Every: time.Minute}
	if p, err := s.Acquire(ctx, "p", order, 1, time.Minute, -1); err != nil || !p.OK {
		t.Fatal(p, err)
	}
	if refs, err := s.Holders(ctx, "p"); err != nil || len(refs) != 1 {
		t.Errorf("holders: %v, %v", refs, err)
	}
	if counts, err := s.InFlight(ctx, []string{"p"}); err != nil || counts[0] != 1 {
		t.Errorf("in flight: %v, %v", counts, err)
	}
	if names, err := s.Providers(ctx); err != nil || len(names) != 1 {
		t.Errorf("providers: %v, %v", names, err)
	}
	err := errors.Join(s.ReleaseUnplaced(ctx, "p", order), s.Release(ctx, "p", order), s.ReportFault(ctx, "p", fault),
		s.ReportRefusal(ctx, "p"), s.ReportAccepted(ctx, "p"))
	if standing, unread := s.Standing(ctx, "p"); err != nil || unread != nil || standing.Fault == nil {
		t.Errorf("standing: %+v, %v, %v", standing, err, unread)
	}
	if waited, err := s.ProbeNow(ctx, "p"); err != nil || !waited {
		t.Errorf("probe: %v, %v", waited, err)
	}
}

// testArchive uses the rights that the history needs.
func testArchive(t *testing.T, db *redisdb.DB) {
	const ofSite = 60 // more records than the archive keeps for a site
	s, ctx, ended := redisstore.New(db, redisstore.Options{}), t.Context(), time.Now().UTC().Truncate(time.Millisecond)
	var records []history.Record
	for i := range ofSite {
		records = append(records, history.Record{
			ID: fmt.Sprintf("o%03d", i), Task: fmt.Sprint("task", i), Sitekey: "site", Type: captcha.Turnstile, Target: "login", How: history.Solved, Ended: ended,
		})
	}
	for range 2 {
		if err := s.Write(ctx, records); err != nil {
			t.Fatal(err)
		}
	}
	last := records[len(records)-1]
	if page, err := s.Site(ctx, "site", history.Query{Limit: 100}); err != nil || len(page.Records) != 50 || page.Records[0].ID != last.ID {
		t.Errorf("%d of the site, %v", len(page.Records), err)
	}
	if page, err := s.Tasks(ctx, history.StatusSolved, history.Query{Limit: 100, From: ended, To: ended.Add(time.Second)}); err != nil || len(page.Records) != ofSite {
		t.Errorf("%d of the status, %v", len(page.Records), err)
	}
	if day, err := s.Day(ctx, ended); err != nil || day.Types[captcha.Turnstile].Solved != ofSite {
		t.Errorf("%+v, %v", day, err)
	}
	if r, there, err := s.Task(ctx, last.Task); err != nil || !there || r.ID != last.ID {
		t.Errorf("%+v, %v, %v", r, there, err)
	}
}

// testAudit uses the rights that the audit needs.
func testAudit(t *testing.T, db *redisdb.DB) {
	const keep, most, batch = 48 * time.Hour, 10_000, 1000
	s, ctx := redisstore.New(db, redisstore.Options{KeepAudit: keep}), t.Context()
	at := time.Now().UTC().Truncate(24 * time.Hour)
	entry := func(id string, at time.Time) history.Entry {
		return history.Entry{ID: id, Key: "key", At: at, Action: history.Taken, Token: "a token"}
	}
	entries := make([]history.Entry, batch)
	for n := range most/batch + 1 {
		for i := range entries {
			entries[i] = entry(fmt.Sprintf("%d%03d", n, i), at.Add(time.Duration(n)*time.Millisecond))
		}
		for range 2 {
			if err := s.WriteEntries(ctx, entries); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := entry("old", at.Add(-keep))
	if err := s.WriteEntries(ctx, []history.Entry{old}); err != nil {
		t.Error(err)
	}
	found, err := s.Entries(ctx, "key", history.Query{Limit: 2 * most})
	if list := found.List; err != nil || len(list) != most || list[0] != entries[batch-1] || !list[most-1].At.Equal(at.Add(time.Millisecond)) {
		t.Errorf("%d entries, %v", len(list), err)
	}
	if found, err := s.Entries(ctx, "key", history.Query{Limit: 5, From: at, To: at.Add(3 * time.Millisecond)}); err != nil || len(found.List) != 5 || found.List[0].ID != "2999" {
		t.Errorf("%+v, %v", found, err)
	}
	if day, err := s.KeyDay(ctx, at); err != nil || day["key"].HandedOut != most+batch {
		t.Errorf("%+v, %v", day, err)
	}
	if day, err := s.KeyDay(ctx, old.At); err != nil || len(day) != 0 {
		t.Errorf("of one that is too old: %+v, %v", day, err)
	}
	hash := sha256.Sum256([]byte("key"))
	for _, key := range []string{":audit:{history}:" + hex.EncodeToString(hash[:16]), ":usage:{history}:" + at.Format(time.DateOnly)} {
		if ttl := db.Slow.PTTL(ctx, db.Prefix+key).Val(); ttl <= 0 || ttl > keep {
			t.Errorf("%s is kept for %v", key, ttl)
		}
	}
}

// testTasks uses the rights that the compatible endpoints need.
func testTasks(t *testing.T, db *redisdb.DB) {
	s, ctx := compat.NewRecords(db), t.Context()
	if fresh, err := s.Make(ctx, "1", compat.Task{Caller: "c", Identity: "x"}, true); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	if over, err := s.Hold(ctx, []string{"1"}); err != nil || len(over) != 0 {
		t.Errorf("%v are over, %v", over, err)
	}
	if err := s.Serve(ctx, "1", "order", false); err != nil {
		t.Error(err)
	}
	if state, known, err := s.Visit(ctx, "1", "c"); err != nil || !known || state.PollsSinceEnd != 1 {
		t.Errorf("%+v, %v, %v", state, known, err)
	}
}
