package targets

import (
	"errors"
	"slices"

	"poold/internal/captcha"
)

// Solve is the section solve, which limits purchases by POST /solve for identities without a
// target. A reload applies all its fields. Owner is never "".
type Solve struct {
	Owner    string   `key:"owner" as:"filled" doc:"The person or team responsible for these solves; required, here or in the defaults."`
	Pages    []page   `key:"pages" must:"yes" set:"yes" as:"page" doc:"Patterns of the pages that callers may request, such as https://*.example.com/*. A * in the host crosses no dot, one in the path crosses slashes; queries are not compared."`
	Sitekeys []string `key:"sitekeys" set:"yes" form:"[!-~]{1,256}" want:"a site key or a pattern such as 6Le*, 1 to 256 characters without spaces" doc:"Patterns of the site keys that callers may request, including GeeTest's gt and captcha_id. Default: all."`
	Images   bool     `key:"images" default:"false" doc:"Whether callers may request pictures, which have neither page nor site key."`
	Budget   Budget   `key:"budget" must:"yes" doc:"Limits the purchase of these solves; at least one limit is above 0."`
	Rate     Rate     `key:"rate" doc:"Most requests for these identities, such as 20/s, 30/m or 500/h, over all replicas; requests that share a solve count once. Default: no limit."`
}

// These errors say why callers cannot request an identity. Their texts contain the field and the
// remedy, and do not quote the request.
var (
	errNoSolve   = errors.New("type: only the identities of targets can be requested: add the section solve, with pages and budget, to the configuration")
	errNoImages  = errors.New("image: pictures cannot be requested: set solve.images to true")
	errOtherPage = errors.New("pageurl: matches no pattern of solve.pages: request a page that matches, or add a pattern")
)

// Allows returns nil if callers may request an identity without a target, and otherwise an error
// with the reason. A nil Solve (the file lacks the section) allows no identity. The page of the
// identity is only a claim of the caller: poold cannot check on which page the token is used.
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
		return errors.New(field + ": matches no pattern of solve.sitekeys: request one that matches, or add a pattern")
	}
	return nil
}

// check checks the section. A missing owner is inherited from the defaults.
func (s *Solve) check(e entry, set *Set, defaults *targetEntry) {
	if !e.hasKey("owner") {
		if s.Owner = defaults.Owner; !defaults.hasKey("owner") {
			e.child("owner").fail("is missing: name the person or team responsible for these solves, here or under defaults")
		}
	}
	for i, item := range e.firstEntry("pages").items {
		if item.ok && s.Pages[i].isOpen() {
			item.warn("a wildcard in the last two labels of the host also matches hosts of other owners: name the domain")
		}
	}
	budget := e.firstEntry("budget")
	if e.hasKey("budget") && !e.hasInvalid("budget") && s.Budget == (Budget{}) {
		budget.fail("needs per_hour or per_day above 0: callers decide what is bought, so a budget must limit how much")
	}
	e.budgetRules(s.Budget)
	if most := set.Budget.PerDay; most > 0 && s.Budget.PerDay > most {
		budget.firstEntry("per_day").warn("exceeds the overall budget (%d of %d), which ends all purchases first", s.Budget.PerDay, most)
	}
	mayAsk := func(k Key) bool { return slices.Contains(k.Scopes, ScopeSolve) }
	if len(set.Server.Keys) > 0 && !slices.ContainsFunc(set.Server.Keys, mayAsk) {
		e.warn("no key of server.keys has the scope solve, so every request is refused: give one of them the scope")
	}
}
