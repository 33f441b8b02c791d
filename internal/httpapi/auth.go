package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"math"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"poold/internal/captcha"
	"poold/internal/targets"
)

// Sets gives the Set in use, never nil, and says how the file was read last;
// *reload.File implements it.
type Sets interface {
	Current() *targets.Set
	Status() targets.Status
}

// gate decides who may ask for what.
type gate struct {
	sets      Sets
	current   atomic.Pointer[access] // derived from the Set in use
	deriving  sync.Mutex             // held while one is derived
	wrongKeys wrongKeys
}

// access is who may ask for what, derived from one Set. It is replaced whole when the
// Set is, and read without a lock.
type access struct {
	set     *targets.Set
	callers []*caller          // nil: callers need no key
	targets map[string]*target // by name
	byID    map[captcha.ID]*target
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

// access returns what belongs to the current Set, deriving it once per Set.
func (g *gate) access() *access {
	set := g.sets.Current()
	if a := g.current.Load(); a != nil && a.set == set {
		return a
	}
	g.deriving.Lock()
	defer g.deriving.Unlock()
	old := g.current.Load()
	if old != nil && old.set == set {
		return old
	}
	a := newAccess(set, old)
	g.current.Store(a)
	return a
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

// identify finds out who asks and whether that caller may use the route.
func (g *gate) identify(c *call, r *http.Request) error {
	caller, err := c.access.who(c.route, r)
	if caller == nil && err != nil {
		return g.refuseKey(c, r, err)
	}
	if c.caller = caller; caller == nil || err != nil {
		return err
	}
	if limiter := caller.limiter; limiter != nil {
		if wait := overRate(limiter, c.began); wait > 0 {
			return problem(codeRateLimited, "this key's rate is used up").after(wait)
		}
	}
	return caller.entitled(c.route, r)
}

// refuseKey answers who has none of the keys. Only now wrong ones are counted, so
// that a right one is served whatever else comes from its address.
func (g *gate) refuseKey(c *call, r *http.Request, err error) error {
	if secret, _ := credential(r); secret == "" {
		return err // none was tried
	}
	if wait := g.wrongKeys.count(r.RemoteAddr, c.began); wait > 0 {
		return problem(codeRateLimited, "too many wrong keys came from this address").after(wait)
	}
	return err
}

// readmit checks a caller again that waited: a reload may have changed what its key may
// do, or the target, since it was admitted.
func (g *gate) readmit(c *call, r *http.Request) error {
	now := g.access()
	if now == c.access {
		return nil
	}
	caller, err := now.who(c.route, r)
	if err != nil {
		return err
	}
	if err := caller.entitled(c.route, r); err != nil {
		return err
	}
	target, err := g.find(now, c.target.Name, caller)
	if err != nil {
		return err
	}
	if target.ID != c.target.ID {
		return problem(codePoolEmpty, "the target was changed while the caller waited").after(time.Second)
	}
	return nil
}

// who finds out who asks; nil without an error on routes that need no key.
func (a *access) who(rt *route, r *http.Request) (*caller, error) {
	if len(a.callers) == 0 {
		return anyone, refuseStrangers(r)
	}
	if rt.scope == "" {
		return nil, nil // the style sheet: nothing to protect
	}
	secret, _ := credential(r)
	if c := a.owner(secret); c != nil {
		return c, nil
	}
	return nil, problem(codeUnauthorized, "send a key of the configuration file as Authorization: Bearer, or as the password of Basic")
}

// entitled reports whether a caller may use a route, whatever target it names.
func (c *caller) entitled(rt *route, r *http.Request) error {
	if c == anyone {
		return nil
	}
	if altScope := rt.altScope; !c.may(rt.scope) && (altScope == "" || !c.may(altScope)) {
		needed := string(rt.scope)
		if altScope != "" {
			needed += " (or " + string(altScope) + ", for as much as that allows)"
		}
		return problem(codeForbidden, "this key lacks the scope "+needed)
	}
	if rt.whole && c.globs != nil {
		return problem(codeForbidden, "this covers all targets and the key is limited to some")
	}
	if !rt.changes {
		return nil
	}
	if _, basic := credential(r); basic {
		// A browser adds Basic credentials by itself, whichever page asks.
		return refuseForeignPages(r)
	}
	return nil
}

// find returns the target of a name, if the caller may use it.
func (g *gate) find(a *access, name string, c *caller) (*target, error) {
	// What is no name, also an escaped form of one, is unknown before it is used for anything.
	if a.targets[name] == nil && !targets.IsName(name) {
		return nil, problem(codeUnknownTarget, "a target's name is a-z, 0-9, dot, underscore and hyphen"+a.meant(name, c))
	}
	// The globs come first: a key must not learn which other names exist.
	if !c.mayUse(name) {
		return nil, problem(codeForbidden, "this key is limited to other targets")
	}
	if t := a.targets[name]; t != nil {
		return t, nil
	}
	where := "the configuration file has"
	if !g.sets.Status().OK {
		where = "the file was refused when it was read last (`poold check` says why), and the one in use has"
	}
	return nil, problem(codeUnknownTarget, where+" no target of this name"+a.meant(name, c))
}

// meant asks whether the caller meant a target of another name, of those that it may
// use; "" where none is near.
func (a *access) meant(name string, c *caller) string {
	var known []string
	for i := range a.set.Targets {
		if other := a.set.Targets[i].Name; c.mayUse(other) {
			known = append(known, other)
		}
	}
	if near := targets.Nearest(name, known); near != "" {
		return ": did you mean " + near + "?"
	}
	return ""
}

// credential returns the key that a request carries, "" for none, and whether
// it came as the password of Basic.
func credential(r *http.Request) (secret string, basic bool) {
	header := r.Header.Get("Authorization")
	if scheme, rest, ok := strings.Cut(header, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest), false
	}
	_, password, _ := r.BasicAuth()
	return password, true
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

// challenge adds the headers that say how to authenticate. Basic goes first where a
// person may be reading, because a browser asks for a password only then.
func challenge(h http.Header, basic bool) {
	if basic {
		h.Add("WWW-Authenticate", `Basic realm="poold", charset="UTF-8"`)
	}
	h.Add("WWW-Authenticate", `Bearer realm="poold"`)
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
