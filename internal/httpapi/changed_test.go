package httpapi

import (
	"context"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// A reload gives a target another identity, or removes it, while a caller waits
// for a token of the old one: that token goes back.
func TestTargetChangesWhileACallerWaits(t *testing.T) {
	for name, test := range map[string]struct {
		key  string // Idempotency-Key
		gone bool
		code string
		back int
	}{
		"changed":             {code: "pool_empty", back: 1},
		"removed":             {gone: true, code: "unknown_target", back: 1},
		"changed, with a key": {key: "k", code: "pool_empty"},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, sampleSet(), nil, nil)
			d.stock.take = func(context.Context, pool.Request) (pool.Token, error) {
				set := sampleSet()
				if test.gone {
					set.Targets = set.Targets[1:]
				} else {
					set.Targets[0].ID = captcha.ID(strings.Repeat("0", 32))
				}
				d.config.set.Store(set)
				return pool.Token{ID: "old", Value: "03AF"}, nil
			}
			headers := []string{}
			if test.key != "" {
				headers = append(headers, "Idempotency-Key: "+test.key)
			}
			got := d.ask(t, "GET", "/pool/checkout/token?wait=20s", headers...)
			if got.status == 200 || !strings.Contains(got.body, `"code":"`+test.code+`"`) {
				t.Errorf("%d %s", got.status, got.body)
			}
			if n := len(d.stock.returned); n != test.back {
				t.Errorf("%d tokens went back, want %d", n, test.back)
			}
		})
	}
}
