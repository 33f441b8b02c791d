//go:build !race

package pgstore

import (
	"fmt"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

func record(id string, ended time.Time) history.Record {
	ended = ended.UTC().Truncate(time.Millisecond)
	identity := captcha.Identity{Type: captcha.Turnstile, Sitekey: "site"}.ID()
	return history.Record{
		ID: id + "." + string(identity), Identity: identity, Target: "target", Owner: "owner@example.com", Type: captcha.Turnstile,
		Sitekey: "site", Pageurl: "https://example.com", Provider: "provider", Choice: "cheapest", Task: "task", How: history.Solved,
		Placed: ended.Add(-30 * time.Second), Submitted: ended.Add(-20 * time.Second), Ended: ended, Polls: 2, Price: 1000,
	}
}

func mustWrite(t *testing.T, s *Store, records ...history.Record) {
	t.Helper()
	if err := s.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

// countShown returns how many of the records each method returns: by site, by status, by ID, and in
// the figures of their days.
func countShown(t *testing.T, s *Store, records ...history.Record) (site, tasks, solves int, orders int64) {
	t.Helper()
	site = len(read(t, s, records[0].Sitekey))
	page, err := s.Tasks(t.Context(), history.StatusSolved, history.Query{Limit: history.MostLimit})
	if err != nil {
		t.Fatal(err)
	}
	days := map[string]bool{}
	for _, r := range records {
		if _, found, err := s.Solve(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		} else if found {
			solves++
		}
		if date := r.Ended.Format(time.DateOnly); !days[date] {
			days[date] = true
			day, err := s.Day(t.Context(), r.Ended)
			if err != nil {
				t.Fatal(err)
			}
			orders += day.Types[captcha.Turnstile].Orders()
		}
	}
	return site, len(page.Records), solves, orders
}

func read(t *testing.T, s *Store, sitekey string) []history.Record {
	t.Helper()
	page, err := s.Site(t.Context(), sitekey, history.Query{Limit: history.MostLimit})
	if err != nil {
		t.Fatal(err)
	}
	return page.Records
}

// Records older than Options.Keep are neither returned nor written again. They are deleted in small
// batches, while the audit stays. The figures of the first kept day also stay.
func testExpiredRecords(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	now := time.Now()
	first := now.UTC().Truncate(24 * time.Hour).Add(-48 * time.Hour) // first kept day; the retention time begins at noon of this day
	noon := first.Add(12 * time.Hour)
	old, _ := openStore(t, address, postgrestest.Patience, 90*24*time.Hour)
	s, _ := openStore(t, address, postgrestest.Patience, now.Sub(noon))
	records := []history.Record{
		record("kept1", now), record("kept2", noon.Add(10*time.Minute)),
		record("gone1", noon.Add(-time.Minute)), record("gone2", first.Add(-time.Millisecond)), record("gone3", now.Add(-10*24*time.Hour)),
	}
	s.o.KeepAudit = 90 * 24 * time.Hour
	if err := old.WriteEntries(t.Context(), []history.Entry{{ID: "kept", Key: "key", At: records[4].Ended, Action: history.Taken}}); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, old, records...)
	check := func(s *Store, kept int, counted int64) {
		t.Helper()
		if site, tasks, solves, orders := countShown(t, s, records...); site != kept || tasks != kept || solves != kept || orders != counted {
			t.Errorf("shown: %d of the site, %d of the status, %d by ID, %d orders; want %d, %d orders", site, tasks, solves, orders, kept, counted)
		}
	}
	check(old, 5, 5)
	check(s, 2, 3)
	mustWrite(t, s, records...)
	check(s, 2, 3)
	check(old, 5, 5)
	// The statement adds more old records, some of them errors, and figures of many days. A trigger
	// records each deletion.
	server.SQL(t, address, `insert into captcha_solves (id, identity, target, owner, type, sitekey, pageurl, provider, task, how, status,
				code, placed, submitted, ended, solved, polls, callback, price, choice)
			select 'old' || n, identity, target, owner, type, 'others', pageurl, provider, task, how, case when n % 4 = 0 then 'error' else 'solved' end,
				code, placed, submitted, ended - n * interval '1 second', solved, polls, callback, price, choice
			from captcha_solves, generate_series(1, 3500) n where id like 'gone3%';
		insert into captcha_figures select day - 1, 'target' || n, owner, type, 1, 0, 0, 0, 0, 0, 0, 0
			from captcha_figures, generate_series(1, 2500) n where day = (select min(day) from captcha_figures);
		create table deletions (n bigint);
		create function note() returns trigger language plpgsql as $$ begin insert into deletions select count(*) from gone; return null; end $$;
		create trigger note after delete on captcha_solves referencing old table as gone for each statement execute function note();
		create trigger note after delete on captcha_figures referencing old table as gone for each statement execute function note()`)
	if err := s.forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := func() string {
		return server.SQL(t, address, `select (select count(*) from captcha_solves), (select count(*) from captcha_figures),
			(select count(*) from captcha_audit), (select count(*) from captcha_audit_figures)`)
	}
	if got := left(); got != "2|2|1|1" {
		t.Errorf("left: %s", got)
	}
	if got := server.SQL(t, address, "select max(n), sum(n) >= 6000 from deletions"); got != "1000|t" {
		t.Errorf("deleted at once at most, and enough: %s", got)
	}
	check(s, 2, 3)
	mustWrite(t, s, records...) // written again after the deletion
	check(s, 2, 3)
	check(old, 2, 3)
	mustWrite(t, old, records...)
	postgrestest.Run(t, s.Run) // Run deletes expired rows periodically
	testkit.Within(t, postgrestest.Patience, "deleted", func() bool { return left() == "2|2|1|1" })
}

// Entries older than Options.KeepAudit are neither returned nor written again. They are deleted in
// small batches, for each key. The figures of the first kept day stay. The records and their figures
// also stay, because they have another retention time.
func testExpiredEntries(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	now := time.Now()
	first := now.UTC().Truncate(24 * time.Hour).Add(-48 * time.Hour)
	noon := first.Add(12 * time.Hour)
	old, _ := openStore(t, address, postgrestest.Patience, 90*24*time.Hour)
	s, _ := openStore(t, address, postgrestest.Patience, 90*24*time.Hour)
	s.o.KeepAudit = now.Sub(noon)
	var batch []history.Entry
	for i, at := range []time.Time{now, noon.Add(10 * time.Minute), noon.Add(-time.Minute), first.Add(-time.Millisecond), now.Add(-10 * 24 * time.Hour)} {
		for _, key := range []string{"a", "b", "c"} {
			batch = append(batch, history.Entry{ID: fmt.Sprint(i), Key: key, At: at.UTC().Truncate(time.Millisecond), Action: history.Taken})
		}
	}
	days := []time.Time{now, now.Add(-24 * time.Hour), first, first.Add(-24 * time.Hour), now.Add(-10 * 24 * time.Hour)}
	write := func(s *Store) {
		t.Helper()
		if err := s.WriteEntries(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	check := func(s *Store, shown int, counted int64) {
		t.Helper()
		for _, key := range []string{"a", "b", "c"} {
			page, err := s.Entries(t.Context(), key, history.Query{Limit: 100})
			if err != nil || len(page.List) != shown {
				t.Errorf("%s: %d entries, %v; want %d", key, len(page.List), err, shown)
			}
			taken := int64(0)
			for _, day := range days {
				keys, err := s.KeyDay(t.Context(), day)
				if err != nil {
					t.Fatal(err)
				}
				taken += keys[key].HandedOut
			}
			if taken != counted {
				t.Errorf("%s: %d are counted, want %d", key, taken, counted)
			}
		}
	}
	mustWrite(t, old, record("kept", now.Add(-20*24*time.Hour)))
	write(old)
	check(old, 5, 5)
	check(s, 2, 3)
	write(s)
	check(old, 5, 5)
	server.SQL(t, address, `insert into captcha_audit select key, at - n * interval '1 second', id || '-' || n, action, target, token, source, image, price
			from captcha_audit, generate_series(1, 700) n where id = '4';
		insert into captcha_audit_figures select day - n, key, 1, 0, 0, 0, 0, 0
			from captcha_audit_figures, generate_series(1, 800) n where day = (select min(day) from captcha_audit_figures);
		create table deletions (n bigint);
		create function note() returns trigger language plpgsql as $$ begin insert into deletions select count(*) from gone; return null; end $$;
		create trigger note after delete on captcha_audit referencing old table as gone for each statement execute function note();
		create trigger note after delete on captcha_audit_figures referencing old table as gone for each statement execute function note()`)
	postgrestest.Run(t, s.Run) // Run deletes expired rows periodically
	left := `select (select count(*) from captcha_audit), (select count(*) from captcha_audit_figures),
		(select count(*) from captcha_solves), (select count(*) from captcha_figures)`
	testkit.Within(t, postgrestest.Patience, "deleted", func() bool {
		return server.SQL(t, address, left) == "6|6|1|1"
	})
	if got := server.SQL(t, address, "select max(n), sum(n) >= 4500 from deletions"); got != "1000|t" {
		t.Errorf("deleted at once at most, and enough: %s", got)
	}
	write(s) // written again after the deletion
	check(s, 2, 3)
	check(old, 2, 3)
}

// If a record contains invalid UTF-8, or texts too long for an index, the store writes the part that
// the server accepts. Such a record does not block other records, and a query for such a text
// returns no error.
func testInvalidTexts(t *testing.T, server *postgrestest.Server) {
	s, _ := openStore(t, server.Database(t), postgrestest.Patience, 0)
	long := ""
	for n := range 20_000 { // PostgreSQL must not be able to compress the text
		long += string(rune('!' + n*n%7919%90))
	}
	good := record("good", time.Now())
	for _, text := range []string{"\x00", "a\x00b", "\xff", "\xc3", "\xff\xfe", long, long + "é", "ä" + long} {
		bad := record("bad"+text, time.Now())
		bad.Identity, bad.Target, bad.Owner, bad.Type = captcha.ID(text), text, text, captcha.Type(text)
		bad.Sitekey, bad.Pageurl, bad.Provider, bad.Task, bad.How, bad.Code, bad.Choice = text, text, text, text, history.How(text), text, text
		again := bad
		again.ID, again.Owner = "again"+bad.ID, text+"\xff"
		mustWrite(t, s, bad, good, again)
		got := read(t, s, text)
		if len(got) < 2 {
			t.Errorf("%.10q: %d records", text, len(got))
		}
		if _, found, err := s.Solve(t.Context(), bad.ID); err != nil || !found {
			t.Errorf("%.10q: %v, %v", text, found, err)
		}
		if page, err := s.Tasks(t.Context(), history.StatusError, history.Query{Limit: 10, Targets: []string{text}}); err != nil || len(page.Records) < 2 {
			t.Errorf("%.10q: %d records of the target, %v", text, len(page.Records), err)
		}
	}
	if _, found, err := s.Solve(t.Context(), good.ID); err != nil || !found {
		t.Errorf("the good one: %v, %v", found, err)
	}
	if got := read(t, s, "\x00\xff unknown"); len(got) != 0 {
		t.Errorf("unknown: %+v", got)
	}
}
