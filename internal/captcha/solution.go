package captcha

import (
	"encoding/json"
	"slices"
	"strings"
)

// ValueNames returns the names of the values of which a solution of this type consists, in the
// order in which a service lists them. It returns nil if a solution of this type is plain text.
func ValueNames(t Type) []string {
	switch t {
	case GeeTest:
		return []string{"challenge", "validate", "seccode"}
	case GeeTestV4:
		return []string{"captcha_id", "lot_number", "pass_token", "gen_time", "captcha_output"}
	}
	return nil
}

// HasNamed reports whether a solution of this type consists of named values.
func HasNamed(t Type) bool { return ValueNames(t) != nil }

// Named parses a solution into the values that ValueNames lists. The text is what the service sent:
// a JSON object, or name:value pairs separated by commas. A name may have the prefix "geetest_".
// Named returns nil if a value is missing, if two different texts are given for one name, or if the
// type has no named values.
func Named(t Type, text string) map[string]string {
	names := ValueNames(t)
	if names == nil {
		return nil
	}
	found := make(map[string]string, len(names))
	for name, value := range pairs(text) {
		name, value = strings.TrimPrefix(strings.ToLower(name), "geetest_"), strings.TrimSpace(value)
		if value == "" || !slices.Contains(names, name) {
			continue
		}
		if found[name] != "" && found[name] != value {
			return nil
		}
		found[name] = value
	}
	if len(found) < len(names) {
		return nil
	}
	return found
}

// pairs parses a JSON object, or a list of name:value pairs, into names and texts. Members of an
// object that are neither strings nor numbers are ignored.
func pairs(text string) map[string]string {
	all := make(map[string]string)
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) == nil {
		for name, raw := range members {
			var value string
			var number json.Number
			if json.Unmarshal(raw, &value) != nil && json.Unmarshal(raw, &number) == nil {
				value = number.String()
			}
			all[name] = value
		}
		return all
	}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, ":")
		name = strings.TrimSpace(name)
		if old, twice := all[name]; twice && old != value {
			return nil
		}
		all[name] = value
	}
	return all
}
