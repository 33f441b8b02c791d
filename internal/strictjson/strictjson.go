// Package strictjson reads JSON more strictly than encoding/json. Check refuses data after the value
// and repeated fields, even if their names differ in letter case. The caller must limit the size of the
// body and check the values. Encode writes JSON.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// Check returns an error unless the body is exactly one JSON value of any kind. It also returns an
// error if an object at any depth contains a field twice. Its text quotes the name of this field, and nothing else of
// the body.
func Check(body []byte) error {
	lax := []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true),
		jsontext.PreserveRawStrings(false)}
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
		return fmt.Errorf("the field %.60q must be given once", fault.JSONPointer.LastToken())
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
