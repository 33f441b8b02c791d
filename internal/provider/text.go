package provider

import (
	"encoding/base64"
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"poold/internal/captcha"
)

// Checks and display of texts that come from a service.

// clean makes a service's text safe to show: it removes secrets and all but printable
// ASCII, and cuts the text to the given number of characters.
func clean(text string, most int, secrets ...captcha.Secret) string {
	text = captcha.Printable(text)
	for _, s := range secrets {
		// The secret unchanged, form-encoded, and after Printable.
		for _, form := range []string{s.Reveal(), url.QueryEscape(s.Reveal()), captcha.Printable(s.Reveal())} {
			if form != "" {
				text = strings.ReplaceAll(text, form, "[redacted]")
			}
		}
	}
	return text[:min(len(text), most)]
}

// quotes reports whether text contains a piece of an image, raw or in base64.
func quotes(text string, image []byte) bool {
	if len(image) == 0 {
		return false
	}
	for _, form := range []string{string(image), base64.StdEncoding.EncodeToString(image)} {
		for i := range len(text) - leastSecret + 1 {
			if strings.Contains(form, text[i:i+leastSecret]) {
				return true
			}
		}
	}
	return false
}

// graphic reports whether text is 1 to most visible ASCII characters, as task ids and tokens are.
func graphic(text string, most int) bool {
	return text != "" && len(text) <= most &&
		strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// readable reports whether text is 1 to most bytes of UTF-8, not only spaces, without control and
// replacement characters.
func readable(text string, most int) bool {
	return strings.TrimSpace(text) != "" && len(text) <= most && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
}

// finite parses a finite number.
func finite(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}
