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
		testkit.Within(t, time.Minute, "history init",
			func() bool { code, _ := run(top, "history", "init"); return code == 0 })
	}
	address := server.Database(t)
	at := func(section, address string) string {
		return fmt.Sprintf("%s: {backend: postgres, url: '%s'}", section, address)
	}
	both := at("dedup", address) + "\n" + at("history", address)

	says("empty", both, 0, "ok: postgres of dedup.url: version 1")
	says("empty", both, 0, "; the next start makes its tables\nok: postgres of history.url: version 1")
	testkit.Equal(t, "tables of check",
		server.SQL(t, address, "select count(*) from pg_tables where schemaname = 'public'"), "0")
	initialize(both)
	says("ready", both, 0, ", tables ready\n")
	server.SQL(t, address, "delete from poold_schema where version_id > 1")
	says("old", both, 0, "; the next start makes its tables\n")
	says("nothing", at("dedup", "postgres://x:x@127.0.0.1:1/x"), 1,
		"error: postgres of dedup.url: postgres does not serve: connection refused\n"+
			"ok: provider simulated: ")
	says("silent", at("dedup", "postgres://x:x@"+silent+"/x"), 1,
		"error: postgres of dedup.url: postgres does not serve: no answer in time\n")

	table := func(endpoint string) string {
		return fmt.Sprintf("history: {backend: dynamodb, table: Live, endpoint: '%s'}", endpoint)
	}
	says("no table", table(emulator.URL), 1,
		"error: dynamodb of history: looking at the table: history: the store does not answer: "+
			"the table Live does not exist: poold history init makes it\n")
	initialize(table(emulator.URL))
	says("a table", table(emulator.URL), 0, "ok: dynamodb of history: the table Live is ready\n")
	says("silent", table("http://"+silent), 1, "error: dynamodb of history: ")
}
