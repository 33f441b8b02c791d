// Package strictjson reads JSON more strictly than encoding/json. It refuses data after the value.
// It also refuses repeated fields, even if their names differ in letter case. The caller must limit
// the size of the body and check the values. Encode writes JSON.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNotObject means that the body is valid JSON, but not a JSON object.
var ErrNotObject = errors.New("the body must be one JSON object")

// FieldError is a fault of one field. Its text omits the name of the field, because the sender
// chose this name.
type FieldError struct{ Name, Wrong string }

// Error describes the fault without the name of the field.
func (e *FieldError) Error() string { return "a field " + e.Wrong }

// Object reads a body that must be one JSON object without nested objects or lists. It calls the
// function `handle` for each field, in order, with a string, json.Number, bool or nil as the
// value. Object stops when the function `handle` returns an error. For a nested object or list,
// handle gets the opening json.Delim. If handle returns nil, Object refuses the field.
func Object(body []byte, handle func(name string, value json.Token) error) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	start, err := d.Token()
	if err == nil && start != json.Delim('{') {
		return ErrNotObject
	}
	for err == nil && d.More() {
		var name, value json.Token
		if name, err = d.Token(); err == nil {
			value, err = d.Token()
		}
		if err != nil {
			break
		}
		field, _ := name.(string) // the decoder accepts only strings as names
		if err := handle(field, value); err != nil {
			return err
		}
		if _, nested := value.(json.Delim); nested {
			return &FieldError{field, "must be a single value, not an object or a list"}
		}
	}
	return cmp.Or(Check(body), err) // last, because handle limits the number of fields
}

// Check returns an error unless the body is exactly one JSON value of any kind. It also returns an
// error if an object at any depth contains a field twice. No text quotes the body.
func Check(body []byte) error {
	lax := []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(false)}
	d := jsontext.NewDecoder(bytes.NewBuffer(body), lax...)
	value, err := d.ReadValue()
	if err == nil && len(bytes.Trim(body[d.InputOffset():], " \t\r\n")) > 0 {
		return errors.New("the body must end with its JSON value: remove what follows")
	}
	if err == nil { // encoding/json ignores the case of names, also of escaped ones
		plain, _ := jsontext.AppendFormat(make([]byte, 0, len(value)), value, lax...)
		_, err = jsontext.NewDecoder(bytes.NewBuffer(bytes.Map(fold, plain))).ReadValue()
	}
	fault, _ := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case err == nil:
		return nil
	case fault == nil, errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body ends inside its JSON value")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &FieldError{fault.JSONPointer.LastToken(), "must be given once"}
	}
	return fmt.Errorf("the body is not JSON: look after byte %d", fault.ByteOffset)
}

func fold(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }

// Encode returns v as JSON. It panics if v has no JSON form, for example NaN or a channel.
func Encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("strictjson: %w", err))
	}
	return text
}
