package targets

import (
	"errors"
	"slices"

	"poold/internal/captcha"
)

// Solve is the section `solve`: what POST /solve may buy for identities that no target
// has. A reload applies all of it.
type Solve struct {
	Owner  string // who answers for it; never ""
	Images bool   // pictures may be asked for; default false
	Budget Budget // over all of these solves; one cap at least is above 0
	Rate   Rate   // most requests, over all replicas, where those that share a solve are one; zero = no limit

	allowed []page   // patterns of pages, one at least
	sites   []string // patterns of site keys; none = all
}

// Why an identity may not be asked for. The texts, here and below, name the field and
// the remedy, and nothing of the request.
var (
	errNoSolve   = errors.New("type: only what a target has can be asked for: add the section solve to the configuration, with its pages and budget")
	errNoImages  = errors.New("image: pictures may not be asked for: set solve.images to true")
	errOtherPage = errors.New("pageurl: is outside solve.pages: ask for a page that is listed there, or add this one")
)

// Allows returns nil where an identity may be asked for that no target has, else why it
// may not. Without the section s is nil, and nothing may. The page is the caller's word:
// it says where the token is to be used, and nobody can check that.
func (s *Solve) Allows(id captcha.Identity) error {
	if s == nil {
		return errNoSolve
	}
	if id.Type == captcha.Image {
		if !s.Images {
			return errNoImages
		}
		return nil
	}
	asked, rule := splitPage(id.Pageurl, false)
	if rule != "" {
		return errors.New("pageurl: " + rule + ", or solve.pages cannot be compared with it")
	}
	if !slices.ContainsFunc(s.allowed, func(p page) bool { return p.matches(asked) }) {
		return errOtherPage
	}
	field, site := "sitekey", id.Sitekey
	switch id.Type {
	case captcha.GeeTest:
		field, site = "gt", id.GT
	case captcha.GeeTestV4:
		field, site = "captcha_id", id.CaptchaID
	}
	if len(s.sites) > 0 && !slices.ContainsFunc(s.sites, func(p string) bool { return matchStars(p, site) }) {
		return errors.New(field + ": is outside solve.sitekeys: ask for one that is listed there, or add this one")
	}
	return nil
}

// solve checks the section `solve`. It comes behind server, because it needs somebody
// who may use it.
func (r *reader) solve(rec record, set *Set, inherited rawTarget) {
	s := decode[Solve](solve, rec)
	if !rec.has("owner") {
		if s.Owner = inherited.Owner; !inherited.has("owner") {
			rec.child("owner").fail("is missing: say who answers for these solves, here or under defaults")
		}
	}
	for _, item := range rec.items("pages") {
		p, ok := item.got.(page)
		if ok && p.open() {
			item.warn("one of the last two names of the host is a pattern, so others may own such a host")
		}
		s.allowed = append(s.allowed, p)
	}
	for _, item := range rec.items("sitekeys") {
		site, _ := item.got.(string)
		s.sites = append(s.sites, site)
	}
	budget := rec.section("budget")
	if rec.has("budget") && !rec.bad("budget") && s.Budget == (Budget{}) {
		budget.fail("needs per_hour or per_day above 0: callers say what is bought, so a cap must say how much")
	}
	rec.budgetRules(s.Budget)
	if most := set.Budget.PerDay; most > 0 && s.Budget.PerDay > most {
		budget.at("per_day").warn("is above the overall budget (%d of %d), which stops everything first", s.Budget.PerDay, most)
	}
	mayAsk := func(k Key) bool { return slices.Contains(k.Scopes, ScopeSolve) }
	if len(set.Server.Keys) > 0 && !slices.ContainsFunc(set.Server.Keys, mayAsk) {
		rec.warn("no key of server.keys has the scope solve, so nobody may ask")
	}
	set.Solve = &s
}
