package wire

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"poold/internal/captcha"
)

// charsets lists the character sets by their numbers in the field `numeric` of the protocols.
var charsets = []captcha.Charset{"", captcha.Digits, captcha.Letters, captcha.DigitsOrLetters, captcha.DigitsAndLetters}

// unreadable is the text of a list or an object in place of a value.
const unreadable = "\x00"

// read reads the fields of the order's type, and returns their names. If a field is sent under several names, all
// values must be equal. The function names returns the names of a field in the protocol, and get returns the text that
// was sent under a name.
func (o *Submission) read(names func(captcha.Field) string, get func(name string) string) (known []string) {
	for _, field := range captcha.Of(o.Identity.Type).Fields {
		value := ""
		for _, name := range captcha.Read(names(field)) {
			known = append(known, name)
			switch text := get(name); {
			case text == "", text == value, field.Key == "":
			case value != "":
				o.refuse(CodeBadParams, "")
			default:
				value = text
				if text == unreadable || !parse(o.Identity.Ptr(field.Key), text) {
					o.refuse(CodeBadParams, name)
				}
			}
		}
	}
	return known
}

// parse parses a text into a field of an identity, and reports whether the text is valid. Some clients send booleans
// as the words true and false.
func parse(field any, text string) (ok bool) {
	var err error
	switch at := field.(type) {
	case *captcha.Type, *string, *captcha.Secret:
		reflect.ValueOf(at).Elem().SetString(text)
	case *bool:
		*at = text == "1" || text == "true"
		return *at || text == "0" || text == "false"
	case *int:
		*at, err = strconv.Atoi(text)
	case *float64:
		*at, err = strconv.ParseFloat(text, 64)
		return err == nil && *at >= 0 && *at <= 1 // only min_score is one; false for NaN, too
	case *captcha.Charset:
		n, err := strconv.Atoi(text)
		if ok = err == nil && n >= 0 && n < len(charsets); ok {
			*at = charsets[n]
		}
		return ok
	}
	return err == nil
}

// value returns the value of a field of an identity for JSON; nil = the field is not set.
func value(field any) any {
	v := reflect.ValueOf(field).Elem()
	if v.IsZero() {
		return nil
	}
	switch at := field.(type) {
	case *captcha.Secret:
		return at.Reveal()
	case *captcha.Charset:
		return slices.Index(charsets, *at)
	}
	return v.Interface()
}

// text returns the value of a field of an identity for a form, or "".
func text(field any) string {
	switch v := value(field).(type) {
	case nil:
		return ""
	case bool:
		return "1"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// sentName returns the name of a type that a client sends to a service.
func sentName(names []captcha.Name, service string) (sent captcha.Name) {
	for _, name := range names {
		if name.Service == service && service != "" || sent.Name == "" && name.Service == "" {
			sent = name
		}
	}
	return sent
}

// typeOf returns the type with a name and a version in a protocol, or "". The function names returns the names of a
// type, and is reports whether a name matches.
func typeOf(names func(captcha.Kind) []captcha.Name, version string, is func(name string) bool) (found captcha.Type) {
	for _, kind := range captcha.Kinds {
		for _, name := range names(kind) {
			switch {
			case !is(name.Name):
			case name.Version == version && version != "":
				return kind.Type
			case name.Version == "":
				found = kind.Type
			}
		}
	}
	return found
}

// checkExpressible returns an error if an identity has a key that does not belong to its type, or if the protocol has
// no name for its type.
func checkExpressible(id *captcha.Identity, name captcha.Name) error {
	if name.Name == "" {
		return fmt.Errorf("the protocol has no name for the type %q", id.Type)
	}
	for _, key := range captcha.Keys() {
		if value(id.Ptr(key)) != nil && !captcha.Of(id.Type).Has(key) {
			return fmt.Errorf("the protocol has no field for %s of the type %s", key, id.Type)
		}
	}
	return nil
}
