package reload

import (
	"os"
	"path/filepath"
	"testing"

	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// A changed certificate is applied. A certificate that does not fit its key is refused.
func TestChangedCertificateIsRead(t *testing.T) {
	one, two := redistest.Certificates(t), redistest.Certificates(t)
	file := "server: {tls: {cert: " + one + "/cert.pem, key: " + one + "/key.pem}}\n" + minimal()
	b := newBench(t, file)
	first := b.load().Server.TLS.Certificate
	move := func(name string) { b.must(os.Rename(filepath.Join(two, name), filepath.Join(one, name))) }
	move("cert.pem")
	b.refuse(file, ":1: server.tls: the certificate and the key cannot be used: private key does not match public key")
	testkit.Equal(t, "the certificate in use", b.Current().Server.TLS.Certificate, first)
	move("key.pem")
	b.apply(file)
	if b.Current().Server.TLS.Certificate == first ||
		b.log.Count("the configuration was applied", "changes=\"other settings changed: server.tls.cert\"") != 1 {
		t.Errorf("the new certificate is not in use\n%s", b.log.String())
	}
}

// A new password needs no restart, but another server needs one.
func TestChangedPasswordIsApplied(t *testing.T) {
	file := func(redis, database string) string {
		return "redis: {url: 'redis://" + redis + "'}\ndedup: {backend: postgres, url: 'postgres://" + database + "'}\n" +
			minimal()
	}
	b := newBench(t, file("u:old@h:1,redis://u:old@h:2", "u:old@h/d"))
	b.load()
	for _, c := range []struct {
		redis, database string
		remarks         int
	}{{"u:new@h:1,redis://u:new@h:2", "u:new@h/d", 0}, {"u:newer@elsewhere:1,redis://u:new@h:2", "v:newer@h/d", 2}} {
		b.apply(file(c.redis, c.database))
		testkit.Equal(t, "password of Redis with "+c.redis, targets.Password(b.Current().Redis.URL), "new")
		testkit.Equal(t, "password of the database with "+c.database, targets.Password(b.Current().Dedup.URL), "new")
		testkit.Equal(t, "remarks", len(b.Status().Problems), c.remarks)
	}
}
