package delivery

import (
	"regexp"
	"slices"
	"strings"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
	"poold/internal/ondemand"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/targets"
)

var identityID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// SolveID names a token of /solve by its own id, its identity and its type.
type SolveID struct {
	Token    string
	Identity captcha.ID
	Type     captcha.Type
}

func (s SolveID) String() string { return s.Token + "." + string(s.Identity) + "." + string(s.Type) }

// readSolveID is the inverse; false where it is none.
func readSolveID(text string) (s SolveID, ok bool) {
	rest, kind, ok := cutLast(text, ".")
	if !ok {
		return s, false
	}
	token, id, ok := cutLast(rest, ".")
	return SolveID{token, captcha.ID(id), captcha.Type(kind)},
		ok && identityID.MatchString(id) && slices.Contains(captcha.SolvableTypes(), captcha.Type(kind))
}

// cutLast cuts a text at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

// GuestOf returns the terms on which an identity without a target is bought.
func GuestOf(set *targets.Set, asked targets.SolveRequest, id captcha.ID) *ondemand.Guest {
	lifetime, margin := set.Life(asked.Identity.Type)
	g := &ondemand.Guest{Spec: purchase.Spec{
		Target: purchase.GuestTarget, Owner: set.Solve.Owner, Identity: asked.Identity, ID: id, Image: asked.Image,
		Margin: margin, Lifetime: lifetime,
		Guests: pool.Caps{PerHour: set.Solve.Budget.PerHour, PerDay: set.Solve.Budget.PerDay},
	}}
	g.Use.Rate, g.Use.RatePer = kernel.WholeRate(set.Solve.Rate)
	return g
}
