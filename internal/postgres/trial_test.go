package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"poold/internal/postgres/postgrestest"
)

// Try changes nothing. It returns the server's version and the state of the schema, or the reason why
// a later call would fail.
func testTry(t *testing.T, server *postgrestest.Server) {
	server.SQL(t, "postgres", "create role guest_try login password '"+postgrestest.Password+"'")
	version := strings.Fields(server.SQL(t, "postgres", "show server_version"))[0]
	guest := func(address string) string { return strings.Replace(address, "postgrestest:", "guest_try:", 1) }
	same := func(address string) string { return address }
	for name, c := range map[string]struct {
		prepare string // SQL on a migrated database; "none" = the database is empty, "old" = the last file is missing
		as      func(address string) string
		schema  Schema
		is      error  // tested with errors.Is
		reason  string // "" = no error
	}{
		"ready":                             {"", same, SchemaReady, nil, ""},
		"empty":                             {"none", same, SchemaNone, nil, ""},
		"an earlier version":                {"old", same, SchemaOld, nil, ""},
		"a newer version":                   {"insert into poold_schema (version_id, is_applied) values (99, true)", same, SchemaReady, ErrNewer, "version 99"},
		"a dropped table":                   {"drop table captcha_audit", same, SchemaReady, ErrNoTable, "the table captcha_audit does not exist"},
		"an empty database, no right":       {"none", guest, SchemaNone, ErrDown, "the user lacks the right to make tables"},
		"an earlier version, no right":      {"old; grant select on poold_schema to guest_try", guest, SchemaOld, ErrDown, "the user lacks the right to make tables"},
		"ready, no right on the tables":     {"grant select on poold_schema to guest_try", guest, SchemaReady, ErrDown, "the user lacks a right on the table captcha_"},
		"ready, no right to read the state": {"", guest, SchemaReady, ErrDown, "the user lacks a right"},
		"ready, all rights": {
			"grant select, insert, update, delete on all tables in schema public to guest_try", guest, SchemaReady, nil, "",
		},
		"ready, no right to delete": {`grant select, insert, update, delete on all tables in schema public to guest_try;
			revoke delete on captcha_figures from guest_try`, guest, SchemaReady, ErrDown, "the user lacks a right on the table captcha_figures"},
		"a standby": {"alter database %s set default_transaction_read_only = on", same, SchemaReady, ErrDown, "it takes no changes"},
	} {
		t.Run(name, func(t *testing.T) {
			address := server.Database(t)
			prepare := c.prepare
			switch {
			case strings.HasPrefix(prepare, "none"):
				prepare = strings.TrimPrefix(prepare, "none")
			case strings.HasPrefix(prepare, "old"):
				openMigrated(t, address, postgrestest.Patience)
				server.SQL(t, address, fmt.Sprint("delete from poold_schema where version_id = ", newest))
				prepare = strings.TrimPrefix(strings.TrimPrefix(prepare, "old"), ";")
			default:
				openMigrated(t, address, postgrestest.Patience)
			}
			if prepare != "" {
				server.SQL(t, address, strings.ReplaceAll(prepare, "%s", address[strings.LastIndex(address, "/")+1:]))
			}
			before := server.SQL(t, address, shape)
			db, _ := open(t, c.as(address), postgrestest.Patience)
			found, err := db.Try(t.Context())
			if c.reason == "" && err != nil || c.reason != "" && (!errors.Is(err, c.is) || !strings.Contains(err.Error(), c.reason)) {
				t.Errorf("the error is %v, want %q", err, c.reason)
			}
			if found.Schema != c.schema {
				t.Errorf("the schema is %d, want %d", found.Schema, c.schema)
			}
			if known := c.reason != "it takes no changes" && c.reason != "the user lacks a right"; known && found.Server != version {
				t.Errorf("the server is %q, want %q", found.Server, version)
			}
			if after := server.SQL(t, address, shape); after != before {
				t.Errorf("Try changed the schema to\n%s, want\n%s", after, before)
			}
			if err != nil {
				postgrestest.Hidden(t, "the error", err.Error())
			}
		})
	}
}
