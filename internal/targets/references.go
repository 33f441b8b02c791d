package targets

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxFile is the maximum size in bytes of a file that the configuration file refers to.
const MaxFile = 64 << 10

// References has what Parse reads besides the file. The zero value has no variables and no files.
type References struct {
	// Variable looks up an environment variable in the same way as os.LookupEnv.
	Variable func(name string) (string, bool)
	// File reads a file. It may return more than MaxFile bytes, and Parse then reports the file as too
	// large. Parse adds the path to its error. If File is nil, Parse refuses ${file:PATH}, and does not
	// read the certificate of server.tls.
	File func(path string) ([]byte, error)
	// Listen is the address given by --listen or POOLD_LISTEN, which replaces the address in the file; "" = none.
	Listen string
}

// expand replaces the references in one value and returns their names. The problem does not quote
// the value, because the text around a reference may be a secret.
func (refs References) expand(value string) (text string, names []string, problem string) {
	text = reference.ReplaceAllStringFunc(value, func(found string) string {
		if strings.HasPrefix(found, "$$") {
			return found[1:]
		}
		body, closed := strings.CutSuffix(found[2:], "}")
		name, text, why := body, "", "a reference is not closed: "+referenceForms
		if closed {
			name, text, why = refs.lookup(body)
		}
		names, problem = append(names, name), cmp.Or(problem, why)
		return text
	})
	return text, names, problem
}

// reference matches a reference, even if it is not closed, and the escape $${.
var reference = regexp.MustCompile(`\$?\$\{[^}]*\}?`)

// referenceForms is the remedy for malformed references.
const referenceForms = "write ${NAME}, ${NAME:-default} or ${file:/path}, or $${ for a literal ${"

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// lookup returns the name in a reference and the value that replaces the reference.
func (refs References) lookup(body string) (name, text, problem string) {
	if path, isFile := strings.CutPrefix(body, "file:"); isFile {
		problem = first(
			check{!isPrintable(path, ' ') || len(path) > maxText || !filepath.IsAbs(path),
				"a reference to a file needs an absolute path: write ${file:/run/secrets/NAME}"},
			check{refs.File == nil, "references to files are not allowed here"},
		)
		if problem == "" {
			text, problem = refs.content(path, true)
		}
		return body, text, problem
	}
	name, fallback, set := strings.Cut(body, ":-")
	valid := variableName.MatchString(name)
	if valid && refs.Variable != nil {
		if value, exists := refs.Variable(name); value != "" || !set {
			fallback, set = value, exists
		}
	}
	return name, fallback, first(
		check{strings.Contains(body, "${"), "references do not nest: the default of one cannot be another"},
		check{!valid, "invalid reference: " + referenceForms},
		check{!set, fmt.Sprintf("the environment variable %s is not set: set it, or write ${%s:-default}", name, name)},
	)
}

// content reads a file of at most MaxFile bytes, without its final newline. An empty file is refused, because another
// program may be writing it; the last valid configuration stays in use. No problem quotes the content.
func (refs References) content(path string, oneLine bool) (text, problem string) {
	content, err := refs.File(path)
	content = bytes.TrimSuffix(bytes.TrimSuffix(content, []byte("\n")), []byte("\r"))
	isLine := utf8.Valid(content) && !bytes.ContainsFunc(content, unicode.IsControl)
	problem = first(
		check{errors.Is(err, fs.ErrNotExist), "does not exist: create it, or correct the path"},
		check{errors.Is(err, fs.ErrPermission), "cannot be read: permission denied: allow the user of the daemon to read it"},
		check{err != nil, fmt.Sprint("cannot be read: ", err)},
		check{len(content) == 0, "is empty: write the value into it"},
		check{len(content) > MaxFile, "is larger than 64 KiB: name the file that holds only the value"},
		check{oneLine && !isLine, "is not one line of text: write only the value into it, without further lines"},
	)
	if problem != "" {
		return "", fmt.Sprintf("the file %s %s", path, problem)
	}
	return string(content), ""
}
