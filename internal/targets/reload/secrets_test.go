package reload

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// A changed file to which pools.yaml refers causes a reload: a write, a rename, and the links that
// Kubernetes replaces. A file that cannot be used changes nothing.
func TestChangedSecretIsRead(t *testing.T) {
	b := newBench(t, "")
	secrets := filepath.Join(t.TempDir(), "secrets")
	version := func(name, text string) { // a version of a mounted Secret
		b.must(os.MkdirAll(filepath.Join(secrets, name), 0o700))
		b.put(filepath.Join(secrets, name, "depth"), text)
		b.must(os.Symlink(name, filepath.Join(secrets, "..new")))
		b.must(os.Rename(filepath.Join(secrets, "..new"), filepath.Join(secrets, "..data")))
	}
	version("..1", "1\n")
	path := filepath.Join(secrets, "depth")
	b.must(os.Symlink("..data/depth", path))
	b.write(minimal("depth: ${file:" + path + "}"))
	b.load()
	b.startWatch()

	version("..2", "2\n")
	b.untilDepth(2)
	b.must(os.RemoveAll(filepath.Join(secrets, "..1")))
	b.put(filepath.Join(secrets, "..2", "depth"), "3")
	b.untilDepth(3)
	b.must(os.WriteFile(path+".new", []byte("4\n"), 0o600))
	b.must(os.Rename(path+".new", path))
	b.untilDepth(4)

	b.must(os.Remove(path))
	b.waitUntil("the refusal", func() bool { return !b.Status().OK })
	if problems := targets.Problems(b.Status().Problems).Error(); !strings.HasSuffix(problems,
		"pools.yaml:8: targets.login.depth: the file "+path+" does not exist: create it, or correct the path") {
		t.Errorf("status %s", problems)
	}
	testkit.Equal(t, "depth", b.depth(), 4)
	b.put(path, "4\n")
	b.waitUntil("the recovery", func() bool { return b.Status().OK })
	b.put(path, "5\n")
	b.untilDepth(5)
}

// A changed certificate is applied. A certificate that does not fit its key is refused.
func TestChangedCertificateIsRead(t *testing.T) {
	one, two := redistest.Certificates(t), redistest.Certificates(t)
	b := newBench(t, "server: {tls: {cert: "+one+"/cert.pem, key: "+one+"/key.pem}}\n"+minimal())
	first := b.load().Server.TLS.Certificate
	move := func(name string) { b.must(os.Rename(filepath.Join(two, name), filepath.Join(one, name))) }
	move("cert.pem")
	if err := b.Reload(context.Background(), "ci"); err == nil ||
		!strings.Contains(err.Error(),
			":1: server.tls: the certificate and the key cannot be used: private key does not match public key") {
		t.Errorf("a certificate without its key: %v", err)
	}
	testkit.Equal(t, "the certificate in use", b.Current().Server.TLS.Certificate, first)
	move("key.pem")
	b.must(b.Reload(context.Background(), "ci"))
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
	b.write(file("u:new@h:1,redis://u:new@h:2", "u:new@h/d"))
	b.must(b.Reload(context.Background(), "ci"))
	if set := b.Current(); targets.Password(set.Redis.URL) != "new" || targets.Password(set.Dedup.URL) != "new" ||
		len(b.Status().Problems) != 0 {
		t.Errorf("redis %s, dedup %s, %v", set.Redis.URL.Reveal(), set.Dedup.URL.Reveal(), b.Status().Problems)
	}
	b.write(file("u:newer@elsewhere:1,redis://u:new@h:2", "v:newer@h/d"))
	b.must(b.Reload(context.Background(), "ci"))
	if set := b.Current(); targets.Password(set.Redis.URL) != "new" || targets.Password(set.Dedup.URL) != "new" ||
		len(b.Status().Problems) != 2 {
		t.Errorf("redis %s, dedup %s, %v", set.Redis.URL.Reveal(), set.Dedup.URL.Reveal(), b.Status().Problems)
	}
}
