package httpapi

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/targets"
)

// Access contains the callers and targets of one Set. An Access is immutable; a new Set gets a new
// Access.
type Access struct {
	Set     *targets.Set
	Callers []*Caller                  // nil: callers need no key
	Targets map[string]*targets.Target // by name
	ByID    map[captcha.ID]*targets.Target
}

// NewAccess derives the callers and targets of a Set. Keys with the same name are one caller, so they
// have the same StableName and share a limiter.
func NewAccess(set *targets.Set) *Access {
	a := &Access{Set: set, Targets: map[string]*targets.Target{}, ByID: map[captcha.ID]*targets.Target{}}
	limiters := map[string]*rate.Limiter{}
	for i := range set.Targets {
		t := &set.Targets[i]
		a.Targets[t.Name], a.ByID[t.ID] = t, t
	}
	for _, key := range set.Server.Keys {
		c := &Caller{Key: key, StableName: "key\x00" + key.Name + "\x00"}
		if count := key.Rate.Count; count > 0 {
			c.Limiter = cmp.Or(limiters[key.Name], rate.NewLimiter(rate.Every(key.Rate.Per/time.Duration(count)), count))
			limiters[key.Name] = c.Limiter
		}
		a.Callers = append(a.Callers, c)
	}
	return a
}

// CallerWith returns the caller with this key, or nil. It compares the digest of the secret with the digests of all
// keys, in constant time. The elapsed time therefore does not show how similar a wrong key is to a right key, and does
// not show which key matches.
func (a *Access) CallerWith(secret string) (caller *Caller) {
	digest := sha256.Sum256([]byte(secret))
	for _, c := range a.Callers {
		if subtle.ConstantTimeCompare(digest[:], c.SHA256[:]) == 1 && secret != "" { // the file may list the digest of ""
			caller = c
		}
	}
	return caller
}

// Caller is the sender of a request, identified by a key of the configuration file. If the file has no keys, all
// senders on this machine are one Caller. Several keys of the same name differ only in the SHA256.
type Caller struct {
	targets.Key               // the zero Key if the file has no keys
	Limiter     *rate.Limiter // nil = no limit
	// StableName is the name of the caller in Redis. Each stored Idempotency-Key begins with the
	// StableName of its caller. StableName is also stored with each taken token, because only the
	// caller of the take may report on the token. A key never has the StableName of a keyless caller,
	// so a caller with a key cannot repeat the take of a keyless caller.
	StableName string
}

// Anyone is the caller of every request if the file has no keys.
var Anyone = &Caller{StableName: "anyone\x00"}

// Admit finds the target of an identity and sets it in the Context. If no target has the identity, only a key without
// target globs may use it. The error does not show whether the identity has a target, because the owner of a key must
// not learn which targets exist.
func (c *Context) Admit(id captcha.ID) error {
	t := c.Access.ByID[id]
	if c.Caller.Targets != nil && (t == nil || !c.Caller.MayUse(t.Name)) {
		return NewProblem(CodeForbidden, "this key is limited to some targets, and none of them has this identity")
	}
	c.Target = t
	return nil
}

// May reports whether the caller has a scope. If the configuration file has no keys, every caller
// has all scopes.
func (c *Caller) May(scope targets.Scope) bool {
	return c == Anyone || slices.Contains(c.Scopes, scope)
}

// limits returns the budget of the caller's key. The scope is "" if the key has no budget.
func (c *Caller) limits() pool.Budget {
	if c.Budget == (targets.Money{}) {
		return pool.Budget{}
	}
	return refill.Limits(pool.ScopeKey+c.Name, targets.Budget{Money: c.Budget})
}

// AuditName returns the name of the caller in the audit and the metrics.
func (c *Caller) AuditName() string { return cmp.Or(c.Name, history.Keyless) }

// OverRate counts a request against the rate of the caller's key. If the request exceeds the rate,
// OverRate does not count it and returns the time until a request is allowed again.
func (c *Caller) OverRate(at time.Time) time.Duration {
	if c.Limiter == nil {
		return 0
	}
	reservation := c.Limiter.ReserveN(at, 1)
	wait := reservation.DelayFrom(at)
	if wait > 0 {
		reservation.CancelAt(at)
	}
	return wait
}

// CallFor returns a call for a token of a target. The fields Name and Wait are not set.
func CallFor(t *targets.Target) pool.Call {
	return pool.Call{ID: t.ID, Margin: t.Margin, MostTickets: 2*t.Depth + 10, Rate: t.Rate.Count, RatePer: t.Rate.Per}
}
