package simulated

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// tokenMark is at the start of every token, so that no token looks real.
const tokenMark = "SIMULATED"

// Solution returns the solution of a task.
func (s *Service) Solution(t Task) wire.Solution {
	return wire.Solution{
		Type: t.Identity.Type, Token: s.Token(t), Cost: price, Made: t.At, Born: t.Due,
		Extra: map[string]string{"userAgent": cmp.Or(t.Identity.UserAgent, s.opts.UserAgent)},
	}
}

// Token computes the text of a task's solution. The same task always gives the same
// text, so the service need not store the text.
func (s *Service) Token(t Task) string {
	switch t.Identity.Type {
	case captcha.Image:
		// This text depends only on the picture.
		return fmt.Sprintf("%s.%s.0.%s.zwei wörter", tokenMark, t.Identity.Type, t.ID.Hash())
	case captcha.GeeTest, captcha.GeeTestV4:
		text, _ := json.Marshal(t.namedValues()) // marshalling a map of strings cannot fail
		return string(text)
	}
	return t.markedText()
}

// markedText returns a text of tokenBytes bytes with the number and the identity of the task.
func (t *Task) markedText() string {
	text := fmt.Sprintf("%s.%s.%d.%s.", tokenMark, t.Identity.Type, t.Number, t.ID.Hash())
	return (text + strings.Repeat(t.ID.Hash(), tokenBytes))[:tokenBytes]
}

// namedValues returns the solution of a GeeTest as named values. One of the values is the marked text.
func (t *Task) namedValues() map[string]string {
	mark := t.markedText()
	if t.Identity.Type == captcha.GeeTest {
		return map[string]string{"challenge": t.Identity.Challenge + "k7", "validate": mark, "seccode": mark + "|jordan"}
	}
	return map[string]string{
		"captcha_id": t.Identity.CaptchaID, "lot_number": strconv.FormatUint(t.lot, 16), "pass_token": mark,
		"gen_time": strconv.FormatInt(t.Due.Unix(), 10), "captcha_output": "b3V0cHV0+/==",
	}
}

// randomOf returns the random numbers for a seed.
func randomOf(seed uint64) *rand.Rand {
	//nolint:gosec // these numbers must be repeatable, and no secret is made of them
	return rand.New(rand.NewPCG(seed, 0))
}
