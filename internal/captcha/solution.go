package captcha

import (
	"encoding/json"
	"slices"
	"strings"
)

// valueNames are the values that the answer of a type has, where it is no plain text.
var valueNames = map[Type][]string{
	GeeTest:   {"challenge", "validate", "seccode"},
	GeeTestV4: {"captcha_id", "lot_number", "pass_token", "gen_time", "captcha_output"},
}

// HasNamed reports whether an answer of the type is named values, and no plain text.
func HasNamed(t Type) bool { return valueNames[t] != nil }

// Named reads the values of an answer by their names, those of valueNames. The text is
// as a service writes it: a JSON object, or a list of name:value with commas. A name may
// begin with "geetest_". nil: a value is missing, or has two texts, or the type has none.
func Named(t Type, text string) map[string]string {
	names := valueNames[t]
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

// pairs are the names and texts of an object or a list; of an object, its strings and
// numbers.
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
