package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// Try changes nothing. It returns the server's version and the state of the schema, or the reason why
// a later call would fail.
func testTry(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	guest := strings.Replace(address, "postgrestest:", "guest_try:", 1)
	server.SQL(t, "postgres", "create role guest_try login password '"+postgrestest.Password+"'")
	version := strings.Fields(server.SQL(t, "postgres", "show server_version"))[0]
	for _, c := range []struct {
		name, prepare, as string // prepare is SQL, after the steps before
		schema            string
		is                error
		reason            string // "" = no error
	}{
		{"empty", "", address, "; the next start makes its tables", nil, ""},
		{"ready", "migrate", address, ", tables ready", nil, ""},
		{"no right to delete", `grant select, insert, update, delete on all tables in schema public to guest_try;
			revoke delete on captcha_days from guest_try`, guest, "", ErrDown,
			"the user lacks a right on the table captcha_days"},
		{"all rights", "grant delete on captcha_days to guest_try", guest, ", tables ready", nil, ""},
		{"an earlier version", fmt.Sprint("delete from poold_schema where version_id = ", newest), address,
			"; the next start makes its tables", nil, ""},
		{"an earlier version, no right", "", guest, "", ErrDown, "the user lacks the right to make tables"},
		{"a dropped table", "migrate; drop table captcha_history", address, "; the next start makes its tables", nil, ""},
		{"a newer version", "insert into poold_schema (version_id, is_applied) values (99, true)", address, "", ErrNewer,
			"version 99"},
		{"a standby", "alter database " + address[strings.LastIndex(address, "/")+1:] +
			" set default_transaction_read_only = on", address, "", ErrDown, "it takes no changes"},
	} {
		if sql, migrates := strings.CutPrefix(c.prepare, "migrate"); migrates {
			openMigrated(t, address, postgrestest.Patience)
			c.prepare = strings.TrimPrefix(sql, ";")
		}
		server.SQL(t, address, c.prepare+";")
		before := server.SQL(t, address, shape)
		db, _ := open(t, c.as, postgrestest.Patience)
		found, err := db.Try(t.Context())
		switch {
		case c.reason == "" && (err != nil || found != "version "+version+c.schema):
			t.Errorf("%s: %q, %v", c.name, found, err)
		case c.reason != "" && (!errors.Is(err, c.is) || !strings.Contains(err.Error(), c.reason)):
			t.Errorf("%s: %v, want %q", c.name, err, c.reason)
		case err != nil:
			postgrestest.Hidden(t, "the error", err.Error())
		}
		testkit.Equal(t, c.name+": the schema after Try", server.SQL(t, address, shape), before)
	}
}
