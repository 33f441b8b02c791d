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

// TestCallerIsCheckedAgain: a reload changes a key or a target after the stock gave a caller its token. A token that
// the caller may not have any more returns to the stock, unless the request has an Idempotency-Key.
func TestCallerIsCheckedAgain(t *testing.T) {
	keys := func(change func(*targets.Key)) *targets.Set {
		all := allKeys()
		change(&all[1]) // keyStaging
		return sampleSet(all...)
	}
	login := func(change func(*targets.Set)) *targets.Set {
		set := sampleSet(allKeys()...)
		change(set)
		return set
	}
	another := func(set *targets.Set) { set.Targets[1].ID = captcha.ID(strings.Repeat("0", 32)) }
	for name, test := range map[string]struct {
		set    *targets.Set
		repeat bool // with an Idempotency-Key
		code   Code // "" = the caller gets its token
		back   int
	}{
		"revoked":                {set: sampleSet(allKeys()[:1]...), code: CodeUnauthorized, back: 1},
		"revoked, may come back": {set: sampleSet(allKeys()[:1]...), repeat: true, code: CodeUnauthorized},
		"a new secret": {set: keys(func(k *targets.Key) { k.SHA256 = sha256.Sum256([]byte("new")) }),
			code: CodeUnauthorized, back: 1},
		"without the scope": {set: keys(func(k *targets.Key) { k.Scopes = k.Scopes[2:] }), code: CodeForbidden,
			back: 1},
		"limited to other targets": {set: keys(func(k *targets.Key) { k.Targets = []string{"checkout"} }),
			code: CodeForbidden, back: 1},
		"another rate":               {set: keys(func(k *targets.Key) { k.Rate = targets.Rate{Count: 1, Per: time.Hour} })},
		"another key was taken away": {set: sampleSet(allKeys()[1:]...)},
		"another identity":           {set: login(another), code: CodePoolEmpty, back: 1},
		"another, may come back":     {set: login(another), repeat: true, code: CodePoolEmpty},
		"no such target": {set: login(func(set *targets.Set) { set.Targets = set.Targets[:1] }),
			code: CodeUnknownTarget, back: 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, sampleSet(allKeys()...), nil, nil)
			old := d.target("staging-login")
			d.fill(t, "staging-login", 1)
			d.stock.taken = func(context.Context) { d.config.set.Store(test.set) }
			headers := []string{bearer(keyStaging)}
			if test.repeat {
				headers = append(headers, "Idempotency-Key: k")
			}
			a := d.ask(t, "GET", "/pool/staging-login/token", headers...)
			if test.code == "" {
				a.check(t, "the answer", 200)
				return
			}
			checkProblem(t, name, a, NewProblem(test.code, "").Status, test.code, "staging-login")
			testkit.Equal(t, "challenged", a.header.Get("WWW-Authenticate") != "", test.code == CodeUnauthorized)
			testkit.Equal(t, "the answer has the token", strings.Contains(a.body, tokenValue), false)
			if got := d.stock.putBack(t, old, test.back); got.Fresh != test.back || d.stock.countCalls("return") != test.back {
				t.Errorf("%d are back, want %d: %+v", got.Fresh, test.back, got.Counters)
			}
		})
	}
}
