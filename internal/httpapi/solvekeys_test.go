package httpapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"poold/internal/httpapi/kernel"
)

// An Idempotency-Key of POST /solve serves one captcha: with another one it is refused
// before anything is bought. Each caller has its own keys.
func TestSolveKeyServesOneCaptcha(t *testing.T) {
	d := start(t, solving(t, allKeys()...), nil, nil)
	const again = "Idempotency-Key: again"
	body := fmt.Sprintf(guestBody, "")
	other := strings.Replace(body, "/a", "/b", 1)
	for range 2 {
		if a := d.solve(t, body, bearer(keyAll), again); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	asked := len(d.solver.asked)
	checkProblem(t, "another page", d.solve(t, other, bearer(keyAll), again), 409, kernel.CodeConflict, "")
	checkProblem(t, "a target's", d.solve(t, fmt.Sprintf(targetBody, "checkout"), bearer(keyAll), again), 409, kernel.CodeConflict, "checkout")
	if len(d.solver.asked) != asked {
		t.Errorf("%d solves were asked for", len(d.solver.asked)-asked)
	}
	for name, a := range map[string]answer{
		"without a key": d.solve(t, other, bearer(keyAll)),
		"another key":   d.solve(t, other, bearer(keyAll), again+"2"),
		"another one's": d.solve(t, fmt.Sprintf(targetBody, "staging-login"), bearer(keyStaging), again),
	} {
		if a.status != 200 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	d.stock.breaks("bind", errors.New("broken"))
	if a := d.solve(t, body, bearer(keyAll), again); a.status != 500 || len(d.solver.asked) != asked+3 {
		t.Errorf("with a stock that fails: %d %s", a.status, a.body)
	}
}
