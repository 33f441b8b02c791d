package httpapi

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/httpapi/kernel"
	"poold/internal/targets"
)

// Sets gives access to the configuration; *reload.File implements it. Current never returns nil,
// and Status is the result of the last attempt to load the file.
type Sets interface {
	Current() *targets.Set
	Status() targets.Status
}

// gate admits callers.
type gate struct {
	sets      Sets
	current   atomic.Pointer[kernel.Access] // derived from the Set in use
	deriving  sync.Mutex                    // guards the derivation of an Access
	wrongKeys *kernel.WrongKeys
}

// access returns the callers and targets of the current Set. access derives an Access once for each
// Set.
func (g *gate) access() *kernel.Access {
	set := g.sets.Current()
	if a := g.current.Load(); a != nil && a.Set == set {
		return a
	}
	g.deriving.Lock()
	defer g.deriving.Unlock()
	old := g.current.Load()
	if old != nil && old.Set == set {
		return old
	}
	a := kernel.NewAccess(set, old)
	g.current.Store(a)
	return a
}

// identify finds the caller, and checks the rate of the caller's key and the caller's right to use
// the route.
func (g *gate) identify(c *kernel.Call, r *http.Request) error {
	caller, err := g.authenticate(c.Access, c.Route, r)
	if caller == nil && err != nil {
		return g.refuseKey(c, r, err)
	}
	if c.Caller = caller; caller == nil || err != nil {
		return err
	}
	if limiter := caller.Limiter; limiter != nil {
		if wait := kernel.OverRate(limiter, c.Began); wait > 0 {
			return kernel.NewProblem(kernel.CodeRateLimited, "the rate of this key is used up").RetryAfter(wait)
		}
	}
	return authorize(caller, c.Route, r)
}

// refuseKey returns the error for a request without a key or with a wrong key. It counts and logs
// only wrong keys. A request with a right key is served even if many wrong keys come from the same
// address.
func (g *gate) refuseKey(c *kernel.Call, r *http.Request, err error) error {
	secret, _ := credential(r)
	if secret == "" {
		return err // the request has no key
	}
	if wait := g.wrongKeys.Refuse(r, c, secret); wait > 0 {
		return kernel.NewProblem(kernel.CodeRateLimited, "too many wrong keys came from this address; right keys are still accepted").RetryAfter(wait)
	}
	return err
}

// reauthenticate authenticates the caller again if the file was reloaded since the caller's
// admission. Without a reload since the admission, the returned Access is nil.
func (g *gate) reauthenticate(c *kernel.Call, r *http.Request) (now *kernel.Access, caller *kernel.Caller, err error) {
	if now = g.access(); now == c.Access {
		return nil, c.Caller, nil
	}
	caller, err = g.authenticate(now, c.Route, r)
	if err == nil {
		err = authorize(caller, c.Route, r)
	}
	return now, caller, err
}

// readmit checks a caller again after its wait: a reload may have changed the rights of its key,
// or the target.
func (g *gate) readmit(c *kernel.Call, r *http.Request) error {
	now, caller, err := g.reauthenticate(c, r)
	if now == nil || err != nil {
		return err
	}
	target, err := g.find(now, c.Target.Name, caller)
	if err != nil {
		return err
	}
	if target.ID != c.Target.ID {
		return kernel.NewProblem(kernel.CodePoolEmpty, "the target changed during the wait; repeat the request").RetryAfter(time.Second)
	}
	return nil
}

// authenticate returns the caller. On routes that need no key it returns nil without an error.
func (g *gate) authenticate(a *kernel.Access, rt *kernel.Route, r *http.Request) (*kernel.Caller, error) {
	if len(a.Callers) == 0 {
		return kernel.Anyone, refuseStrangers(r)
	}
	if rt.Scope == "" {
		return nil, nil // a public file, or the handler checks the key
	}
	secret, _ := credential(r)
	if c := a.Owner(secret); c != nil {
		return c, nil
	}
	if secret == "" {
		return nil, kernel.NewProblem(kernel.CodeUnauthorized, "no key was sent: send a key of the configuration file as Authorization: Bearer KEY, or as the password of Basic")
	}
	return nil, kernel.NewProblem(kernel.CodeUnauthorized, "the configuration file has no such key: compare the key with server.keys in the file")
}

// authorize returns an error if the caller may not use the route. authorize does not check the target.
func authorize(c *kernel.Caller, rt *kernel.Route, r *http.Request) error {
	if c == kernel.Anyone {
		return nil
	}
	if !c.May(rt.Scope) {
		return kernel.NewProblem(kernel.CodeForbidden, "this key lacks the scope "+string(rt.Scope))
	}
	if rt.Whole && c.Globs != nil {
		return kernel.NewProblem(kernel.CodeForbidden, "this route covers all targets, and this key is limited to some")
	}
	if !rt.Changes {
		return nil
	}
	if _, basic := credential(r); basic {
		// A browser adds Basic credentials automatically, even to requests that pages of other sites cause.
		return refuseForeignPages(r)
	}
	return nil
}

// find returns the target with the given name, if the caller may use the target.
func (g *gate) find(a *kernel.Access, name string, c *kernel.Caller) (*kernel.Target, error) {
	// A malformed name gets the same error for every key.
	if a.Targets[name] == nil && !targets.IsName(name) {
		return nil, kernel.NewProblem(kernel.CodeUnknownTarget, "a target's name has only a-z, 0-9, dot, underscore and hyphen"+suggestion(a, name, c))
	}
	// The globs are checked before the target is looked up: a key must not learn which other targets
	// exist.
	if !c.MayUse(name) {
		return nil, kernel.NewProblem(kernel.CodeForbidden, "this key is limited to other targets")
	}
	if t := a.Targets[name]; t != nil {
		return t, nil
	}
	where := "the configuration file has"
	if !g.sets.Status().OK {
		where = "the file was refused when it was read last (`poold check` says why), and the one in use has"
	}
	return nil, kernel.NewProblem(kernel.CodeUnknownTarget, where+" no target of this name"+suggestion(a, name, c))
}

// suggestion returns a clause with the name of a similar target that the caller may use; "" = no
// name is similar.
func suggestion(a *kernel.Access, name string, c *kernel.Caller) string {
	var known []string
	for i := range a.Set.Targets {
		if other := a.Set.Targets[i].Name; c.MayUse(other) {
			known = append(known, other)
		}
	}
	if near := targets.Nearest(name, known); near != "" {
		return ": did you mean " + near + "?"
	}
	return ""
}

// credential returns the key of a request, or "", and whether the key is a Basic password.
func credential(r *http.Request) (secret string, basic bool) {
	header := r.Header.Get("Authorization")
	if scheme, rest, ok := strings.Cut(header, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest), false
	}
	_, password, _ := r.BasicAuth()
	return password, true
}

// challenge adds the headers that ask for authentication. On routes that change nothing, Basic
// comes first, because a browser prompts for a password only if Basic comes first.
func challenge(h http.Header, looking bool) {
	if looking {
		h.Add("WWW-Authenticate", `Basic realm="poold", charset="UTF-8"`)
	}
	h.Add("WWW-Authenticate", `Bearer realm="poold"`)
}
