package captcha

import (
	"encoding/json"
	"maps"
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

// Extra has the further members of a solution, such as userAgent and respKey, which a site may want with the token. It
// is a JSON object of strings without the character |; "" = none.
type Extra string

// Each member is at most longMember bytes long, and there are at most mostMembers.
const longMember, mostMembers = 16 << 10, 64

// NewExtra returns those members of a solution that are readable texts, except the token's, named values
// and the given names in lower case. The user agent has the name userAgent, however a service spells it.
func NewExtra(members map[string]json.RawMessage, without ...string) Extra {
	extra := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var text string
		lower := strings.TrimPrefix(strings.ToLower(name), "geetest_")
		isToken := slices.ContainsFunc(Kinds[:], func(k Kind) bool {
			return lower == strings.ToLower(k.Solution) || slices.Contains(k.Values, lower)
		})
		switch {
		case json.Unmarshal(members[name], &text) != nil || !IsReadable(name, longMember) || !IsReadable(text, longMember):
			continue
		case isToken || slices.Contains(without, lower) || len(extra) == mostMembers:
			continue
		case lower == "useragent" || lower == "user_agent":
			name = "userAgent"
		}
		extra[name] = text
	}
	if len(extra) == 0 {
		return ""
	}
	text, _ := json.Marshal(extra) // of strings: no error is possible
	return Extra(strings.ReplaceAll(string(text), "|", `\u007c`))
}

// Members returns the members; nil = none.
func (e Extra) Members() (members map[string]string) {
	if e != "" {
		_ = json.Unmarshal([]byte(e), &members) // NewExtra has made it
	}
	return members
}
