package captcha

import (
	"fmt"
	"io"
)

// redacted is the text that is printed in place of a secret.
const redacted = "[redacted]"

// Secret is a string that fmt, slog and the encoders for JSON, YAML and text print as
// "[redacted]".
// This also applies to a Secret inside another value. Only Reveal returns the text.
type Secret string

// Reveal returns the secret text, for code that must send or compare the secret.
func (s Secret) Reveal() string { return string(s) }

// Format implements fmt.Formatter, so that no formatting verb prints the secret text.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.mask()) }

// MarshalText implements encoding.TextMarshaler. The JSON and YAML encoders call it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.mask()), nil }

// mask returns "" for an empty secret, so that operators can see that a key is missing.
func (s Secret) mask() string {
	if s == "" {
		return ""
	}
	return redacted
}
