package targets

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"gopkg.in/yaml.v3"

	"poold/internal/strictjson"
)

// mostFields is the most fields of a request, with unknown ones: each takes memory.
const mostFields = 64

var errManyFields = fmt.Errorf("the body must not have more than %d fields", mostFields)

// object reads a JSON object of single values as a mapping without lines. If it cannot, it
// reports the fault and returns nil.
func (r *reader) object(body []byte) *yaml.Node {
	object := &yaml.Node{Kind: yaml.MappingNode}
	err := strictjson.Object(body, func(name string, token json.Token) error {
		if len(object.Content) == 2*mostFields {
			return errManyFields
		}
		switch token := token.(type) {
		case string:
			addField(object, name, textNode(token))
		case json.Number:
			addField(object, name, bareNode(token.String()))
		case bool:
			addField(object, name, bareNode(strconv.FormatBool(token)))
		case nil:
			addField(object, name, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"})
		}
		return nil // Object refuses other values
	})
	whole := value{r: r}
	var fault *strictjson.FieldError
	switch {
	case errors.As(err, &fault):
		whole.child(fault.Name).fail("%v", fault.Err)
	case errors.Is(err, strictjson.ErrNotObject):
		whole.fail(`%v: {"type": …}`, err)
	case err != nil:
		whole.fail("%v", err)
	default:
		return object
	}
	return nil
}

func addField(object *yaml.Node, key string, value *yaml.Node) {
	object.Content = append(object.Content, bareNode(key), value)
}

func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: text}
}

// bareNode is a number, a truth value or a key.
func bareNode(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
