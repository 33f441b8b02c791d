package captcha

import "strings"

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
