//go:build !race

package deploy_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/postgres/postgrestest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// A caller's key, the passwords of Redis and of the history's database, and the certificate are rotated while callers
// take tokens. No request fails, and the history gets the orders.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	address := redistest.Server(t)
	acl := func(rule ...any) {
		t.Helper()
		redistest.Do(t, address, append([]any{"acl", "setuser", "poold"}, rule...)...)
	}
	acl("on", ">first-password", "~*", "&*", "+@all")
	server := postgrestest.Start(t)
	database := server.Database(t)
	name := database[strings.LastIndex(database, "/")+1:]
	server.SQL(t, database, "create role poold login password 'first-password'; alter database "+name+" owner to poold")
	records := func() int {
		n, err := strconv.Atoi(server.SQL(t, database, "select count(*) from captcha_history where kind = 'order'"))
		testkit.NoError(t, err)
		return n
	}

	provider := daemontest.Provider(t, simulatedtest.Setup{Median: 300 * time.Millisecond})
	secrets, first, second := t.TempDir(), redistest.Certificates(t), redistest.Certificates(t)
	file := func(name string) string { return filepath.Join(secrets, name) }
	write := func(name, text string) { daemontest.ReplaceFile(t, file(name), text+"\n") }
	write("redis", "first-password")
	write("database", "first-password")
	write("key", "first-key-0123456789")
	entry := func(name string) string {
		return fmt.Sprintf("    - {name: ci, key: '${file:%s}', scopes: [token, status, admin]}\n", file(name))
	}
	config := func(keys string) string {
		return fmt.Sprintf("redis: {url: 'redis://poold:${file:%s}@%s'}\n"+
			"history: {backend: postgres, url: 'postgres://poold:${file:%s}@127.0.0.1:%d/%s'}\n"+
			"server:\n  tls: {cert: %s/cert.pem, key: %s/key.pem}\n  keys:\n%s"+
			"providers: [{name: s, url: '%s', key: a-key, price_per_1000: 1, concurrency: 100, first_poll: 200ms, "+
			"poll_interval: 500ms}]\ntargets:\n"+
			"  login: {type: turnstile, sitekey: k, pageurl: 'https://example.com/', owner: qa@example.com, depth: 40}\n",
			file("redis"), address, file("database"), server.Port, name, first, first, keys, provider)
	}
	unverified := &tls.Config{InsecureSkipVerify: true}
	p := daemontest.Start(t, daemontest.Settings{
		Config: config(entry("key")), Key: "first-key-0123456789", TLS: true, Args: []string{"--access-log"},
		Client: &http.Client{Transport: &http.Transport{TLSClientConfig: unverified}},
	})
	testkit.Within(t, 20*time.Second, "tokens", func() bool {
		status, _ := p.Call(http.MethodPost, "/pool/login/token?wait=10s", "")
		return status == http.StatusOK
	})

	load := &steadyLoad{t: t, method: http.MethodPost, url: p.URL + "/pool/login/token?wait=20s",
		key: "first-key-0123456789", tokens: map[string]bool{}}
	stopKept := load.start(25, &http.Transport{TLSClientConfig: unverified, MaxIdleConnsPerHost: 25})
	stopNew := load.start(25, &http.Transport{TLSClientConfig: unverified, DisableKeepAlives: true})
	serves := func(more int) {
		t.Helper()
		before := load.served()
		testkit.Within(t, 20*time.Second, "more tokens", func() bool { return load.served() >= before+more })
	}
	reloads := 0
	applied := func(what string, change func()) {
		t.Helper()
		change()
		reloads++
		testkit.Within(t, 20*time.Second, what+" to be applied",
			func() bool { return p.Output.Count("the configuration was applied") >= reloads })
		serves(20)
	}

	write("second-key", "second-key-012345678")
	applied("the second key", func() { p.Write(config(entry("key") + entry("second-key"))) })
	load.setKey("second-key-012345678")
	applied("the end of the first key", func() { p.Write(config(entry("second-key"))) })

	acl(">second-password")
	applied("the password", func() { write("redis", "second-password") })
	acl("<first-password")
	// Ends the connections with the first password, as happens when they are 30 min old.
	redistest.Do(t, address, "client", "kill", "user", "poold", "skipme", "yes")
	serves(40)

	server.SQL(t, database, "alter role poold password 'second-password'")
	applied("the password of the database", func() { write("database", "second-password") })
	before := records()
	server.SQL(t, database, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'poold'")
	testkit.Within(t, 20*time.Second, "later orders in the history", func() bool { return records() > before+10 })
	testkit.Equal(t, "uses of the first password after the reload", p.Output.Count("password authentication failed"), 0)

	applied("the certificate", func() {
		for _, name := range []string{"key.pem", "cert.pem"} { // within the quiet period of the watch
			content, err := os.ReadFile(filepath.Join(second, name))
			testkit.NoError(t, err)
			daemontest.ReplaceFile(t, filepath.Join(first, name), string(content))
		}
	})
	connection, err := tls.Dial("tcp", p.URL[len("https://"):], unverified)
	testkit.NoError(t, err)
	wanted, err := tls.LoadX509KeyPair(filepath.Join(second, "cert.pem"), filepath.Join(second, "key.pem"))
	testkit.NoError(t, err)
	certificate := connection.ConnectionState().PeerCertificates[0]
	testkit.Equal(t, "poold serves the second certificate", certificate.Equal(wanted.Leaf), true)
	_ = connection.Close()
	stopKept()
	stopNew()
	testkit.Equal(t, "requests that were answered with 503", load.again.Load(), 0)
	// poold writes a record after it has sent the response.
	testkit.Within(t, 60*time.Second, "a record of each request in the access log", func() bool {
		return p.Output.Count("msg=request", "status=200", "key=ci", "target=login", "request_id=") >= load.served()
	})
	t.Logf("%d requests", load.served())
}
