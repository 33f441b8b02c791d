package httpapi

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// TestKeyThatLostRightsGetsNoToken: a reload removes a key, or some rights of the key, during the
// wait of a caller. The next token returns to the stock, and another caller gets the token.
func TestKeyThatLostRightsGetsNoToken(t *testing.T) {
	keys := func(change func(*targets.Key)) *targets.Set {
		all := allKeys()
		change(&all[1]) // keyStaging
		return sampleSet(all...)
	}
	for name, test := range map[string]struct {
		set    *targets.Set
		repeat bool // with an Idempotency-Key
		code   Code // "" = the caller gets its token
		back   int
	}{
		"revoked":                    {set: sampleSet(allKeys()[:1]...), code: CodeUnauthorized, back: 1},
		"revoked, may come back":     {set: sampleSet(allKeys()[:1]...), repeat: true, code: CodeUnauthorized},
		"a new secret":               {set: keys(func(k *targets.Key) { k.SHA256 = sha256.Sum256([]byte("new")) }), code: CodeUnauthorized, back: 1},
		"without the scope":          {set: keys(func(k *targets.Key) { k.Scopes = []targets.Scope{targets.ScopeStatus, targets.ScopeAdmin} }), code: CodeForbidden, back: 1},
		"limited to other targets":   {set: keys(func(k *targets.Key) { k.Targets = []string{"checkout"} }), code: CodeForbidden, back: 1},
		"another rate":               {set: keys(func(k *targets.Key) { k.Rate = targets.Rate{Count: 1, Per: time.Hour} })},
		"another key was taken away": {set: sampleSet(allKeys()[1:]...)},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, sampleSet(allKeys()...), nil, nil)
			login := d.target("staging-login")
			headers := []string{bearer(keyStaging)}
			if test.repeat {
				headers = append(headers, "Idempotency-Key: k")
			}
			answered := make(chan answer)
			go func() { answered <- d.ask(t, "GET", "/pool/staging-login/token?wait=20s", headers...) }()
			testkit.Within(t, 20*time.Second, "it waits", func() bool { return d.stock.readStock(t, login).Waiting == 1 })
			d.config.set.Store(test.set)
			d.fill(t, "staging-login", 1)
			a := <-answered
			if test.code == "" {
				a.check(t, "the answer", 200)
				return
			}
			target := "staging-login"
			status := NewProblem(test.code, "").Status
			checkProblem(t, name, a, status, test.code, target)
			if challenged := a.header.Get("WWW-Authenticate") != ""; challenged != (test.code == CodeUnauthorized) {
				t.Errorf("challenged: %v", challenged)
			}
			if strings.Contains(a.body, tokenValue) {
				t.Error("the answer holds the token")
			}
			if got := d.stock.putBack(t, login, test.back); got.Fresh != test.back || got.Counters.Returned != int64(test.back) {
				t.Errorf("%d are back, want %d: %+v", got.Fresh, test.back, got.Counters)
			}
			if test.back == 1 {
				d.takeOne(t, bearer(keyAll))
			}
		})
	}
}

// TestChangedTargetGivesTheTokenBack: if a reload changes the identity of a target or removes the
// target during a wait, the token returns to the stock.
func TestChangedTargetGivesTheTokenBack(t *testing.T) {
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
			d.fill(t, "checkout", 1)
			old := d.target("checkout")
			d.stock.taken = func(context.Context) {
				set := sampleSet()
				if test.gone {
					set.Targets = set.Targets[1:]
				} else {
					set.Targets[0].ID = captcha.ID(strings.Repeat("0", 32))
				}
				d.config.set.Store(set)
			}
			headers := []string{}
			if test.key != "" {
				headers = append(headers, "Idempotency-Key: "+test.key)
			}
			got := d.ask(t, "GET", "/pool/checkout/token?wait=20s", headers...)
			if got.status == 200 || !strings.Contains(got.body, `"code":"`+test.code+`"`) {
				t.Errorf("%d %s", got.status, got.body)
			}
			if got := d.stock.putBack(t, old, test.back); got.Fresh != test.back || d.stock.countCalls("return") != test.back {
				t.Errorf("%d tokens went back, want %d", got.Fresh, test.back)
			}
		})
	}
}
