package targets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// MaxFileSize is the maximum size of a configuration file in bytes. A file with ten thousand targets is
// far smaller.
const MaxFileSize = 16 << 20

var errNotYAML = errors.New("not valid YAML")

// document returns the root node of the only YAML document in data. For invalid YAML it returns the
// wrong line and an explanation for the author of the file. The explanations never quote the file,
// because any part of it may be a secret.
func document(data []byte) (*yaml.Node, *Problem) {
	if problem := unreadable(data); problem != nil {
		return nil, problem
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	root, err := nextDocument(decoder)
	if errors.Is(err, io.EOF) || err == nil && isNull(root.Content[0]) {
		return nil, &Problem{Line: 1, Text: "the file is empty: it needs at least the section targets"}
	}
	second := root
	if err == nil {
		second, err = nextDocument(decoder)
	}
	switch {
	case errors.Is(err, io.EOF):
		return root.Content[0], nil
	case err != nil:
		return nil, explain(data, err.Error())
	}
	// The YAML library would ignore a second document.
	return nil, &Problem{Line: second.Line, Text: "a second YAML document begins here; the file holds one: remove the line with ---"}
}

// isNull reports whether a node is the null value, such as the value of an empty key.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// nextDocument decodes the next document into nodes, without expanding aliases. It converts a panic
// of the library to an error, because a half-written file must not end the daemon.
func nextDocument(d *yaml.Decoder) (node *yaml.Node, err error) {
	defer func() {
		if recover() != nil {
			err = errNotYAML
		}
	}()
	node = new(yaml.Node)
	if err = d.Decode(node); err == nil && (node.Kind != yaml.DocumentNode || len(node.Content) != 1) {
		err = errNotYAML
	}
	return node, err
}

// unreadable returns a problem if the bytes cannot be YAML text. The library refuses most of these
// files too, but does not report the line.
func unreadable(data []byte) *Problem {
	if len(data) > MaxFileSize {
		return &Problem{Line: 1, Text: fmt.Sprintf("the file is larger than %d MiB", MaxFileSize>>20)}
	}
	odd := func(c rune) bool { // YAML treats U+2028 and U+2029, and a \r alone, as line breaks
		return unicode.IsControl(c) && c != '\t' || c == 0xFEFF || c == 0xFFFE || c == 0xFFFF || c == 0x2028 || c == 0x2029
	}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
		if i := bytes.IndexFunc(text, odd); line == 1 && bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
			return &Problem{Line: 1, Text: "the file begins with a byte order mark: save it as UTF-8 without one"}
		} else if !utf8.Valid(text) {
			return &Problem{Line: line, Text: "the line is not valid UTF-8: save the file as UTF-8"}
		} else if i >= 0 {
			c, _ := utf8.DecodeRune(text[i:])
			return &Problem{Line: line, Text: fmt.Sprintf("the line holds the control character U+%04X: remove it", c)}
		}
	}
	return nil
}

// explanations has a part of each message of the YAML library, and what it means to the author.
var explanations = []struct{ part, text string }{
	{"',' or '", `the { or [ that opens here is not closed correctly: look for a missing bracket, comma or quote; write a reference as "${NAME}"`},
	{"could not find expected ':'", "the line has no `key: value`: add the colon and a space, or quote the text"},
	{"unknown anchor", "an alias (*) is not read: quote a value that begins with *"},
	{"mapping values are not allowed", "a colon and a space where no key may begin: indent the line like its neighbours, or quote the value"},
	{"cannot start any token", "a value may not begin with this character (@, % or `): put it in quotes"},
	{"expected key", "the line does not fit the ones above: indent it like its neighbours, and quote values whole"},
	{"expected '-' indicator", "the line does not fit the ones above: indent it like its neighbours, and quote values whole"},
	{"expected node content", "a value, or the bracket that closes a list, is missing"},
	{"escape", `an unknown \ escape in double quotes: write \\ or use single quotes`},
	{"max depth", "brackets or lists nest too deeply"},
	{"", "this is not valid YAML"},
}

var (
	namedLine      = regexp.MustCompile(`line (\d+):`)
	bareReference  = regexp.MustCompile(`[\[{].*[\s,\[{]\$\{`)
	tabIndentation = regexp.MustCompile(`^ *\t`)
	// quotedText matches comments, and quoted texts together with the rest of their line. A text without a
	// closing quote extends to the end of the file.
	quotedText = regexp.MustCompile(`(?m)(?:^|\s)#.*$|(?:^|[\s,:\[{])((?:"(?:[^"\\]|\\[\s\S])*(?:"|\z)|'(?:[^']|'')*(?:'|\z))(.*))`)
)

// explain converts a message of the YAML library to a line and an explanation. It does not quote the
// message, because the message may quote the file ("unknown anchor …").
func explain(data []byte, message string) *Problem {
	if line := openQuote(data); line > 0 {
		return &Problem{Line: line, Text: "the quote that is opened here is not closed in its line: add the closing quote"}
	}
	i := 0
	for !strings.Contains(message, explanations[i].part) {
		i++
	}
	lines := bytes.SplitAfter(bytes.TrimRight(data, "\n"), []byte("\n"))
	// For most errors the library names only the start of the surrounding block. The wrong line is the first
	// one with which the error occurs.
	line := 1 + sort.Search(len(lines)-1, func(n int) bool {
		decoder, err := yaml.NewDecoder(bytes.NewReader(bytes.Join(lines[:n+1], nil))), error(nil)
		for err == nil {
			_, err = nextDocument(decoder)
		}
		return err.Error() == message
	})
	if named := namedLine.FindStringSubmatch(message); named != nil && i < 2 {
		line, _ = strconv.Atoi(named[1])
		if i == 0 {
			line++ // the library's line is one less than the line with the bracket
		}
		line = max(1, min(line, len(lines)))
	}
	problem := &Problem{Line: line, Text: explanations[i].text}
	if text := lines[line-1]; i == 0 && bareReference.Match(text) {
		problem.Text = `a reference inside { } or [ ] must be quoted: "${NAME}"`
	} else if i > 1 && tabIndentation.Match(text) {
		problem.Text = "a tab indents the line: indent with spaces"
	}
	return problem
}

// openQuote returns the line with an unclosed quote, or 0 if there is none. YAML treats the next
// quote, which is in a later line, as the closing quote, and fails at the text after it.
func openQuote(data []byte) int {
	for _, at := range quotedText.FindAllSubmatchIndex(data, -1) {
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
