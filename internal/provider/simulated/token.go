package simulated

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"poold/internal/captcha"
)

// tokenMark is at the start of every token, so that no token looks real.
const tokenMark = "SIMULATED"

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

// namedValues returns the solution of a GeeTest as named values, or nil for other types. One of the
// values is the marked text. In the protocol in_php, the names for version 3 have the prefix
// "geetest_".
func (t *Task) namedValues() map[string]string {
	prefix := ""
	if t.inPHP {
		prefix = "geetest_"
	}
	switch t.Identity.Type {
	case captcha.GeeTest:
		mark := t.markedText()
		return map[string]string{
			prefix + "challenge": t.Identity.Challenge + "k7", prefix + "validate": mark, prefix + "seccode": mark + "|jordan",
		}
	case captcha.GeeTestV4:
		return map[string]string{
			"captcha_id": t.Identity.CaptchaID, "lot_number": strconv.FormatUint(t.lot, 16), "pass_token": t.markedText(),
			"gen_time": strconv.FormatInt(t.Due.Unix(), 10), "captcha_output": "b3V0cHV0+/==",
		}
	}
	return nil
}

// randomOf returns the random numbers for a seed.
func randomOf(seed uint64) *rand.Rand {
	//nolint:gosec // these numbers must be repeatable, and no secret is made of them
	return rand.New(rand.NewPCG(seed, 0))
}
