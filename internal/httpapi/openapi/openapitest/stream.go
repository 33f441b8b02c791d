package openapitest

import (
	"bytes"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// events checks the server-sent events of a stream.
type events struct {
	schemas map[string]*jsonschema.Schema // by the name of the event; nil = another kind of response
	rest    []byte                        // an incomplete line
	name    string                        // the name of the event whose data comes next
}

// Read checks the events of a stream whose lines end in a part of the body. For other responses,
// Read does nothing.
func (x *Exchange) Read(part []byte) error {
	e := &x.events
	if e.schemas == nil {
		return nil
	}
	e.rest = append(e.rest, part...)
	for {
		line, rest, whole := bytes.Cut(e.rest, []byte("\n"))
		if !whole {
			return nil
		}
		if err := e.line(line); err != nil {
			return x.wrong(err)
		}
		e.rest = rest
	}
}

func (e *events) line(line []byte) error {
	field, value, _ := bytes.Cut(line, []byte(": "))
	switch string(field) {
	case "", "retry", "id": // an empty line, a comment, or a field without data
		return nil
	case "event":
		e.name = string(value)
		return nil
	case "data":
		schema := e.schemas[e.name]
		if schema == nil {
			return fmt.Errorf("the event %q is not declared", e.name)
		}
		if err := checkJSON(schema, value); err != nil {
			return fmt.Errorf("event %s: %w", e.name, err)
		}
		return nil
	}
	return fmt.Errorf("an undeclared line %.100q", line)
}
