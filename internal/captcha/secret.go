package captcha

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted replaces a secret wherever it is printed.
const redacted = "[redacted]"

// Secret is a string that prints as "[redacted]" through fmt, slog, JSON, YAML
// and text encoders, also inside other values. Only Reveal gives the text.
type Secret string

// Reveal returns the text itself, for the one place that must send or compare it.
func (s Secret) Reveal() string { return string(s) }

// Format implements fmt.Formatter, so that no verb shows the text.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.mask()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.mask()) }

// MarshalText implements encoding.TextMarshaler, which JSON and YAML use too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.mask()), nil }

// mask keeps an empty secret visible as empty, because "no key" is a fact that
// an operator needs.
func (s Secret) mask() string {
	if s == "" {
		return ""
	}
	return redacted
}
