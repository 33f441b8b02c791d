package delivery

import (
	"regexp"
	"slices"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/pool/tokenid"
	"poold/internal/purchase"
	"poold/internal/solve"
	"poold/internal/targets"
)

var solveID = regexp.MustCompile(`(?s)^(.*)\.([0-9a-f]{32})\.([^.]*)$`)

// SolveID is the id of a token from POST /solve: the token's id of package tokenid, the hash of the identity and the
// type of the captcha.
type SolveID struct {
	Token    string
	Identity captcha.ID
	Type     captcha.Type
}

// String returns the id in the form that the responses of /solve contain.
func (s SolveID) String() string { return s.Token + "." + string(s.Identity) + "." + string(s.Type) }

// IDOf returns the id of a token for a caller: a SolveID if no target has the identity. The token of the argument is an
// order.
func IDOf(signer *tokenid.Signer, c *kernel.Call, of SolveID) string {
	of.Token = signer.ID(of.Token, c.Caller.StableName)
	if c.Target != nil {
		return of.Token
	}
	return of.String()
}

// readSolveID parses the text that SolveID.String returns. For a text that is not a SolveID, the
// result is false.
func readSolveID(text string) (s SolveID, ok bool) {
	parts := solveID.FindStringSubmatch(text)
	if parts == nil {
		return s, false
	}
	s = SolveID{parts[1], captcha.ID(parts[2]), captcha.Type(parts[3])}
	return s, slices.Contains(captcha.SolvableTypes(), s.Type)
}

// GuestOf returns the call and the order of a guest: an identity without a target.
func GuestOf(set *targets.Set, asked targets.SolveRequest) (pool.Call, *solve.Spec, pool.Rate) {
	lifetime, margin := set.Life(asked.Identity.Type)
	spec := &solve.Spec{
		Target: purchase.GuestTarget, Owner: set.Solve.Owner, Identity: asked.Identity, ID: pool.Guest(asked.Identity.ID()),
		Guest: true, Image: asked.Image, Margin: margin, Horizon: margin, Lifetime: lifetime,
		Policy: string(set.ProvidersPolicy), MissCost: targets.DefaultMaxWaste, Afford: asked.Timeout,
	}
	if b := set.Solve.Budget; b != (targets.Budget{}) {
		spec.Budgets = append(spec.Budgets, pool.Budget{Scope: pool.ScopeSolve, PerHour: b.PerHour, PerDay: b.PerDay})
	}
	if b := set.Budget; b != (targets.Budget{}) {
		spec.Budgets = append(spec.Budgets, pool.Budget{Scope: pool.ScopeAll, PerHour: b.PerHour, PerDay: b.PerDay})
	}
	var rate pool.Rate
	rate.Count, rate.Per = kernel.WholeRate(set.Solve.Rate)
	return pool.Call{ID: spec.ID, Margin: margin, MostTickets: solve.MostWaiting, Wait: asked.Timeout}, spec, rate
}
