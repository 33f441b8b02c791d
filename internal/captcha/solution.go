package captcha

import (
	"encoding/json"
	"slices"
	"strings"
)

// HasNamed reports whether a solution of this type consists of named values.
func HasNamed(t Type) bool { return Of(t).Values != nil }

// Named parses a solution into the values that its Kind lists. The text comes from the service: a
// JSON object, or name:value pairs separated by commas. A name may have the prefix "geetest_". Named
// returns nil if a value is missing, if a name has two different texts, or if the type has no named
// values.
func Named(t Type, text string) map[string]string {
	names := Of(t).Values
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

// pairs parses a JSON object, or a list of name:value pairs, into names and texts. pairs ignores
// members of an object that are neither strings nor numbers.
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
