package simulated

import (
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"

	"poold/internal/captcha"
)

// tokenMark begins every token, so that nobody takes one for a real one.
const tokenMark = "SIMULATED"

const fillerAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// token renders the text of so many bytes that a task was solved to. It is computed anew on
// every call: the same task always gives the same text, and nothing is stored.
func (t *task) token(bytes int) string {
	var b strings.Builder
	b.Grow(bytes)
	for _, part := range []string{
		tokenMark, string(t.identity.Type), strconv.FormatInt(t.number, 10), string(t.id),
	} {
		b.WriteString(part)
		b.WriteByte('.')
	}
	filler := dice(t.lot, fillerStream)
	for b.Len() < bytes {
		// Six bits a letter: one draw serves for ten of them.
		bits := filler.Uint64()
		for range min(10, bytes-b.Len()) {
			b.WriteByte(fillerAlphabet[bits&63])
			bits >>= 6
		}
	}
	return b.String()
}

// IdentityOf reads from a token's text for which identity it was solved. It
// reports false for what no Service made.
func IdentityOf(token string) (captcha.ID, bool) {
	parts := strings.SplitN(token, ".", 5)
	if len(parts) != 5 || parts[0] != tokenMark {
		return "", false
	}
	if raw, err := hex.DecodeString(parts[3]); err != nil || len(raw) != 16 {
		return "", false
	}
	return captcha.ID(parts[3]), true
}

// The streams keep draws for different purposes apart, so that a longer token
// or another fault changes no lead time.
const (
	lotStream uint64 = iota + 1
	fillerStream
	orderStream
	faultStream // + the fault's position
)

// pingStream is drawn from a task's own lot, where no fault draws.
const pingStream = faultStream

// dice returns the numbers that belong to a seed and a purpose.
func dice(seed, stream uint64) *rand.Rand {
	//nolint:gosec // these numbers must be repeatable, and nothing secret is made of them
	return rand.New(rand.NewPCG(seed, stream))
}
