package captcha

import (
	"encoding/json"
	"slices"
	"strings"
)

// ValueNames returns the names of the values that a solution of the type consists of, in the
// order of a list; nil if the solution is a plain text.
func ValueNames(t Type) []string {
	switch t {
	case GeeTest:
		return []string{"challenge", "validate", "seccode"}
	case GeeTestV4:
		return []string{"captcha_id", "lot_number", "pass_token", "gen_time", "captcha_output"}
	}
	return nil
}

// HasNamed reports whether a solution of the type consists of named values.
func HasNamed(t Type) bool { return ValueNames(t) != nil }

// Named reads the values of a solution by ValueNames. The text is a JSON object, or a list of
// name:value with commas, as a service writes it. A name may begin with "geetest_". It returns
// nil if a value is missing or has two texts, or if the type has no named values.
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

// pairs returns the names and texts of an object or a list. In an object it takes the strings
// and numbers.
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
