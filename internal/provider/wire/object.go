package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

var errAfter = errors.New("something stands behind the object")

// repeated says whether an object in a body, or anything behind it, spoils what it says:
// encoding/json would take the last of two values. Names that differ in case alone are
// the same to it.
func repeated(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := walk(d); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errAfter
	}
	return nil
}

// walk reads one value.
func walk(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	begin, nested := token.(json.Delim)
	if !nested {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		if begin == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			text, _ := name.(string)
			folded := strings.ToLower(strings.ToUpper(text)) // as encoding/json folds names
			if seen[folded] {
				return errTwice
			}
			seen[folded] = true
		}
		if err := walk(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end
	return err
}
