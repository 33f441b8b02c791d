package targets

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// filesOf returns references to files with fixed contents.
func filesOf(contents map[string]string) References {
	return References{File: func(path string) ([]byte, error) {
		content, known := contents[path]
		switch {
		case !known:
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		case content == "denied":
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
		case content == "hangs":
			return nil, errors.New("it is still being read after 5s")
		}
		return []byte(content), nil
	}}
}

// A reference to a file is replaced by the content without its final newline, in any scalar.
func TestFileReferences(t *testing.T) {
	set := mustParse(t, "server: {keys: [{name: ci, key: '${file:/run/secrets/ci}', scopes: [token]}]}\n"+
		"redis: {url: 'redis://:${file:/run/secrets/redis}@redis.example.com:6379/1'}\n"+minimal("depth: ${file:/run/depth}"),
		filesOf(map[string]string{
			"/run/secrets/ci": "0123456789abcdef\n", "/run/secrets/redis": "p%20w\r\n", "/run/depth": "7",
		}))
	if got := set.Redis.URL.Reveal(); got != "redis://:p%20w@redis.example.com:6379/1" || set.Targets[0].Depth != 7 ||
		len(set.Server.Keys) != 1 {
		t.Errorf("url %s, depth %d, keys %d", got, set.Targets[0].Depth, len(set.Server.Keys))
	}
	testkit.Equal(t, "the password", Password(set.Redis.URL), "p w")
	if got := mustParse(t, strings.Replace(minimal(), "owner: ", "owner: $${file:/x} ", 1),
		References{}).Targets[0].Owner; !strings.HasPrefix(got, "${file:/x} ") {
		t.Errorf("an escaped reference: %q", got)
	}
}

// A file that cannot be used is refused with the line, the path and the remedy, never the content.
func TestUnusableFilesAreRefused(t *testing.T) {
	const secret = "CANARY"
	refs := filesOf(map[string]string{
		"/denied": "denied", "/hangs": "hangs", "/empty": "", "/newline": "\n", "/lines": secret + "\nmore\n",
		"/binary": secret + "\x00", "/latin1": secret + "\xe9", "/large": strings.Repeat(secret, 20000), "/word": secret,
	})
	for reference, want := range map[string]string{
		"${file:/none}":    "the file /none does not exist: create it, or correct the path",
		"${file:/denied}":  "the file /denied cannot be read: permission denied: allow the user of the daemon to read it",
		"${file:/hangs}":   "the file /hangs cannot be read: it is still being read after 5s",
		"${file:/empty}":   "the file /empty is empty: write the value into it",
		"${file:/newline}": "the file /newline is empty: write the value into it",
		"${file:/lines}":   "the file /lines is not one line of text: write only the value into it, without further lines",
		"${file:/binary}":  "the file /binary is not one line of text: write only the value into it, without further lines",
		"${file:/latin1}":  "the file /latin1 is not one line of text: write only the value into it, without further lines",
		"${file:/large}":   "the file /large is larger than 64 KiB: name the file that holds only the value",
		"${file:word}":     "a reference to a file needs an absolute path: write ${file:/run/secrets/NAME}",
		"${file:/word":     "a reference is not closed: " + referenceForms,
		"${file:/word}":    "must be a whole number from 0 to 10000; the value of ${file:/word} is something else",
	} {
		_, err := Parse("pools.yaml", []byte(minimal("depth: '"+reference+"'")), refs)
		if err == nil || !strings.HasSuffix(err.Error(), ": targets.login.depth: "+want) ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v\nwant %s", reference, err, want)
		}
	}
	if _, err := Parse("pools.yaml", []byte(minimal("depth: '${file:/word}'")), References{}); err == nil ||
		!strings.Contains(err.Error(), "references to files are not allowed here") {
		t.Errorf("without files: %v", err)
	}
}

// Certificates and keys are read, must be PEM and belong together.
func TestCertificatesAreRead(t *testing.T) {
	const pair = "server: {tls: {cert: /tls.crt, key: /tls.key}}\n"
	const issuers = "redis: {url: 'rediss://h', tls: {ca: /tls.crt}}\n"
	for _, c := range []struct{ section, content, want string }{
		{pair, "", "server.tls.cert: the file /tls.crt is empty: write the value into it"},
		{pair, "denied",
			"server.tls.cert: the file /tls.crt cannot be read: permission denied: allow the user of the daemon to read it"},
		{pair, "CANARY", "server.tls: the certificate and the key cannot be used: failed to find any PEM data in " +
			"certificate input: write a certificate and its key, both as PEM"},
		{issuers, "CANARY", "redis.tls.ca: the file has no certificate as PEM"},
	} {
		_, err := Parse("pools.yaml", []byte(c.section+minimal()),
			filesOf(map[string]string{"/tls.crt": c.content, "/tls.key": "CANARY"}))
		testkit.Equal(t, "problem of "+c.content, fmt.Sprint(err), "pools.yaml:1: "+c.want)
	}
}
