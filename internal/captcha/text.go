package captcha

import "strings"

// Printable returns a text of foreign origin without all characters except printable ASCII, so that
// logs, pages and terminals can show it.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
}
