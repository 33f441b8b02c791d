package targets

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

// MaxSize is the most that a configuration file may hold, in bytes: 16 MiB. A
// file with ten thousand targets stays far below it.
const MaxSize = 16 << 20

var errNotYAML = errors.New("not valid YAML")

// document returns the one YAML document of a file, nil after reporting why
// there is none.
func (r *reader) document(data []byte) *yaml.Node {
	if line, text := unreadable(data); text != "" {
		r.fail(line, "%s", text)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	root, err := nextDocument(decoder)
	if errors.Is(err, io.EOF) || err == nil && isNull(root.Content[0]) {
		r.fail(1, "the file is empty: it needs at least the section targets")
		return nil
	}
	second, err2 := root, err
	if err == nil {
		second, err2 = nextDocument(decoder)
	}
	switch {
	case errors.Is(err2, io.EOF):
		return root.Content[0]
	case err2 != nil:
		r.fail(syntaxProblem(data, err2))
	default:
		// The library would drop it without a word.
		r.fail(second.Line, "a second YAML document begins here; the file holds one: remove the line with ---")
	}
	return nil
}

// nextDocument reads the next document as nodes. Decoding into nodes expands no alias,
// and the library's panics on odd input become an error here: a file being saved
// must not take the daemon down.
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

// unreadable says what keeps the bytes from being a YAML text at all. The
// library refuses most of it too, but names no line.
func unreadable(data []byte) (line int, text string) {
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
		case isControl(c), c == 0xFEFF, c == 0xFFFE, c == 0xFFFF,
			c == 0x2028, c == 0x2029: // YAML would count these two, and a \r alone, as the end of a line
			return line, fmt.Sprintf("the line holds the control character U+%04X: remove it", c)
		}
		i += size
	}
	return 0, ""
}

// isControl reports whether c is one of the C0 or C1 control characters.
func isControl(c rune) bool { return c < 0x20 || 0x7f <= c && c < 0xa0 }

// syntaxProblem turns the library's error into a line and a sentence. Its text
// is not passed on, because it may quote the file ("unknown anchor …").
func syntaxProblem(data []byte, err error) (line int, format string, text string) {
	if at := unquotedReference(data); at > 0 {
		return at, "%s", `a reference inside { } or [ ] must be quoted: "${NAME}"`
	}
	if at := openQuote(data); at > 0 {
		return at, "%s", "the quote that is opened here is not closed in its line: add the closing quote"
	}
	message := err.Error()
	// The library's lines are near the truth and may lie behind the last one.
	inside := func(line int) int {
		return min(max(1, line), bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n"))+1)
	}
	has := func(part string) bool { return strings.Contains(message, part) }
	switch {
	case has("',' or '}'"), has("',' or ']'"):
		// The library names the line before the bracket.
		return inside(namedLine(message) + 1), "%s", "the { or [ that is opened here does not end well: look for a missing bracket, comma or quote"
	case has("could not find expected ':'"):
		return inside(namedLine(message)), "%s", "this is no `key: value`: add the colon and a space, or quote the text"
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
	if tabbed(data, line) {
		text = "a tab indents the line: indent with spaces"
	}
	return line, "%s", text
}

// tabbed reports whether a tab stands in the indentation of a line.
func tabbed(data []byte, line int) bool {
	for ; line > 1; line-- {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	indentation := data[:len(data)-len(bytes.TrimLeft(data, " \t"))]
	return bytes.IndexByte(indentation, '\t') >= 0
}

// namedLine reads the line in one of the library's messages, 0 for none.
func namedLine(message string) int {
	_, rest, _ := strings.Cut(message, "line ")
	number, _, _ := strings.Cut(rest, ":")
	line, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return line
}

// errorLine finds the line that a syntax error is about. For most errors the
// library names where the surrounding block begins, so the file is fed to it
// line by line: it fails at the line or, having looked ahead, a few after it. The
// last line without which the error is another one is the culprit.
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

// drain decodes document after document until the error that ends it, nil where
// that is the end of the input.
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

// lineFeed is a Reader that gives one line per Read and remembers how many it
// has given.
type lineFeed struct {
	lines [][]byte
	next  int
	rest  []byte // of a line that was longer than the caller's buffer
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

// quoteToken finds comments, and texts in quotes with what follows them in their line;
// one that never ends goes to the end of the file.
var quoteToken = regexp.MustCompile(`(?m)(?:^|\s)#.*$|(?:^|[\s,:\[{])((?:"(?:[^"\\]|\\[\s\S])*(?:"|\z)|'(?:[^']|'')*(?:'|\z))(.*))`)

// openQuote returns the line in which a quote is opened that the next one, in another
// line, does not close but was meant to open; 0 for none. Such a next one is followed by
// what can follow no closing quote. It is asked about broken files alone.
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

// flowToken finds what matters for unquotedReference: quoted texts, comments,
// references, brackets.
var flowToken = regexp.MustCompile(`(?m)(?:^|[\s,:\[{])(?:"(?:[^"\\]|\\[\s\S])*"|'(?:[^']|'')*')|(?:^|\s)#.*$|\$\{[^}\n]*\}|[\[\]{}]|\n`)

// unquotedReference returns the line of the first ${ that stands inside { } or
// [ ] without quotes, 0 for none. YAML takes its brace for a mapping, and the
// error for that does not tell what to do. It is asked about broken files alone
// and may be wrong about odd ones.
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
			// A bracket, alone or with the quoted text that follows it.
			depth++
		case len(first) == 1 && (first[0] == ']' || first[0] == '}'):
			depth = max(0, depth-1)
		}
		line += bytes.Count(token, []byte("\n"))
	}
	return 0
}
