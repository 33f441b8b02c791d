package targets

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// mostFields is the most fields of a request, with unknown and repeated ones: each takes
// memory.
const mostFields = 64

// requestValue is one field of a request.
type requestValue struct {
	key   string
	value scalar
}

// object reads a JSON object of single values. It reports its faults, and
// returns false if its fields are not complete.
func (r *reader) object(body []byte) (fields []requestValue, ok bool) {
	from := json.NewDecoder(bytes.NewReader(body))
	from.UseNumber()
	whole := value{r: r}
	if start, err := from.Token(); err != nil {
		return nil, whole.malformed(from, err)
	} else if start != json.Delim('{') {
		return nil, whole.fail("the body must be one JSON object: {\"type\": …}")
	}
	for from.More() {
		if len(fields) == mostFields {
			return nil, whole.fail("the body must not have more than %d fields", mostFields)
		}
		key, err := from.Token()
		if err != nil {
			return nil, whole.malformed(from, err)
		}
		name, _ := key.(string) // the decoder accepts nothing else
		item := whole.child(name)
		got, err := from.Token()
		if err != nil {
			return nil, item.malformed(from, err)
		}
		field := requestValue{key: name}
		switch got := got.(type) {
		case json.Delim:
			return nil, item.fail("must be a single value, not an object or a list")
		case string:
			field.value = scalar{text: got, quoted: true}
		case json.Number:
			field.value.text = got.String()
		case bool:
			field.value.text = map[bool]string{true: "true", false: "false"}[got]
		default:
			field.value.null = true
		}
		fields = append(fields, field)
	}
	if _, err := from.Token(); err != nil {
		return nil, whole.malformed(from, err)
	}
	if _, err := from.Token(); !errors.Is(err, io.EOF) {
		whole.fail("the body must end with its object: remove what follows")
	}
	return fields, true
}

// malformed reports a fault without the decoder's text, which quotes the body.
func (v value) malformed(from *json.Decoder, err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return v.fail("the body ends inside its JSON object")
	}
	return v.fail("the body is no JSON: look behind byte %d", from.InputOffset())
}
