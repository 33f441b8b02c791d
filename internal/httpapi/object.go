package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// readObject reads a body that is one JSON object of plain values, each field at
// most once. It goes token by token: a struct would take other spellings of a
// field, and the last of two. want says what the body must be; set takes each
// field, and says what is wrong with it, "" for nothing. given are those it took.
func readObject(r *http.Request, w http.ResponseWriter, want string, set func(field string, value json.Token) (wrong string)) (given map[string]bool, err error) {
	body, err := readBody(r, w)
	if err != nil {
		return nil, err
	}
	if err := checkJSON(r); err != nil {
		return nil, err
	}
	malformed := fault(codeBadRequest, want)
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return nil, malformed
	}
	given = map[string]bool{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, malformed
		}
		value, err := decoder.Token()
		field, _ := name.(string)
		if err != nil || given[field] {
			return nil, malformed
		}
		given[field] = true
		if wrong := set(field, value); wrong != "" {
			return nil, fault(codeBadRequest, wrong)
		}
	}
	if _, err := decoder.Token(); err != nil { // the brace
		return nil, malformed
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, malformed
	}
	return given, nil
}
