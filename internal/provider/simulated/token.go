package simulated

import (
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"

	"poold/internal/captcha"
)

// tokenMark is in every token, so that it is not mistaken for a real one.
const tokenMark = "SIMULATED"

const fillerAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// token renders the text that a task was solved to. It is computed anew on every call:
// the same task always gives the same text, and nothing is stored.
func (t *task) token(opts *Options) string {
	switch t.identity.Type {
	case captcha.Image:
		// The same picture reads the same, whichever task it is.
		return strings.Join([]string{tokenMark, string(t.identity.Type), "0", string(t.id), "zwei wörter"}, ".")
	case captcha.GeeTest, captcha.GeeTestV4:
		return t.written(opts)
	}
	return t.marked(opts.TokenBytes)
}

// marked renders a text of that many bytes which names its task and identity.
func (t *task) marked(bytes int) string {
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

// IdentityOf reads from a token for which identity it was solved. It returns false for a token
// that was not made by a Service.
func IdentityOf(token string) (captcha.ID, bool) {
	_, marked, _ := strings.Cut(token, tokenMark+".")
	parts := strings.SplitN(marked, ".", 4)
	if len(parts) != 4 {
		return "", false
	}
	if raw, err := hex.DecodeString(parts[2]); err != nil || len(raw) != 16 {
		return "", false
	}
	return captcha.ID(parts[2]), true
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
