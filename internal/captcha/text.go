package captcha

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable removes all characters except printable ASCII from an untrusted text, so that logs, pages
// and terminals can show the text safely.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
}

// IsReadable reports whether a text is valid UTF-8 of at most maxBytes bytes, contains more than
// white space, and has no control or replacement characters.
func IsReadable(text string, maxBytes int) bool {
	return strings.TrimSpace(text) != "" && len(text) <= maxBytes && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
}
