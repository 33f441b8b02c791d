//go:build !race

package pgstore

import (
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/postgres/postgrestest"
)

// Records that an older version wrote can be read, whether it wrote them before the migration or after
// it. Their choice is unknown.
func testRecordsOfOlderVersions(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	s, _ := openStore(t, address, postgrestest.Patience, 0)
	before, after, fresh := record("before", time.Now().Add(-time.Second)), record("after", time.Now()), record("fresh", time.Now())
	mustWrite(t, s, before)
	server.SQL(t, address, "alter table captcha_solves drop column choice; delete from poold_schema where version = 7")
	s, _ = openStore(t, address, postgrestest.Patience, 0)
	server.SQL(t, address, `insert into captcha_solves (id, identity, target, owner, type, sitekey, pageurl, provider, task, how, status,
				code, placed, submitted, ended, solved, polls, callback, price)
			select '`+after.ID+`', identity, target, owner, type, sitekey, pageurl, provider, task, how, status,
				code, placed, submitted, '`+after.Ended.Format(time.RFC3339Nano)+`', solved, polls, callback, price
			from captcha_solves where id = '`+before.ID+`'`)
	mustWrite(t, s, fresh)
	for id, want := range map[string]string{before.ID: "", after.ID: "", fresh.ID: fresh.Choice} {
		if got, found, err := s.Solve(t.Context(), id); err != nil || !found || got.Choice != want || got.How != history.Solved {
			t.Errorf("%s: %+v, %v, %v; want the choice %q", id, got, found, err, want)
		}
	}
}
