package provider

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"poold/internal/captcha"
)

// clean makes a text from a service safe to show. It replaces the secrets, removes all
// characters except printable ASCII, and shortens the text to maxLength characters.
func clean(text string, maxLength int, secrets ...captcha.Secret) string {
	text = captcha.Printable(text)
	for _, s := range secrets {
		// The text may contain the secret unchanged, form-encoded or cleaned by captcha.Printable.
		for _, form := range []string{s.Reveal(), url.QueryEscape(s.Reveal()), captcha.Printable(s.Reveal())} {
			if form != "" {
				text = strings.ReplaceAll(text, form, "[redacted]")
			}
		}
	}
	return text[:min(len(text), maxLength)]
}

// isGraphic reports whether a text consists of 1 to maxLength visible ASCII characters. Task ids
// and tokens have this form.
func isGraphic(text string, maxLength int) bool {
	return text != "" && len(text) <= maxLength &&
		strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// isReadable reports whether a text is valid UTF-8 of at most maxBytes bytes, contains more than
// white space, and has no control or replacement characters.
func isReadable(text string, maxBytes int) bool {
	return strings.TrimSpace(text) != "" && len(text) <= maxBytes && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
}

// finite parses a finite number.
func finite(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}
