package kernel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"math"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/pool"
	"poold/internal/targets"
)

// Access contains the callers and targets of one Set. An Access is immutable; a new Set gets a new
// Access.
type Access struct {
	Set     *targets.Set
	Callers []*Caller          // nil: callers need no key
	Targets map[string]*Target // by name
	ByID    map[captcha.ID]*Target
}

// NewAccess derives the callers and targets of a Set. Keys with the same name are one caller, so they
// have the same StableName and share a limiter. A caller with an unchanged name or key keeps its
// limiter, so that a reload does not refill the burst.
func NewAccess(set *targets.Set, old *Access) *Access {
	a := &Access{
		Set: set, Targets: make(map[string]*Target, len(set.Targets)), ByID: make(map[captcha.ID]*Target, len(set.Targets)),
	}
	for i := range set.Targets {
		t := &Target{Target: &set.Targets[i]}
		a.Targets[t.Name], a.ByID[t.ID] = t, t
	}
	for _, key := range set.Server.Keys {
		c := &Caller{Name: key.Name, Digest: key.SHA256, Scopes: key.Scopes, limit: key.Rate, StableName: "key\x00" + key.Name + "\x00"}
		if len(key.Targets) > 0 && !slices.Contains(key.Targets, "*") {
			c.Globs = key.Targets
		}
		if c.Limiter = a.limiterFor(c); c.Limiter == nil {
			c.Limiter = old.limiterFor(c)
		}
		if perSecond := key.Rate.PerSecond(); perSecond > 0 && c.Limiter == nil {
			c.Limiter = rate.NewLimiter(rate.Limit(perSecond), max(1, int(math.Ceil(key.Rate.Count))))
		}
		a.Callers = append(a.Callers, c)
	}
	return a
}

// limiterFor returns the limiter of a caller of the Access a that has the same name or the same key,
// and the same rate; nil = there is none.
func (a *Access) limiterFor(c *Caller) *rate.Limiter {
	if a == nil {
		return nil
	}
	for _, was := range a.Callers {
		if (was.Name == c.Name || was.Digest == c.Digest) && was.limit == c.limit {
			return was.Limiter
		}
	}
	return nil
}

// Owner returns the caller with this key, or nil. Owner compares the digest of the secret with the
// digests of all keys, in constant time. The elapsed time therefore does not show how similar a
// wrong key is to a right key, and does not show which key matches.
func (a *Access) Owner(secret string) *Caller {
	digest := sha256.Sum256([]byte(secret))
	found := -1
	for i, c := range a.Callers {
		same := subtle.ConstantTimeCompare(digest[:], c.Digest[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 || secret == "" { // an empty key has no owner, even if the file lists its digest
		return nil
	}
	return a.Callers[found]
}

// Target is a target of the configuration file.
type Target struct {
	*targets.Target

	mu     sync.Mutex // held during a look, so that callers share it
	looked time.Time
	counts pool.Counts
	err    error
}

// Call returns a call for a token of the target, without a name and a wait.
func (t *Target) Call() pool.Call {
	call := pool.Call{ID: t.ID, Margin: t.Margin, MostTickets: 2*t.Depth + 10}
	call.Rate, call.RatePer = WholeRate(t.Rate)
	return call
}

// Looker reads the counts of an identity; *pool.Pool implements it.
type Looker interface {
	Look(ctx context.Context, q pool.Query) (pool.Counts, error)
}

// lookShared is how long callers without a token share the result of a look.
const lookShared = 250 * time.Millisecond

// Counts returns the counts of the target. They are at most lookShared old, and nobody changes them.
func (t *Target) Counts(ctx context.Context, from Looker) (pool.Counts, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.looked) > lookShared {
		t.counts, t.err = from.Look(context.WithoutCancel(ctx), pool.Query{ID: t.ID, Margin: t.Margin})
		t.looked = time.Now()
	}
	return t.counts, t.err
}

// Changed makes the next call of Counts look again.
func (t *Target) Changed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looked = time.Time{}
}

// WholeRate returns a rate as a whole number of tokens and a duration: 0.5/s becomes 1 per 2s.
func WholeRate(r targets.Rate) (count int, per time.Duration) {
	if r.PerSecond() <= 0 {
		return 0, 0
	}
	whole := max(1, math.Floor(r.Count))
	return int(whole), time.Duration(float64(r.Per) * whole / r.Count)
}

// Caller is one key of the configuration file, or every caller on this machine if the file has no
// keys. Several keys of the same name differ only in the Digest.
type Caller struct {
	Name    string            // name of the key; "" = the file has no keys
	Digest  [sha256.Size]byte // SHA-256 of the key
	Scopes  []targets.Scope
	Globs   []string      // nil = all targets
	Limiter *rate.Limiter // nil = no limit
	limit   targets.Rate
	// StableName is the name of the caller in Redis. Each stored Idempotency-Key begins with the
	// StableName of its caller. StableName is also stored with each taken token, because only the
	// caller of the take may report on the token. The StableName of a key never equals that of a
	// keyless caller. A caller with a key can therefore not repeat the take of a keyless caller.
	StableName string
}

// Anyone is the caller of every request if the file has no keys.
var Anyone = &Caller{StableName: "anyone\x00"}

// MayUse reports whether the caller's globs include a target's name.
func (c *Caller) MayUse(target string) bool {
	return c.Globs == nil || slices.ContainsFunc(c.Globs, func(glob string) bool {
		fits, err := path.Match(glob, target)
		return fits && err == nil
	})
}

// MayAsk reports whether the caller may request tokens of the identity of the target t. If t is
// nil, the identity has no target, and only callers without globs may request it.
func (c *Caller) MayAsk(t *Target) bool {
	if t == nil {
		return c.Globs == nil
	}
	return c.MayUse(t.Name)
}

// ErrLimitedKey returns the problem for a key with globs that requests a forbidden identity. The
// problem does not show whether the identity has a target, because the owner of a key must not
// learn which targets exist.
func ErrLimitedKey() *Problem {
	return NewProblem(CodeForbidden, "this key is limited to some targets, and none of them has this identity")
}

// May reports whether the caller has a scope. If the configuration file has no keys, every caller
// has all scopes.
func (c *Caller) May(scope targets.Scope) bool {
	return c == Anyone || slices.Contains(c.Scopes, scope)
}

// AuditName returns the name of the caller in the audit and the metrics.
func (c *Caller) AuditName() string { return cmp.Or(c.Name, history.Keyless) }

// OverRate counts a request against the rate of a key. If the request exceeds the rate, OverRate
// does not count it and returns the time until a request is allowed again.
func OverRate(limiter *rate.Limiter, at time.Time) time.Duration {
	reservation := limiter.ReserveN(at, 1)
	wait := reservation.DelayFrom(at)
	if wait > 0 {
		reservation.CancelAt(at)
	}
	return wait
}
