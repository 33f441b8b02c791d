package redisdb

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// Addresses may contain passwords, so no error quotes an address.
func TestBadAddressesAreNotQuoted(t *testing.T) {
	const canary = "canary-password"
	for _, address := range []string{
		"http://:" + canary + "@127.0.0.1:1", "redis://:" + canary + "@127.0.0.1:1/x/y", "redis://:" + canary + "@[::1",
		canary, "redis://127.0.0.1:1,nonsense://:" + canary + "@127.0.0.1:2",
	} {
		if _, err := Open(Options{Addresses: address}); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// fault returns the reason of a fresh probe, without the address.
func fault(t *testing.T, db *DB) (reason string) {
	t.Helper()
	if err := db.probe(t.Context(), time.Time{}).fault; err != nil {
		reason = strings.TrimSuffix(Reason(err), " ("+db.where+")")
	}
	return reason
}

// A server may want a certificate of its clients. Changed certificates and a changed password hold for new connections.
func TestCertificatesAndPasswordsChange(t *testing.T) {
	t.Parallel()
	load := func() (settings []any, with targets.RedisTLS) {
		dir := redistest.Certificates(t)
		certificate, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		pair, err := tls.LoadX509KeyPair(certificate, key)
		testkit.NoError(t, err)
		issuers, err := os.ReadFile(certificate)
		testkit.NoError(t, err)
		with = targets.RedisTLS{Certificate: &pair, Issuers: string(issuers)}
		return []any{"CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key, "tls-ca-cert-file", certificate},
			with
	}
	port := strconv.Itoa(testkit.FreePort(t))
	plain := redistest.Server(t, "--tls-auth-clients", "yes", "--user", "poold", "on", ">old", "~*", "&*", "+@all")
	first, one := load()
	second, two := load()
	db := opened(t, Options{Addresses: "rediss://poold:old@127.0.0.1:" + port})
	for _, c := range []struct {
		change      []any // of the server
		with        targets.RedisTLS
		login, want string
	}{
		{append(first, "tls-port", port), targets.RedisTLS{}, "old",
			badCertificate + "poold does not trust its issuer (redis.tls.ca)"},
		{nil, targets.RedisTLS{Issuers: one.Issuers}, "old",
			"redis ends the TLS handshake: it wants a client certificate, or another one (redis.tls)"},
		{nil, one, "old", ""},
		{second, one, "old", badCertificate + "poold does not trust its issuer (redis.tls.ca)"},
		{nil, two, "old", ""},
		{[]any{"ACL", "SETUSER", "poold", "resetpass", ">new"}, two, "old", "redis refuses the user or its password"},
		{nil, two, "new", ""},
	} {
		if c.change != nil {
			redistest.Do(t, plain, c.change...)
			redistest.Do(t, plain, "CLIENT", "KILL", "TYPE", "normal")
		}
		db.SetTLS(c.with)
		db.SetPassword(c.login)
		testkit.Equal(t, fmt.Sprint("after ", c.change), fault(t, db), c.want)
	}
}

// Sentinels have a separate user and password.
func TestPasswordOfSentinels(t *testing.T) {
	t.Parallel()
	_, port, _ := net.SplitHostPort(redistest.Server(t))
	sentinel := "redis://" + redistest.SentinelOf(t,
		"user default off\nuser watcher on >secret allchannels +@all\nsentinel monitor main 127.0.0.1 "+port+" 1\n").Addr
	for _, c := range []struct{ user, password, master, want string }{
		{"", "", "main", "the sentinels require a password: set redis.sentinel_password"},
		{"watcher", "wrong", "main", "the sentinels refuse redis.sentinel_user or redis.sentinel_password"},
		{"watcher", "secret", "other", "the sentinels know no master of the name in redis.sentinel_master"},
		{"watcher", "secret", "main", ""},
	} {
		db := opened(t, Options{Addresses: sentinel, SentinelMaster: c.master, SentinelUser: c.user,
			SentinelPassword: c.password})
		testkit.Equal(t, c.user+":"+c.password, fault(t, db), c.want)
	}
}

// The sentinels that both clients use hang. After the next loss of their connections to the master the
// clients ask the third sentinel.
func TestSentinelsHang(t *testing.T) {
	t.Parallel()
	nodes := redistest.SentinelNodes(t)
	db := opened(t, Options{Addresses: "redis://" + nodes[2].Addr + ",redis://" + nodes[3].Addr + ",redis://" +
		nodes[4].Addr, SentinelMaster: redistest.MasterName})
	call := func() error { return errors.Join(db.Slow.Ping(t.Context()).Err(), db.Fast.Ping(t.Context()).Err()) }
	testkit.NoError(t, call())
	hanging := 0
	for _, node := range nodes[2:] {
		if strings.Contains(redistest.Do(t, node.Addr, "CLIENT", "LIST"), " sub=2 ") {
			hanging++
			_ = node.Process.Signal(syscall.SIGSTOP)
		}
	}
	if hanging == 0 || hanging == 3 {
		t.Fatalf("%d sentinels are in use", hanging)
	}
	redistest.Do(t, nodes[0].Addr, "CLIENT", "KILL", "TYPE", "normal")
	testkit.Within(t, 20*time.Second, "a call of each", func() bool { return call() == nil })
}
