//go:build !race

package pgstore

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// fill writes 50,000 orders of 40 days and as many hand-outs. Every second order is of the site "large", under the
// target "before" in the first 25 days and "now" in the last 15, and some under "rare". The others are of 1,000 sites,
// each with its own target. One order in 13 is an error. Half of the hand-outs are of the key "large".
//
//go:embed testdata/fill.sql
var fill string

// Each query reads its index, and few pages more than its result occupies.
func testIndexes(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	s, _ := openStore(t, address, postgrestest.Patience, 30*24*time.Hour, 30*24*time.Hour)
	for statement := range strings.SplitSeq(fill, ";\n") { // vacuum cannot run in a transaction
		server.SQL(t, address, statement)
	}
	now, days := time.Now(), 24*time.Hour
	page := history.Query{Limit: 50, From: now.Add(-20 * days), To: now.Add(-10 * days),
		Before: history.Position{At: now.Add(-12 * days), ID: "f"}}
	var many []string
	for n := range fewTargets {
		many = append(many, fmt.Sprint("target-", 2*n+1))
	}
	many = append(many, "now", "before")
	forget := func(sql string, kind history.RowKind) []any { return []any{sql, string(kind), s.keep, 100} }
	for name, c := range map[string]struct {
		q         history.Query
		targets   []string
		statement []any // instead of a query
		index     string
		pages     int // most pages
	}{
		"a site": {history.Query{By: history.BySite, Value: "large"}, nil, nil, "captcha_history_site", 100},
		"a site, of few targets": {history.Query{By: history.BySite, Value: "large"},
			[]string{"rare", "target-1", "unknown"}, nil, "captcha_history_site_target", 100},
		"a site, of one of before": {history.Query{By: history.BySite, Value: "large"}, []string{"before"}, nil,
			"captcha_history_site_target", 100},
		"a site, of many targets": {history.Query{By: history.BySite, Value: "large"}, many, nil, "captcha_history_site",
			250},
		"a status": {history.Query{By: history.ByStatus, Value: "solved"}, nil, nil, "captcha_history_status", 100},
		"a status, of few targets": {history.Query{By: history.ByStatus, Value: "error"}, []string{"rare", "before"}, nil,
			"captcha_history_status_target", 150},
		"a status, of many targets": {history.Query{By: history.ByStatus, Value: "solved"}, many, nil,
			"captcha_history_status", 300},
		"a key": {history.Query{By: history.ByKey, Value: "large"}, nil, nil, "captcha_history_key", 100},
		"a key, of few targets": {history.Query{By: history.ByKey, Value: "large"}, []string{"rare", "before"}, nil,
			"captcha_history_key_target", 150},
		"an order":      {history.Query{By: history.ByID, Value: "unknown"}, nil, nil, "captcha_history_pkey", 10},
		"a task":        {history.Query{By: history.ByTask, Value: "100"}, nil, nil, "captcha_history_task", 10},
		"old orders":    {history.Query{}, nil, forget(forgetRows, history.KindOrder), "captcha_history_at", 1500},
		"old hand-outs": {history.Query{}, nil, forget(forgetRows, history.KindHandout), "captcha_history_at", 1500},
		"old figures":   {history.Query{}, nil, forget(forgetDays, history.KindOrder), "captcha_days_pkey", 1500},
	} {
		for place, q := range map[string]history.Query{"first page": {Limit: 50}, "later page": page} {
			t.Run(name+", "+place, func(t *testing.T) {
				q.By, q.Value, q.Targets = c.q.By, c.q.Value, c.targets
				sql, args := s.query(q)
				if c.statement != nil {
					sql, _ = c.statement[0].(string)
					args = c.statement[1:]
				}
				text, pages := explain(t, s, sql, args)
				used := regexp.MustCompile(`(using|Bitmap Index Scan on) ` + c.index + ` `).MatchString(text)
				if !used || strings.Contains(text, "Seq Scan") || pages > c.pages {
					t.Errorf("%d pages, want %d by %s:\n%s", pages, c.pages, c.index, text)
				}
			})
		}
	}
}

// explain returns the plan of a statement, and how many pages of 8 kB it reads.
func explain(t *testing.T, s *Tables, sql string, args []any) (text string, pages int) {
	t.Helper()
	testkit.NoError(t, s.db.Do(t.Context(), func(ctx context.Context, tx postgres.Tx) error {
		text = ""
		if _, err := tx.Exec(ctx, unsorted); err != nil {
			return err
		}
		var line string
		return tx.Each(ctx, []any{&line}, func() { text += line + "\n" }, "explain (analyze, buffers, timing off) "+sql,
			args...)
	}))
	var hit, read int
	_, buffers, _ := strings.Cut(text, "Buffers: shared ")
	if n, _ := fmt.Sscanf(buffers, "hit=%d read=%d", &hit, &read); n == 0 {
		if _, err := fmt.Sscanf(buffers, "read=%d", &read); err != nil {
			t.Fatal(text)
		}
	}
	return text, hit + read
}
