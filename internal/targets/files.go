package targets

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"poold/internal/targets/syntax"
)

// MaxFile is the maximum size in bytes of a file that the configuration file refers to.
const MaxFile = 64 << 10

// References reads what a configuration file refers to. The zero value has no variables and no
// files.
type References struct {
	// Variable looks up an environment variable in the same way as os.LookupEnv.
	Variable func(name string) (string, bool)
	// File reads a file. It may return more than MaxFile bytes, and Parse then reports the file as too
	// large. Parse adds the path to its error. If File is nil, Parse refuses ${file:PATH}, and does not
	// read the certificate of server.tls.
	File func(path string) ([]byte, error)
}

// fileValue returns the value of the reference ${file:PATH}: the content of the file without its
// final newline. The problem never quotes the content.
func (refs References) fileValue(path string) (text, problem string) {
	switch {
	case !isPrintable(path, ' ') || len(path) > maxText || !filepath.IsAbs(path):
		return "", "a reference to a file needs an absolute path: write ${file:/run/secrets/NAME}"
	case refs.File == nil:
		return "", "references to files are not allowed here"
	}
	content, problem := refs.content(path)
	if problem != "" {
		return "", problem
	}
	content = bytes.TrimSuffix(bytes.TrimSuffix(content, []byte("\n")), []byte("\r"))
	if len(content) == 0 {
		return "", fmt.Sprintf(emptyFile, path)
	}
	if !utf8.Valid(content) || bytes.ContainsFunc(content, syntax.IsControl) {
		return "", fmt.Sprintf("the file %s is not one line of text: write only the value into it, without further lines", path)
	}
	return string(content), ""
}

const emptyFile = "the file %s is empty: write the value into it"

// content reads a file of at most MaxFile bytes.
func (refs References) content(path string) (content []byte, problem string) {
	content, err := refs.File(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Sprintf("the file %s does not exist: create it, or correct the path", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Sprintf("the file %s cannot be read: permission denied: allow the user of the daemon to read it", path)
	case err != nil:
		return nil, fmt.Sprintf("the file %s cannot be read: %v", path, err)
	case len(content) == 0:
		return nil, fmt.Sprintf(emptyFile, path)
	case len(content) > MaxFile:
		return nil, fmt.Sprintf("the file %s is larger than %d KiB: name the file that holds only the value", path, MaxFile>>10)
	}
	return content, ""
}

// check checks the section, and reads the certificate.
func (t *TLS) check(e entry) {
	switch {
	case e.hasInvalid("cert", "key"):
		return
	case (t.Cert == "") != (t.Key == ""):
		e.fail("cert and key go together: give both files, or neither")
		return
	case t.Cert == "" || e.r.refs.File == nil:
		return
	}
	cert, problem := e.r.refs.content(t.Cert)
	if problem != "" {
		e.keys["cert"].fail("%s", problem)
	}
	key, problem := e.r.refs.content(t.Key)
	if problem != "" {
		e.keys["key"].fail("%s", problem)
	}
	if cert == nil || key == nil {
		return
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		e.fail("the certificate and the key cannot be used: %s: write a certificate and its key, both as PEM", strings.TrimPrefix(err.Error(), "tls: "))
		return
	}
	t.Certificate = &pair
}
