package targets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"
)

// MaxFileSize is the maximum size of a configuration file in bytes. A file with ten thousand targets is
// far smaller.
const MaxFileSize = 16 << 20

// document returns the root node of the only YAML document in data. For invalid YAML it returns the
// wrong line and an explanation for the author of the file. The explanations never quote the file,
// because any part of it may be a secret.
func document(data []byte) (*yaml.Node, *Problem) {
	if len(data) > MaxFileSize {
		return nil, &Problem{Line: 1, Text: fmt.Sprintf("the file is larger than %d MiB", MaxFileSize>>20)}
	}
	roots, err := documents(data)
	switch {
	case err != nil:
		return nil, explain(data, err.Error())
	case len(roots) == 0 || isNull(roots[0].Content[0]):
		return nil, &Problem{Line: 1, Text: "the file is empty: it needs at least the section targets"}
	case len(roots) > 1:
		// The YAML library would ignore a second document.
		return nil, &Problem{Line: roots[1].Line,
			Text: "a second YAML document begins here; the file holds one: remove the line with ---"}
	}
	return roots[0].Content[0], nil
}

// isNull reports whether a node is the null value, such as the value of an empty key.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// documents decodes all documents into nodes, without expanding aliases. It converts a panic of the
// library to an error, because a half-written file must not end the daemon.
func documents(data []byte) (roots []*yaml.Node, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("not valid YAML")
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		root := new(yaml.Node)
		if err := decoder.Decode(root); errors.Is(err, io.EOF) {
			return roots, nil
		} else if err != nil {
			return nil, err
		}
		roots = append(roots, root)
	}
}

// explanation says to the author of the file what a message of the YAML library with this part means.
type explanation struct{ part, text string }

var explanations = []explanation{
	{"',' or '", "the { or [ that is open here is not closed correctly: look for a missing bracket, comma or quote; " +
		`write a reference as "${NAME}"`},
	{"could not find expected ':'", "the line has no `key: value`: add the colon and a space, or quote the text"},
	{"unknown anchor", "an alias (*) is not read: quote a value that begins with *"},
	{"mapping values are not allowed",
		"a colon and a space where no key may begin: indent the line like its neighbours, or quote the value"},
	{"cannot start any token", "a value may not begin with this character (@, % or `): put it in quotes"},
	{"expected node content", "a value, or the bracket that closes a list, is missing"},
	{"escape", `an unknown \ escape in double quotes: write \\ or use single quotes`},
	{"control characters", "the line holds a control character: remove it"},
	{"UTF-", "the line is not valid UTF-8: save the file as UTF-8"},
	{"unexpected end of stream", "the quote that is opened here is not closed: add the closing quote"},
	{"", "the line does not fit the ones above: indent it like its neighbours, quote values whole, " +
		"and close every quote above"},
}

var tabIndentation = regexp.MustCompile(`^ *\t`)

// explain converts a message of the YAML library to a line and an explanation. It does not quote the
// message, because the message may quote the file ("unknown anchor …").
func explain(data []byte, message string) *Problem {
	i := slices.IndexFunc(explanations, func(e explanation) bool { return strings.Contains(message, e.part) })
	lines := bytes.SplitAfter(bytes.TrimRight(data, "\n"), []byte("\n"))
	// The library names only the start of the surrounding block. The search finds the shortest beginning of the file that
	// has the error; its last line is the wrong one.
	line := 1 + sort.Search(len(lines)-1, func(n int) bool {
		_, err := documents(bytes.Join(lines[:n+1], nil))
		return err != nil && err.Error() == message
	})
	problem := &Problem{Line: line, Text: explanations[i].text}
	if i > 1 && tabIndentation.Match(lines[line-1]) {
		problem.Text = "a tab indents the line: indent with spaces"
	}
	return problem
}
