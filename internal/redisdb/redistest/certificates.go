package redistest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"poold/internal/testkit"
)

// Certificates returns a folder with a self-signed certificate for 127.0.0.1 in cert.pem and the
// certificate's private key in key.pem.
func Certificates(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	public, key, _ := ed25519.GenerateKey(nil)
	template := &x509.Certificate{
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, _ := x509.CreateCertificate(rand.Reader, template, template, public, key)
	private, _ := x509.MarshalPKCS8PrivateKey(key)
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: certificate}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return dir
}
