//go:build !race

package pgstore

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
)

// openFilled returns a store with 50,000 records of 40 days, their figures, and 50,000 entries. Every
// second record is of the site "large". The target of these records is "before" in the first 25 days
// and "now" in the last 15 days, but some of these records are of the target "rare". The other
// records are of 1,000 sites, and each site has its own target. One record in 13 is an error.
func openFilled(t *testing.T, server *postgrestest.Server) *Store {
	t.Helper()
	address := server.Database(t)
	s, _ := openStore(t, address, postgrestest.Patience, 30*24*time.Hour)
	server.SQL(t, address, `insert into captcha_solves (id, identity, target, owner, type, sitekey, pageurl, provider, task, how,
				status, code, placed, submitted, ended, solved, polls, callback, price, choice)
			select md5(n::text) || '.' || md5(site), md5(site),
				case when site <> 'large' then 'target-' || site when n % 2500 = 0 then 'rare'
					when at > now() - interval '15 days' then 'now' else 'before' end,
				'owner', 'turnstile', site, 'https://example.com/' || site, 'provider', n::text, how,
				case how when 'solved' then 'solved' else 'error' end, '', at, at, at, at, 3, false, 1000, ''
			from (select n, case when n % 2 = 0 then 'large' else (n % 2001)::text end as site,
					case when n % 13 = 0 then 'failed' else 'solved' end as how, now() - n * interval '40 days' / 50000 as at
				from generate_series(1, 50000) n) made;
		insert into captcha_figures select (ended at time zone 'UTC')::date, target, owner, type,
				count(*) filter (where how = 'solved'), 0, count(*) filter (where how = 'failed'), 0, 0, 0, sum(price), 0
			from captcha_solves group by 1, 2, 3, 4 order by 1`)
	// The audit gets one entry for each record, under 200 keys. Half of the entries are under the key
	// "large".
	server.SQL(t, address, `insert into captcha_audit select case when n % 2 = 0 then 'large' else 'key-' || n % 199 end, ended, n::text,
				'taken', target, id, 'pool', '', 0
			from (select *, row_number() over (order by id) as n from captcha_solves) numbered;
		insert into captcha_audit_figures select current_date - n % 41, 'key-' || n / 41, 1, 0, 0, 0, 0, 0 from generate_series(1, 41000) n order by 1, 2`)
	for _, table := range []string{"captcha_solves", "captcha_figures", "captcha_audit", "captcha_audit_figures"} {
		server.SQL(t, address, "vacuum analyze "+table)
	}
	return s
}

// statement is an SQL statement for the server. If the field ordered is true, the SQL statement of
// the constant unsorted is executed first.
type statement struct {
	sql     string
	args    []any
	ordered bool
}

// plan returns the server's plan and the number of 8 kB pages that the plan reads.
func (q statement) plan(t *testing.T, s *Store) (text string, pages int) {
	t.Helper()
	var lines []string
	if err := s.db.Do(t.Context(), func(ctx context.Context, tx postgres.Tx) error {
		lines = nil
		if q.ordered {
			if _, err := tx.Exec(ctx, unsorted); err != nil {
				return err
			}
		}
		var line string
		return tx.Each(ctx, []any{&line}, func() { lines = append(lines, line) }, "explain (analyze, buffers, timing off) "+q.sql, q.args...)
	}); err != nil {
		t.Fatal(err)
	}
	text = strings.Join(lines, "\n")
	for _, n := range regexp.MustCompile(`Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?`).FindStringSubmatch(text)[1:] {
		more, _ := strconv.Atoi(n) // "" = 0
		pages += more
	}
	return text, pages
}

// Each query uses its index. It reads only a few pages more than its result occupies.
func testIndexes(t *testing.T, server *postgrestest.Server) {
	s := openFilled(t, server)
	now, days := time.Now(), 24*time.Hour
	top := history.Query{Limit: 50}
	page := history.Query{
		Limit: 50, From: now.Add(-20 * days), To: now.Add(-10 * days), Before: history.Position{Ended: now.Add(-12 * days), ID: "f"},
	}
	before, few, many := top, page, page
	before.Targets = []string{"before"}
	few.Targets = []string{"rare", "target-1", "target-3", "unknown"}
	many.Targets = []string{"now", "before"}
	for n := range mostPages / many.Limit {
		many.Targets = append(many.Targets, fmt.Sprintf("target-%d", 2*n+1))
	}
	query := func(by, value string, q history.Query) statement {
		sql, args := solves.query(by, value, s.o.Keep, q)
		if by == "key" {
			sql, args = audit.query(by, value, s.o.Keep, q)
		}
		return statement{sql, args, true}
	}
	forget := func(sql string, args ...any) statement {
		return statement{sql, append([]any{s.o.Keep, 100}, args...), false}
	}
	yesterday := now.Add(-days).UTC().Format(time.DateOnly)
	for name, c := range map[string]struct {
		statement
		index string
		pages int // maximum number of pages
	}{
		"a site":                     {query("sitekey", "large", top), "captcha_solves_site", 100},
		"a site of few records":      {query("sitekey", "1001", top), "captcha_solves_site", 100},
		"a site, a later page":       {query("sitekey", "large", page), "captcha_solves_site", 100},
		"a site, of few targets":     {query("sitekey", "large", few), "captcha_solves_site_target", 100},
		"a site, of one of before":   {query("sitekey", "large", before), "captcha_solves_site_target", 100},
		"a site, of many targets":    {query("sitekey", "large", many), "captcha_solves_site", 100},
		"a status":                   {query("status", "solved", top), "captcha_solves_status", 100},
		"a status, a later page":     {query("status", "error", page), "captcha_solves_status", 100},
		"a status, of few targets":   {query("status", "solved", few), "captcha_solves_status_target", 250},
		"a status, of one of before": {query("status", "solved", before), "captcha_solves_status_target", 100},
		"a status, of many targets":  {query("status", "solved", many), "captcha_solves_status", 100},
		"a solve":                    {statement{readSolve, []any{"unknown", s.o.Keep}, true}, "captcha_solves_pkey", 10},
		"a task":                     {statement{readTask, []any{"100", s.o.Keep}, true}, "captcha_solves_task", 10},
		"a day":                      {statement{figured.query(), []any{yesterday, s.o.Keep}, false}, "captcha_figures_pkey", 100},
		"old records":                {forget(forgetSolves, history.StatusSolved), "captcha_solves_status", 1500},
		"old errors":                 {forget(forgetSolves, history.StatusError), "captcha_solves_status", 1500},
		"old figures":                {forget(forgetFigures), "captcha_figures_pkey", 1500},
		"a key":                      {query("key", "large", top), "captcha_audit_pkey", 100},
		"a key, a later page":        {query("key", "large", page), "captcha_audit_pkey", 100},
		"a key, of few targets":      {query("key", "large", few), "captcha_audit_target", 100},
		"a key, of one of before":    {query("key", "large", before), "captcha_audit_target", 100},
		"a key, of many targets":     {query("key", "large", many), "captcha_audit_pkey", 250},
		"a day by key":               {statement{keyDays.query(), []any{yesterday, s.o.Keep}, false}, "captcha_audit_figures_pkey", 100},
		"old entries":                {forget(forgetEntries), "captcha_audit_pkey", 1500},
		"old figures of keys":        {forget(forgetKeyDays), "captcha_audit_figures_pkey", 1500},
	} {
		t.Run(name, func(t *testing.T) {
			text, pages := c.plan(t, s)
			used := regexp.MustCompile(`(using|Bitmap Index Scan on) ` + c.index + ` `).MatchString(text)
			if !used || strings.Contains(text, "Seq Scan") || pages > c.pages {
				t.Errorf("%d pages, want %d by %s:\n%s", pages, c.pages, c.index, text)
			}
			t.Logf("%d pages", pages)
		})
	}
}
