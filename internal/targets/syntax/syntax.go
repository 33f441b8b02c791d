// Package syntax parses a configuration file into a tree of YAML nodes. If the file has a syntax
// error, the package finds the wrong line and an explanation for the author of the file.
//
// Package targets reads the tree. The explanations never quote the file, because any part of the
// file may be a secret.
package syntax

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// MaxSize is the maximum size of a configuration file in bytes. A file with ten thousand targets is
// far smaller.
const MaxSize = 16 << 20

var errNotYAML = errors.New("not valid YAML")

// Problem says why the bytes of a file are not valid YAML.
type Problem struct {
	Line int
	Text string // fault and remedy; never quotes the file
}

// Document returns the root node of the only YAML document in data.
func Document(data []byte) (*yaml.Node, *Problem) {
	if line, text := unreadableText(data); text != "" {
		return nil, &Problem{line, text}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	root, err := nextDocument(decoder)
	if errors.Is(err, io.EOF) || err == nil && IsNull(root.Content[0]) {
		return nil, &Problem{1, "the file is empty: it needs at least the section targets"}
	}
	second, err2 := root, err
	if err == nil {
		second, err2 = nextDocument(decoder)
	}
	switch {
	case errors.Is(err2, io.EOF):
		return root.Content[0], nil
	case err2 != nil:
		line, text := explain(data, err2)
		return nil, &Problem{line, text}
	}
	// The YAML library would ignore a second document.
	return nil, &Problem{second.Line, "a second YAML document begins here; the file holds one: remove the line with ---"}
}

// IsNull reports whether a node is the null value, such as the value of an empty key.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// nextDocument decodes the next document into nodes, without expanding aliases. It converts a panic
// of the library to an error, because a half-written file must not end the daemon.
func nextDocument(d *yaml.Decoder) (node *yaml.Node, err error) {
	defer func() {
		if recover() != nil {
			err = errNotYAML
		}
	}()
	node = new(yaml.Node)
	err = d.Decode(node)
	if err == nil && (node.Kind != yaml.DocumentNode || len(node.Content) != 1) {
		err = errNotYAML
	}
	return node, err
}

// unreadableText returns the line and the reason if the bytes cannot be YAML text. Otherwise the
// reason is "". The library refuses most of these files too, but does not report the line.
func unreadableText(data []byte) (line int, text string) {
	switch {
	case len(data) > MaxSize:
		return 1, fmt.Sprintf("the file is larger than %d MiB", MaxSize>>20)
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return 1, "the file begins with a byte order mark: save it as UTF-8 without one"
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return 1, "the file is UTF-16: save it as UTF-8"
	}
	line = 1
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			return line, "the line is not valid UTF-8: save the file as UTF-8"
		case c == '\n':
			line++
		case c == '\r' && bytes.HasPrefix(data[i:], []byte("\r\n")), c == '\t':
		case IsControl(c), c == 0xFEFF, c == 0xFFFE, c == 0xFFFF,
			c == 0x2028, c == 0x2029: // YAML treats these two characters, and a \r alone, as line breaks
			return line, fmt.Sprintf("the line holds the control character U+%04X: remove it", c)
		}
		i += size
	}
	return 0, ""
}

// IsControl reports whether c is a C0 or C1 control character.
func IsControl(c rune) bool { return c < 0x20 || 0x7f <= c && c < 0xa0 }

// explain converts an error of the YAML library to a line and an explanation. The explanation does
// not contain the error's text, because that text may quote the file ("unknown anchor …").
func explain(data []byte, err error) (line int, text string) {
	if at := unquotedReference(data); at > 0 {
		return at, `a reference inside { } or [ ] must be quoted: "${NAME}"`
	}
	if at := openQuote(data); at > 0 {
		return at, "the quote that is opened here is not closed in its line: add the closing quote"
	}
	message := err.Error()
	// The line in the library's error is only approximate, and may be after the last line of the file.
	inside := func(line int) int {
		return min(max(1, line), bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n"))+1)
	}
	has := func(part string) bool { return strings.Contains(message, part) }
	switch {
	case has("',' or '}'"), has("',' or ']'"):
		// The library's line number is one less than the number of the line with the bracket.
		return inside(namedLine(message) + 1), "the { or [ that opens here is not closed correctly: look for a missing bracket, comma or quote"
	case has("could not find expected ':'"):
		return inside(namedLine(message)), "the line has no `key: value`: add the colon and a space, or quote the text"
	case has("unknown anchor"):
		text = "an alias (*) is not read: quote a value that begins with *"
	case has("mapping values are not allowed"):
		text = "a colon and a space where no key may begin: indent the line like its neighbours, or quote the value"
	case has("cannot start any token"):
		text = "a value may not begin with this character (@, % or `): put it in quotes"
	case has("expected key"), has("expected '-' indicator"):
		text = "the line does not fit the ones above: indent it like its neighbours, and quote values whole"
	case has("expected node content"):
		text = "a value, or the bracket that closes a list, is missing"
	case has("escape"):
		text = `an unknown \ escape in double quotes: write \\ or use single quotes`
	case has("max depth"):
		text = "brackets or lists nest too deeply"
	default:
		text = "this is not valid YAML"
	}
	line = inside(errorLine(data, message))
	if hasTab(data, line) {
		text = "a tab indents the line: indent with spaces"
	}
	return line, text
}

// hasTab reports whether a line has a tab in its indentation.
func hasTab(data []byte, line int) bool {
	for ; line > 1; line-- {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	indentation := data[:len(data)-len(bytes.TrimLeft(data, " \t"))]
	return bytes.IndexByte(indentation, '\t') >= 0
}

// namedLine returns the line number in a message of the library, or 0 if there is none.
func namedLine(message string) int {
	_, rest, _ := strings.Cut(message, "line ")
	number, _, _ := strings.Cut(rest, ":")
	line, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return line
}

// errorLine finds the line of a syntax error. For most errors the library reports only the start of
// the surrounding block. Therefore errorLine passes the file to the library line by line. The
// library fails at the wrong line or a few lines later, because it reads ahead. The wrong line is
// the last line whose removal changes the error.
func errorLine(data []byte, message string) int {
	lines := bytes.SplitAfter(data, []byte("\n"))
	feed := &lineFeed{lines: lines}
	_ = drain(feed)
	line := feed.next
	for i := 0; i < 3 && line > 1; i++ {
		err := drain(&lineFeed{lines: lines[:line-1]})
		if err == nil || err.Error() != message {
			break
		}
		line--
	}
	return line
}

// drain decodes all documents and returns the first error, or nil at the end of the input.
func drain(from io.Reader) error {
	decoder := yaml.NewDecoder(from)
	for {
		if _, err := nextDocument(decoder); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// lineFeed is an io.Reader that returns at most one line per Read and counts the lines.
type lineFeed struct {
	lines [][]byte
	next  int
	rest  []byte // rest of a line that is longer than the buffer of Read
}

func (f *lineFeed) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		if f.next == len(f.lines) {
			return 0, io.EOF
		}
		f.rest = f.lines[f.next]
		f.next++
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// quoteToken matches comments, and quoted texts together with the rest of their line. A text
// without a closing quote extends to the end of the file.
var quoteToken = regexp.MustCompile(`(?m)(?:^|\s)#.*$|(?:^|[\s,:\[{])((?:"(?:[^"\\]|\\[\s\S])*(?:"|\z)|'(?:[^']|'')*(?:'|\z))(.*))`)

// openQuote returns the line with an unclosed quote, or 0 if there is none. YAML treats the next
// quote, which is in a later line, as the closing quote, and fails at the text after it. Call
// openQuote only for files with a syntax error.
func openQuote(data []byte) int {
	for _, at := range quoteToken.FindAllSubmatchIndex(data, -1) {
		if at[2] < 0 { // a comment
			continue
		}
		quoted, rest := data[at[2]:at[4]], bytes.TrimSpace(data[at[4]:at[5]])
		never := at[4] == len(data) && (len(quoted) == 1 || quoted[len(quoted)-1] != quoted[0])
		strange := len(rest) > 0 && !bytes.ContainsAny(rest[:1], ",:]}#")
		if never || strange && bytes.IndexByte(quoted, '\n') >= 0 {
			return bytes.Count(data[:at[2]], []byte("\n")) + 1
		}
	}
	return 0
}

// flowToken matches the tokens that unquotedReference examines: quoted texts, comments, references,
// brackets and line ends.
var flowToken = regexp.MustCompile(`(?m)(?:^|[\s,:\[{])(?:"(?:[^"\\]|\\[\s\S])*"|'(?:[^']|'')*')|(?:^|\s)#.*$|\$\{[^}\n]*\}|[\[\]{}]|\n`)

// unquotedReference returns the line of the first unquoted ${ inside { } or [ ], or 0 if there is
// none. YAML treats the brace of such a reference as a mapping and returns a misleading error. Call
// unquotedReference only for files with a syntax error. It may return a wrong line for unusual
// files.
func unquotedReference(data []byte) int {
	line, depth := 1, 0
	for _, at := range flowToken.FindAllIndex(data, -1) {
		token := data[at[0]:at[1]]
		first := bytes.TrimLeft(token, " \t\r\n,:")
		switch {
		case bytes.HasPrefix(token, []byte("${")):
			if depth > 0 {
				return line
			}
		case len(first) == 1 && (first[0] == '[' || first[0] == '{'), len(first) > 1 && (token[0] == '[' || token[0] == '{'):
			// The token is a bracket, perhaps with a quoted text after the bracket.
			depth++
		case len(first) == 1 && (first[0] == ']' || first[0] == '}'):
			depth = max(0, depth-1)
		}
		line += bytes.Count(token, []byte("\n"))
	}
	return 0
}
