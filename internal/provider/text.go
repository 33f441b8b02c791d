package provider

import (
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"poold/internal/captcha"
)

// clean makes a text from a service safe to show. It replaces the secrets, removes all
// characters except printable ASCII, and shortens the text to maxLength characters.
func clean(text string, maxLength int, secrets ...captcha.Secret) string {
	text = captcha.Printable(text)
	for _, s := range secrets {
		// The text may contain the secret unchanged, form-encoded or cleaned by captcha.Printable.
		for _, form := range []string{s.Reveal(), url.QueryEscape(s.Reveal()), captcha.Printable(s.Reveal())} {
			switch {
			case len(form) > 5:
				text = strings.ReplaceAll(text, form, "[redacted]")
			case form != "": // only whole words: key is not replaced in ERROR_KEY
				text = regexp.MustCompile(`\b`+regexp.QuoteMeta(form)+`\b`).ReplaceAllLiteralString(text, "[redacted]")
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

// finite parses a finite number.
func finite(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}
