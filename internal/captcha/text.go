package captcha

import "strings"

// Printable returns the printable ASCII of a text from outside, so that logs, pages and
// terminals can show it.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
}
