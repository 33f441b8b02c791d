package wire

import (
	"encoding/json"
	"slices"

	"poold/internal/captcha"
)

// A service can ignore these fields, because they change neither the solution nor how the client
// gets it. They name the author of the client program, ask for a dump of the call, or concern the
// service's own statistics and caches. The names in harmlessTasks are in lower case.
var (
	harmlessLegacy = []string{"soft_id", "softId", "debug_dump"}
	harmlessTasks  = []string{"softid", "appid", "revenuesharetronaddress", "nocache", "recognizingthreshold"}
)

// isHarmlessLegacy reports whether a field of in.php has no effect on a CAPTCHA of this type. A
// picture belongs to no page, and only the text of a picture has a language.
func isHarmlessLegacy(name string, t captcha.Type) bool {
	switch name {
	case "pageurl":
		return t == captcha.Image
	case "lang", "language":
		return t != captcha.Image
	}
	return slices.Contains(harmlessLegacy, name)
}

// flag is a boolean that some clients send as 0 or 1.
type flag bool

// UnmarshalJSON implements json.Unmarshaler.
func (f *flag) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "1":
		*f = true
	case "0":
		*f = false
	default:
		return json.Unmarshal(text, (*bool)(f))
	}
	return nil
}
