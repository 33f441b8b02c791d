package delivery

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// TestPlainAnswerEqualsItsJSON: appendPlain writes the same text as encoding/json, and refuses
// responses with characters that JSON escapes.
func TestPlainAnswerEqualsItsJSON(t *testing.T) {
	text := rapid.OneOf(rapid.StringMatching(`[ -~]{0,20}`), rapid.String(), rapid.SampledFrom([]string{"<a>&b", `"`, `\`, "\x7f", "\xff", "\u2028"}))
	rapid.Check(t, func(t *rapid.T) {
		a := answer{
			ID: text.Draw(t, "id"), Target: text.Draw(t, "target"), Type: captcha.Turnstile, Token: text.Draw(t, "token"), Source: pool.FromPool,
			Provider: "one", SolvedAt: stamp(time.UnixMilli(1767323045678)), ExpiresAt: stamp(time.UnixMilli(1767323165008)),
			TTL: rapid.Int64Range(-1, 1e6).Draw(t, "ttl"), UserAgent: text.Draw(t, "user agent"),
		}
		got, is := a.appendPlain(nil)
		if want := a.encode(); is && string(got) != string(want) || !json.Valid(want) {
			t.Fatalf("%s, want %s", got, want)
		}
	})
	if _, is := (&answer{ID: "1", Target: "t", Token: "03AGdBq2_-.", Source: pool.FromPool}).appendPlain(nil); !is {
		t.Error("an answer of letters and digits is not plain")
	}
	if _, is := (&answer{Target: "t", Solution: map[string]string{"validate": "v"}}).appendPlain(nil); is {
		t.Error("an answer with a solution is plain")
	}
}
