package httpapi

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"math"
	"path"
	"time"

	"golang.org/x/time/rate"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/targets"
)

// access is who may ask for what, derived from one Set. It is replaced whole when the
// Set is, and read without a lock.
type access struct {
	set     *targets.Set
	callers []*caller          // nil: callers need no key
	targets map[string]*target // by name
	byID    map[captcha.ID]*target
}

// newAccess derives what a Set allows. A key that did not change keeps its limiter, or a
// reload would give every caller its burst again.
func newAccess(set *targets.Set, old *access) *access {
	a := &access{
		set: set, targets: make(map[string]*target, len(set.Targets)), byID: make(map[captcha.ID]*target, len(set.Targets)),
	}
	for i := range set.Targets {
		t := newTarget(&set.Targets[i])
		a.targets[t.Name], a.byID[t.ID] = t, t
	}
	for _, key := range set.Server.Keys {
		c := &caller{
			name: key.Name, digest: key.SHA256, scopes: key.Scopes, globs: everyOrSome(key.Targets),
			limit: key.Rate, stable: "key\x00" + key.Name + "\x00",
		}
		c.limiter = old.limiterFor(c)
		if perSecond := key.Rate.PerSecond(); perSecond > 0 && c.limiter == nil {
			c.limiter = rate.NewLimiter(rate.Limit(perSecond), max(1, int(math.Ceil(key.Rate.Count))))
		}
		a.callers = append(a.callers, c)
	}
	return a
}

// limiterFor finds the limiter of the same key with the same rate.
func (a *access) limiterFor(c *caller) *rate.Limiter {
	if a == nil {
		return nil
	}
	for _, was := range a.callers {
		if was.digest == c.digest && was.limit == c.limit {
			return was.limiter
		}
	}
	return nil
}

// owner returns the caller whose key this is, nil for none. It compares digests,
// with all keys, in constant time: how long it takes shows neither how much of a key was
// right nor which of them was tried.
func (a *access) owner(secret string) *caller {
	digest := sha256.Sum256([]byte(secret))
	found := -1
	for i, c := range a.callers {
		same := subtle.ConstantTimeCompare(digest[:], c.digest[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 || secret == "" { // an empty key is nobody's, even if the file has one
		return nil
	}
	return a.callers[found]
}

// target is a target of the file with what every take of it needs, worked out
// once per Set.
type target struct {
	*targets.Target

	maxWaiting int
	rate       int // tokens per ratePer; 0 = no limit
	ratePer    time.Duration
}

func newTarget(t *targets.Target) *target {
	own := &target{Target: t, maxWaiting: 2*t.Depth + 10}
	own.rate, own.ratePer = wholeRate(t.Rate)
	return own
}

// wholeRate returns the same rate with a whole count, because there is no half a token:
// 0.5/s is 1 per 2s.
func wholeRate(r targets.Rate) (count int, per time.Duration) {
	if r.PerSecond() <= 0 {
		return 0, 0
	}
	whole := max(1, math.Floor(r.Count))
	return int(whole), time.Duration(float64(r.Per) * whole / r.Count)
}

// caller is who may ask: one key of the file, or everybody on this machine
// where there are none.
type caller struct {
	name    string // of the key; "" = without keys
	digest  [sha256.Size]byte
	scopes  []targets.Scope
	globs   []string      // nil = all targets
	limiter *rate.Limiter // nil = no limit
	limit   targets.Rate
	// stable names the caller in Redis: it is the first part of the scope of an
	// Idempotency-Key, and who may report on a token. Its two forms cannot meet, so
	// that no key can repeat a keyless caller's take.
	stable string
}

// anyone is the caller where the file holds no keys: all of them are one.
var anyone = &caller{stable: "anyone\x00"}

// mayUse reports whether the caller's globs include a target's name.
func (c *caller) mayUse(target string) bool {
	if c.globs == nil {
		return true
	}
	for _, glob := range c.globs {
		if ok, err := path.Match(glob, target); ok && err == nil {
			return true
		}
	}
	return false
}

// mayAsk reports whether the caller may ask for the identity of t; nil is an identity
// without a target, which no key with globs may ask for.
func (c *caller) mayAsk(t *target) bool {
	if t == nil {
		return c.globs == nil
	}
	return c.mayUse(t.Name)
}

// sees is mayUse, nil for a caller that may use all targets.
func (c *caller) sees() func(target string) bool {
	if c.globs == nil {
		return nil
	}
	return c.mayUse
}

// errLimitedKey says the same for another key's target and for no target: a key must not
// learn which targets exist.
func errLimitedKey() *Problem {
	return problem(codeForbidden, "this key is limited to some targets, and none of them has this identity")
}

// may reports whether the caller has a scope; without keys everybody has all.
func (c *caller) may(scope targets.Scope) bool {
	if c == anyone {
		return true
	}
	for _, have := range c.scopes {
		if have == scope {
			return true
		}
	}
	return false
}

// listed is what the audit and the metrics call a caller.
func (c *caller) listed() string { return cmp.Or(c.name, history.Keyless) }

// everyOrSome returns nil for globs that include every target.
func everyOrSome(globs []string) []string {
	if len(globs) == 0 {
		return nil
	}
	for _, glob := range globs {
		if glob == "*" {
			return nil
		}
	}
	return globs
}

// overRate takes one request from a key's rate; above it, it returns how long
// the next one must wait.
func overRate(limiter *rate.Limiter, at time.Time) time.Duration {
	reservation := limiter.ReserveN(at, 1)
	wait := reservation.DelayFrom(at)
	if wait > 0 {
		reservation.CancelAt(at)
	}
	return wait
}
