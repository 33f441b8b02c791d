package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"poold/internal/history/dynamotest"
	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// `poold check --live` prints one line about each store of dedup and history. The line says whether
// the store works. The command changes nothing in the stores.
func TestCheckLiveTriesStores(t *testing.T) {
	t.Parallel()
	server, emulator, silent := postgrestest.Start(t), dynamotest.Start(t), silentServer(t)
	path := filepath.Join(t.TempDir(), "pools.yaml")
	run := func(top string, args ...string) (code int, out string) {
		t.Helper()
		writeFile(t, path, top+"\n"+serverless)
		code, out, log := runCommand(t, nil, append(args, "--config", path)...)
		if strings.Contains(out+log, postgrestest.Password) || strings.Contains(out+log, dynamotest.Secret) {
			t.Errorf("it shows a secret: %s%s", out, log)
		}
		return code, out
	}
	says := func(what, top string, code int, want string) {
		t.Helper()
		var got int
		var out string
		defer func() {
			if t.Failed() {
				t.Logf("%s: exit %d, want %d and %q\n%s", what, got, code, want, out)
			}
		}()
		testkit.Within(t, time.Minute, what, func() bool { // on a busy machine a server may respond late
			got, out = run(top, "check", "--live")
			return got == code && strings.Contains(out, want)
		})
	}
	initialize := func(top string) {
		t.Helper()
		testkit.Within(t, time.Minute, "history init", func() bool { code, _ := run(top, "history", "init"); return code == 0 })
	}
	address := server.Database(t)
	at := func(section, address string) string {
		return fmt.Sprintf("%s: {backend: postgres, url: '%s'}", section, address)
	}
	both := at("dedup", address) + "\n" + at("history", address)

	says("empty", both, 0, "ok     postgres of dedup.url: version 1")
	says("empty", both, 0, "; the next start makes its tables\nok     postgres of history.url: version 1")
	if got := server.SQL(t, address, "select count(*) from pg_tables where schemaname = 'public'"); got != "0" {
		t.Errorf("check made %s tables", got)
	}
	initialize(both)
	says("ready", both, 0, ", tables ready\n")
	server.SQL(t, address, "delete from poold_schema where version_id > 1")
	says("old", both, 0, "; the next start brings its tables up to date\n")
	server.SQL(t, address, "insert into poold_schema (version_id, is_applied) values (2, true), (99, true)")
	says("newer", both, 1, "error  postgres of dedup.url: the database's schema is newer than this program: ")
	server.SQL(t, address, "delete from poold_schema where version_id = 99; drop table captcha_cache")
	says("without a table", both, 1, "error  postgres of dedup.url: postgres does not serve: the table captcha_cache does not exist: poold history init makes it\n")
	initialize(both)
	server.SQL(t, address, "create role guest_test login password '"+postgrestest.Password+"'")
	guest := strings.Replace(address, "postgrestest:", "guest_test:", 1)
	server.SQL(t, address, "grant select, insert, update on all tables in schema public to guest_test")
	says("no right", at("history", guest), 1, "error  postgres of history.url: postgres does not serve: the user lacks a right on the table captcha_cache\n")
	empty := server.Database(t)
	says("no right", at("history", strings.Replace(empty, "postgrestest:", "guest_test:", 1)), 1,
		"error  postgres of history.url: postgres does not serve: the user lacks the right to make tables\n")
	says("a password", at("history", strings.Replace(address, postgrestest.Password, "other", 1)), 1, "it refuses the user or the password")
	server.SQL(t, empty, "alter database "+address[strings.LastIndex(address, "/")+1:]+" set default_transaction_read_only = on")
	says("read-only", at("history", address), 1, "error  postgres of history.url: postgres does not serve: it takes no changes (SQLSTATE 25006)\n")
	says("nothing", at("dedup", "postgres://x:x@127.0.0.1:1/x"), 1, "error  postgres of dedup.url: postgres does not serve: connection refused\n")
	says("silent", at("dedup", "postgres://x:x@"+silent+"/x"), 1, "error  postgres of dedup.url: postgres does not serve: no answer in time\n")

	table := func(endpoint string) string {
		return fmt.Sprintf("history: {backend: dynamodb, table: Live, endpoint: '%s'}", endpoint)
	}
	says("no table", table(emulator.URL), 1, "error  dynamodb of history: looking at the table: history: the store does not answer: the table Live does not exist: poold history init makes it\n")
	initialize(table(emulator.URL))
	says("a table", table(emulator.URL), 0, "ok     dynamodb of history: the table Live is ready\n")
	says("silent", table("http://"+silent), 1, "error  dynamodb of history: ")
}
