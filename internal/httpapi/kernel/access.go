package kernel

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"math"
	"path"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/targets"
)

// Access is the callers and targets of one Set. It is immutable and replaced with the Set.
type Access struct {
	Set     *targets.Set
	Callers []*Caller          // nil: callers need no key
	Targets map[string]*Target // by name
	ByID    map[captcha.ID]*Target
}

// NewAccess derives the callers and targets of a Set. An unchanged key keeps its limiter, so that
// a reload does not refill its burst.
func NewAccess(set *targets.Set, old *Access) *Access {
	a := &Access{
		Set: set, Targets: make(map[string]*Target, len(set.Targets)), ByID: make(map[captcha.ID]*Target, len(set.Targets)),
	}
	for i := range set.Targets {
		t := newTarget(&set.Targets[i])
		a.Targets[t.Name], a.ByID[t.ID] = t, t
	}
	for _, key := range set.Server.Keys {
		c := &Caller{Name: key.Name, digest: key.SHA256, Scopes: key.Scopes, limit: key.Rate, StableName: "key\x00" + key.Name + "\x00"}
		if len(key.Targets) > 0 && !slices.Contains(key.Targets, "*") {
			c.Globs = key.Targets
		}
		c.Limiter = old.limiterFor(c)
		if perSecond := key.Rate.PerSecond(); perSecond > 0 && c.Limiter == nil {
			c.Limiter = rate.NewLimiter(rate.Limit(perSecond), max(1, int(math.Ceil(key.Rate.Count))))
		}
		a.Callers = append(a.Callers, c)
	}
	return a
}

// limiterFor finds the limiter of the same key with the same rate.
func (a *Access) limiterFor(c *Caller) *rate.Limiter {
	if a == nil {
		return nil
	}
	for _, was := range a.Callers {
		if was.digest == c.digest && was.limit == c.limit {
			return was.Limiter
		}
	}
	return nil
}

// Owner returns the caller with this key, or nil. It compares the digest with those of all keys, in
// constant time: the elapsed time shows neither how much of a key was right nor which key matched.
func (a *Access) Owner(secret string) *Caller {
	digest := sha256.Sum256([]byte(secret))
	found := -1
	for i, c := range a.Callers {
		same := subtle.ConstantTimeCompare(digest[:], c.digest[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 || secret == "" { // an empty key has no owner, even if the file has one
		return nil
	}
	return a.Callers[found]
}

// Target is a target of the file.
type Target struct {
	*targets.Target

	take pool.Request
}

func newTarget(t *targets.Target) *Target {
	own := &Target{t, pool.Request{ID: t.ID, Margin: t.Margin, MaxWaiting: 2*t.Depth + 10}}
	own.take.Rate, own.take.RatePer = WholeRate(t.Rate)
	return own
}

// Take is the request of a caller for a token, without a wait.
func (t *Target) Take(c *Caller) pool.Request {
	request := t.take
	request.Caller = c.StableName
	return request
}

// WholeRate returns the same rate with a whole number of tokens: 0.5/s is 1 per 2s.
func WholeRate(r targets.Rate) (count int, per time.Duration) {
	if r.PerSecond() <= 0 {
		return 0, 0
	}
	whole := max(1, math.Floor(r.Count))
	return int(whole), time.Duration(float64(r.Per) * whole / r.Count)
}

// Caller is one key of the file, or every caller on this machine if the file has no keys.
type Caller struct {
	Name    string // of the key; "" = without keys
	digest  [sha256.Size]byte
	Scopes  []targets.Scope
	Globs   []string      // nil = all targets
	Limiter *rate.Limiter // nil = no limit
	limit   targets.Rate
	// StableName names the caller in Redis: it is the first part of the scope of an
	// Idempotency-Key, and who may report on a token. Its two forms never coincide, so
	// that no key can repeat a keyless caller's take.
	StableName string
}

// Anyone is the caller if the file has no keys.
var Anyone = &Caller{StableName: "anyone\x00"}

// MayUse reports whether the caller's globs include a target's name.
func (c *Caller) MayUse(target string) bool {
	return c.Globs == nil || slices.ContainsFunc(c.Globs, func(glob string) bool {
		fits, err := path.Match(glob, target)
		return fits && err == nil
	})
}

// MayAsk reports whether the caller may ask for the identity of t; nil is an identity
// without a target, which no key with globs may ask for.
func (c *Caller) MayAsk(t *Target) bool {
	if t == nil {
		return c.Globs == nil
	}
	return c.MayUse(t.Name)
}

// Sees returns MayUse, or nil for a caller that may use all targets.
func (c *Caller) Sees() func(target string) bool {
	if c.Globs == nil {
		return nil
	}
	return c.MayUse
}

// ErrLimitedKey is the same for another key's target and for an unknown target: a key must not
// learn which targets exist.
func ErrLimitedKey() *Problem {
	return NewProblem(CodeForbidden, "this key is limited to some targets, and none of them has this identity")
}

// May reports whether the caller has a scope. Without keys every caller has all scopes.
func (c *Caller) May(scope targets.Scope) bool {
	return c == Anyone || slices.Contains(c.Scopes, scope)
}

// AuditName names the caller in the audit and the metrics.
func (c *Caller) AuditName() string { return cmp.Or(c.Name, history.Keyless) }

// OverRate takes one request from a key's rate; above it, it returns how long
// the next one must wait.
func OverRate(limiter *rate.Limiter, at time.Time) time.Duration {
	reservation := limiter.ReserveN(at, 1)
	wait := reservation.DelayFrom(at)
	if wait > 0 {
		reservation.CancelAt(at)
	}
	return wait
}
