package httpapi

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/targets"
)

// encoded is what encoding/json makes of v, without its escapes for HTML.
func encoded(t interface{ Fatal(...any) }, v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// anyString draws strings that a provider should not, but may, send.
func anyString() *rapid.Generator[string] {
	nasty := rapid.SampledFrom([]string{"\"", "\\", "\x00", "\x1f", "\x7f", "\n\r\t\b\f", "\xff", "\xed\xa0\x80", "\u2028", "\u2029", "\ufffd", "</script>", "&", "é", "\U0001F600"})
	return rapid.Custom(func(t *rapid.T) string {
		s := rapid.String().Draw(t, "text")
		for _, part := range rapid.SliceOfN(nasty, 0, 4).Draw(t, "nasty") {
			at := rapid.IntRange(0, len(s)).Draw(t, "at") // also inside a character
			s = s[:at] + part + s[at:]
		}
		return s
	})
}

func TestTokenLikeEncodingJSON(t *testing.T) {
	type document struct {
		ID        string  `json:"id"`
		Target    string  `json:"target"`
		Type      string  `json:"type"`
		Token     string  `json:"token"`
		Source    string  `json:"source"`
		Provider  string  `json:"provider"`
		SolvedAt  string  `json:"solved_at"`
		ExpiresAt string  `json:"expires_at"`
		TTL       int64   `json:"ttl_ms"`
		UserAgent *string `json:"user_agent,omitempty"`
	}
	rapid.Check(t, func(t *rapid.T) {
		token := longToken
		token.Value, token.Provider = anyString().Draw(t, "value"), anyString().Draw(t, "provider")
		token.UserAgent = anyString().Draw(t, "user agent")
		target := &targets.Target{Name: anyString().Draw(t, "target"), Identity: captcha.Identity{Type: captcha.Turnstile}}
		want := document{
			ID: token.ID, Target: target.Name, Type: "turnstile", Token: token.Value, Source: string(pool.FromPool), Provider: token.Provider,
			SolvedAt: "2026-01-02T03:04:05.678Z", ExpiresAt: "2026-01-02T03:06:05.678Z", TTL: 78123,
		}
		if token.UserAgent != "" {
			want.UserAgent = &token.UserAgent
		}
		if got, want := string(appendToken(nil, target, &token)), encoded(t, want); got != want {
			t.Fatalf("by hand: %q\nencoded: %q", got, want)
		}
	})
}
