// Package strictjson reads JSON more strictly than encoding/json. It refuses a repeated field, another
// spelling of a field's name, and data after the value. The caller must limit the size and check the
// values.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxDepth is the deepest nesting that encoding/json accepts.
const maxDepth = 10000

var (
	// ErrNotObject means that the body is JSON, but not an object.
	ErrNotObject = errors.New("the body must be one JSON object")
	// ErrTrailing means that data follows the value.
	ErrTrailing = errors.New("the body must end with its JSON value: remove what follows")
	// ErrTruncated means that the body ends inside the value.
	ErrTruncated = errors.New("the body ends inside its JSON value")
	// ErrDepth means that objects and lists are nested too deeply.
	ErrDepth = fmt.Errorf("the body must not nest more than %d objects and lists", maxDepth)

	// ErrDuplicate is the cause of a FieldError about a repeated field.
	ErrDuplicate = errors.New("must be given once")
	// ErrNested is the cause of a FieldError about an object or a list.
	ErrNested = errors.New("must be a single value, not an object or a list")
)

// SyntaxError means that the body is not JSON. It never quotes the body.
type SyntaxError struct {
	Offset int64 // in bytes, of the end of the last valid token
}

// Error names the place of the fault.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("the body is not JSON: look after byte %d", e.Offset)
}

// FieldError is a fault of one field. Its text does not include the name, which the sender
// chose.
type FieldError struct {
	Name string
	Err  error // ErrDuplicate or ErrNested
}

// Error describes the fault without the name of the field.
func (e *FieldError) Error() string { return "a field " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }

// Object reads a body that is one JSON object of single values. It calls field for each
// field in turn with a string, json.Number, bool or nil, and stops at its first error. For
// a nested value field gets the opening json.Delim, and can refuse the field with an error. If it
// accepts, Object refuses the field with ErrNested.
func Object(body []byte, field func(name string, value json.Token) error) error {
	r := newReader(body)
	start, err := r.token()
	if err != nil {
		return err
	}
	if start != json.Delim('{') {
		return ErrNotObject
	}
	seen := map[string]bool{}
	for r.decoder.More() {
		name, err := r.name(seen)
		if err != nil {
			return err
		}
		value, err := r.token()
		if err != nil {
			return err
		}
		if err := field(name, value); err != nil {
			return err
		}
		if _, nested := value.(json.Delim); nested {
			return &FieldError{name, ErrNested}
		}
	}
	if _, err := r.token(); err != nil { // the closing brace
		return err
	}
	return r.end()
}

// Check reports whether a body is one JSON value of any kind in which no object, at any
// depth, has a field twice.
func Check(body []byte) error {
	r := newReader(body)
	if err := r.value(0); err != nil {
		return err
	}
	return r.end()
}

type reader struct{ decoder *json.Decoder }

func newReader(body []byte) reader {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return reader{d}
}

func (r reader) token() (json.Token, error) {
	token, err := r.decoder.Token()
	switch {
	case err == nil:
		return token, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, ErrTruncated
	}
	return nil, &SyntaxError{r.decoder.InputOffset()}
}

// name reads a field's name. Names that encoding/json treats as equal are duplicates.
func (r reader) name(seen map[string]bool) (string, error) {
	token, err := r.token()
	if err != nil {
		return "", err
	}
	name, _ := token.(string) // the decoder accepts nothing else
	folded := strings.ToLower(strings.ToUpper(name))
	if seen[folded] {
		return name, &FieldError{name, ErrDuplicate}
	}
	seen[folded] = true
	return name, nil
}

// value reads one value with all that it contains.
func (r reader) value(depth int) error {
	token, err := r.token()
	if err != nil {
		return err
	}
	start, nested := token.(json.Delim)
	if !nested {
		return nil
	}
	if depth == maxDepth {
		return ErrDepth
	}
	seen := map[string]bool{}
	for r.decoder.More() {
		if start == '{' {
			if _, err := r.name(seen); err != nil {
				return err
			}
		}
		if err := r.value(depth + 1); err != nil {
			return err
		}
	}
	_, err = r.token() // the closing delimiter
	return err
}

// end fails unless the body ends here.
func (r reader) end() error {
	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return ErrTrailing
	}
	return nil
}
