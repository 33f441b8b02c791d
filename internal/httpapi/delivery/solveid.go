package delivery

import (
	"regexp"
	"slices"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
	"poold/internal/ondemand"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill/policy/worth"
	"poold/internal/targets"
)

var solveID = regexp.MustCompile(`(?s)^(.*)\.([0-9a-f]{32})\.([^.]*)$`)

// SolveID is the id of a token from POST /solve. SolveID consists of the token's id in the stock,
// the identity and the type of the captcha.
type SolveID struct {
	Token    string
	Identity captcha.ID
	Type     captcha.Type
}

// String returns the id in the form that the responses of /solve contain.
func (s SolveID) String() string { return s.Token + "." + string(s.Identity) + "." + string(s.Type) }

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

// GuestOf returns the terms for buying tokens of an identity without a target.
func GuestOf(set *targets.Set, asked targets.SolveRequest, id captcha.ID) *ondemand.Guest {
	lifetime, margin := set.Life(asked.Identity.Type)
	g := &ondemand.Guest{Policy: worth.Policy(set.ProvidersPolicy), MaxWaste: targets.DefaultMaxWaste, Spec: purchase.Spec{
		Target: purchase.GuestTarget, Owner: set.Solve.Owner, Identity: asked.Identity, ID: id, Image: asked.Image,
		Margin: margin, Lifetime: lifetime,
		Guests: pool.Caps{PerHour: set.Solve.Budget.PerHour, PerDay: set.Solve.Budget.PerDay},
	}}
	g.Use.Rate, g.Use.RatePer = kernel.WholeRate(set.Solve.Rate)
	return g
}
