package targets

import (
	"errors"
	"slices"

	"poold/internal/captcha"
)

// Solve is the section solve: what POST /solve may buy for identities that no target has.
// A reload applies all of it. Owner is never "".
type Solve struct {
	Owner    string   `key:"owner" as:"filled" doc:"Who answers for these solves; required, here or in the defaults."`
	Pages    []page   `key:"pages" must:"yes" set:"yes" as:"page" doc:"Patterns of the pages that may be asked for, such as https://*.example.com/*. A * in the host crosses no dot, one in the path crosses slashes; queries are not compared."`
	Sitekeys []string `key:"sitekeys" set:"yes" form:"[!-~]{1,256}" want:"a site key or a pattern such as 6Le*, 1 to 256 characters without spaces" doc:"Patterns of the site keys that may be asked for; GeeTest's gt and captcha_id count as such. Default: all."`
	Images   bool     `key:"images" default:"false" doc:"Whether pictures may be asked for, which have neither page nor site key."`
	Budget   Budget   `key:"budget" must:"yes" doc:"The most of these solves that are bought; one cap at least is above 0."`
	Rate     Rate     `key:"rate" doc:"Most requests for these identities, such as 20/s, 30/m or 500/h, over all replicas; those that share a solve are one. Default: no limit."`
}

// Why an identity may not be asked for. The texts, here and below, name the field and the
// remedy, and quote nothing of the request.
var (
	errNoSolve   = errors.New("type: only what a target has can be asked for: add the section solve to the configuration, with its pages and budget")
	errNoImages  = errors.New("image: pictures may not be asked for: set solve.images to true")
	errOtherPage = errors.New("pageurl: is outside solve.pages: ask for a page that is listed there, or add this one")
)

// Allows returns an error if an identity that no target has may not be asked for. It says
// why. s is nil if the file lacks the section; then nothing is allowed. The page is the
// caller's claim: poold cannot check on which page the token is used.
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
	if !slices.ContainsFunc(s.Pages, func(p page) bool { return p.matches(asked) }) {
		return errOtherPage
	}
	field, site := "sitekey", id.Sitekey
	switch id.Type {
	case captcha.GeeTest:
		field, site = "gt", id.GT
	case captcha.GeeTestV4:
		field, site = "captcha_id", id.CaptchaID
	}
	if len(s.Sitekeys) > 0 && !slices.ContainsFunc(s.Sitekeys, func(p string) bool { return matchStars(p, site) }) {
		return errors.New(field + ": is outside solve.sitekeys: ask for one that is listed there, or add this one")
	}
	return nil
}

// check may inherit the owner from the defaults.
func (s *Solve) check(e entry, set *Set, defaults *targetEntry) {
	if !e.has("owner") {
		if s.Owner = defaults.Owner; !defaults.has("owner") {
			e.child("owner").fail("is missing: say who answers for these solves, here or under defaults")
		}
	}
	for i, item := range e.at("pages").items {
		if item.ok && s.Pages[i].open() {
			item.warn("one of the last two names of the host is a pattern, so others may own such a host")
		}
	}
	budget := e.at("budget")
	if e.has("budget") && !e.bad("budget") && s.Budget == (Budget{}) {
		budget.fail("needs per_hour or per_day above 0: callers say what is bought, so a cap must say how much")
	}
	e.budgetRules(s.Budget)
	if most := set.Budget.PerDay; most > 0 && s.Budget.PerDay > most {
		budget.at("per_day").warn("is above the overall budget (%d of %d), which stops everything first", s.Budget.PerDay, most)
	}
	mayAsk := func(k Key) bool { return slices.Contains(k.Scopes, ScopeSolve) }
	if len(set.Server.Keys) > 0 && !slices.ContainsFunc(set.Server.Keys, mayAsk) {
		e.warn("no key of server.keys has the scope solve, so nobody may ask")
	}
}
