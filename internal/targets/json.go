package targets

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// mostFields is how many fields the body of a request can have, with those that are
// unknown or written twice: each takes memory.
const mostFields = 64

// object makes a tree of a JSON object, as those of YAML are, so that one set of kinds
// reads both. It has no lines. What is wrong with it is reported, and it is nil where
// nothing can be said of its fields.
func (r *reader) object(body []byte) *yaml.Node {
	from := json.NewDecoder(bytes.NewReader(body))
	from.UseNumber()
	whole := value{r: r}
	if start, err := from.Token(); err != nil {
		whole.malformed(from, err)
		return nil
	} else if start != json.Delim('{') {
		whole.fail("the body must be one JSON object: {\"type\": …}")
		return nil
	}
	all := &yaml.Node{Kind: yaml.MappingNode}
	for from.More() {
		if len(all.Content) == 2*mostFields {
			whole.fail("the body must not have more than %d fields", mostFields)
			return nil
		}
		key, err := from.Token()
		name, _ := key.(string) // the decoder takes nothing else
		if err != nil {
			whole.malformed(from, err)
			return nil
		}
		item := whole.child(name)
		got, err := from.Token()
		if err != nil {
			item.malformed(from, err)
			return nil
		}
		if _, nested := got.(json.Delim); nested {
			item.fail("must be a single value, not an object or a list")
			return nil
		}
		all.Content = append(all.Content, jsonScalar(name), item.scalarOf(got))
	}
	if _, err := from.Token(); err != nil {
		whole.malformed(from, err)
		return nil
	}
	if _, err := from.Token(); !errors.Is(err, io.EOF) {
		whole.fail("the body must end with its object: remove what follows")
	}
	return all
}

// malformed reports what the decoder says, without its text, which quotes.
func (v value) malformed(from *json.Decoder, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		v.fail("the body ends inside its JSON object")
		return
	}
	v.fail("the body is no JSON: look behind byte %d", from.InputOffset())
}

// scalarOf makes a node of a value of JSON.
func (v value) scalarOf(got any) *yaml.Node {
	switch got := got.(type) {
	case string:
		// What the decoder cannot read as a character it replaces.
		if strings.ContainsRune(got, '\uFFFD') {
			v.fail("must be valid UTF-8")
		}
		node := jsonScalar(got)
		node.Style = yaml.DoubleQuotedStyle
		return node
	case json.Number:
		return jsonScalar(got.String())
	case bool:
		if got {
			return jsonScalar("true")
		}
		return jsonScalar("false")
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
}

func jsonScalar(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
