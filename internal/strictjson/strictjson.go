// Package strictjson reads JSON more strictly than encoding/json. It refuses data after the value.
// It also refuses repeated fields, even if their names differ in letter case. The caller must limit
// the size of the body and check the values. Encode writes JSON.
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
	// ErrNotObject means that the body is valid JSON, but not a JSON object.
	ErrNotObject = errors.New("the body must be one JSON object")
	// ErrTrailing means that the body continues after its JSON value.
	ErrTrailing = errors.New("the body must end with its JSON value: remove what follows")
	// ErrTruncated means that the body ends inside its JSON value.
	ErrTruncated = errors.New("the body ends inside its JSON value")
	// ErrDepth means that objects and lists are nested too deeply.
	ErrDepth = fmt.Errorf("the body must not nest more than %d objects and lists", maxDepth)

	// ErrDuplicate is the cause of a FieldError about a repeated field.
	ErrDuplicate = errors.New("must be given once")
	// ErrNested is the cause of a FieldError about a field whose value is an object or a list.
	ErrNested = errors.New("must be a single value, not an object or a list")
)

// SyntaxError means that the body is not JSON. Its text never quotes the body.
type SyntaxError struct {
	Offset int64 // number of bytes up to the end of the last valid token
}

// Error describes the fault with its offset.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("the body is not JSON: look after byte %d", e.Offset)
}

// FieldError is a fault of one field. Its text omits the name of the field, because the sender
// chose this name.
type FieldError struct {
	Name string
	Err  error // ErrDuplicate or ErrNested
}

// Error describes the fault without the name of the field.
func (e *FieldError) Error() string { return "a field " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }

// Object reads a body that must be one JSON object without nested objects or lists. It calls the
// function `handle` once for each field, in order, with a string, json.Number, bool or nil as the
// value. Object stops when the function `handle` returns an error. For a nested object or list,
// handle gets the opening json.Delim. If handle returns nil, Object refuses the field with
// ErrNested.
func Object(body []byte, handle func(name string, value json.Token) error) error {
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
		name, err := r.readName(seen)
		if err != nil {
			return err
		}
		value, err := r.token()
		if err != nil {
			return err
		}
		if err := handle(name, value); err != nil {
			return err
		}
		if _, nested := value.(json.Delim); nested {
			return &FieldError{name, ErrNested}
		}
	}
	if _, err := r.token(); err != nil { // the closing brace
		return err
	}
	return r.checkEnd()
}

// Check returns an error unless the body is exactly one JSON value of any kind. It also returns an
// error if an object at any depth contains a field twice.
func Check(body []byte) error {
	r := newReader(body)
	if err := r.readValue(0); err != nil {
		return err
	}
	return r.checkEnd()
}

// Encode returns v as JSON. It panics if v has no JSON form, for example NaN or a channel.
func Encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("strictjson: %w", err))
	}
	return text
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

// readName reads the name of the next field and adds the name to the map `seen`. Two names are
// duplicates if encoding/json treats them as equal, that is, regardless of case.
func (r reader) readName(seen map[string]bool) (string, error) {
	token, err := r.token()
	if err != nil {
		return "", err
	}
	name, _ := token.(string) // the decoder accepts only strings as names
	folded := strings.ToLower(strings.ToUpper(name))
	if seen[folded] {
		return name, &FieldError{name, ErrDuplicate}
	}
	seen[folded] = true
	return name, nil
}

func (r reader) readValue(depth int) error {
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
			if _, err := r.readName(seen); err != nil {
				return err
			}
		}
		if err := r.readValue(depth + 1); err != nil {
			return err
		}
	}
	_, err = r.token() // the closing delimiter
	return err
}

// checkEnd returns ErrTrailing if the body continues with anything except white space.
func (r reader) checkEnd() error {
	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return ErrTrailing
	}
	return nil
}
