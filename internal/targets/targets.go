package targets

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"poold/internal/captcha"
)

// targetName is told in words by the rule of the key targets.
var targetName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// IsName says whether a target may be called so.
func IsName(text string) bool { return targetName.MatchString(text) }

// rawTarget is a target, or the defaults, as it was read.
type rawTarget struct {
	Target
	record
	hasMargin bool // 0s is a margin too
}

// read takes over what was written; the rest stays as it was.
func (t *rawTarget) read(rec record) {
	t.record = rec
	rec.into(&t.Target)
	rec.into(&t.Identity)
	t.hasMargin = t.hasMargin || rec.has("margin")
	t.windows()
	t.budgetRules(t.Budget)
}

// unknownDefault explains a key that cannot stand in the defaults.
func unknownDefault(key string) string {
	if slices.ContainsFunc(ownFields, func(f field) bool { return f.key == key }) {
		return "belongs in each target, not in the defaults"
	}
	return unpoolableField(key)
}

// defaults returns what targets start from.
func (r *reader) defaults(rec record) (t rawTarget) {
	defaults.preset(&t.Target)
	t.read(rec)
	return t
}

// lives returns the section `types` over the built-in lifetimes.
func (r *reader) lives(rec record) map[captcha.Type]life {
	byType := make(map[captcha.Type]life)
	for _, f := range lives.fields {
		sub, t := rec.section(f.key), captcha.Type(f.key)
		l := decode[life](f.kind.(section), sub)
		if sub.bad("lifetime", "margin") || !sub.outlives(l) {
			l = builtInLife(t) // or every target would complain too
		}
		byType[t] = l
	}
	return byType
}

// outlives checks that a token can be handed out at all.
func (rec record) outlives(l life) bool {
	if l.Margin < l.Lifetime {
		return true
	}
	return rec.at("margin", "lifetime").fail("the margin must be below the lifetime, or no token is ever handed out (built in: 40s of 120s, for turnstile 50s of 300s)")
}

// targets checks the targets one by one and against each other.
func (r *reader) targets(items []mark, set *Set, inherited rawTarget, byType map[captcha.Type]life) {
	byID := make(map[captcha.ID]rawTarget)
	for _, item := range items {
		t := inherited // what is not written stays as it was there
		t.Name, t.Line = item.name, item.line
		t.read(item.record())
		if item.got != nil {
			t.rules(inherited, byType)
		}
		if t.ID == "" {
			continue
		}
		if other, taken := byID[t.ID]; taken {
			t.fail("shapes the same solve as %s in line %d, so the two would share their tokens: "+
				"keep one, or make type, sitekey, pageurl or another such field differ", other.path, other.line)
			continue
		}
		byID[t.ID] = t
		// A Set with a faulty target is never handed out; here it helps to check the rest.
		set.Targets = append(set.Targets, t.Target)
	}
	// The order of a mapping means nothing in YAML, and a fixed one keeps /status still.
	slices.SortFunc(set.Targets, func(a, b Target) int { return strings.Compare(a.Name, b.Name) })
}

// rules checks what concerns several keys of one target. Its ID stays empty if what
// shapes the solve is not known for a fault; other faults leave it to be compared
// with its neighbours.
func (t *rawTarget) rules(inherited rawTarget, byType map[captcha.Type]life) {
	if !t.has("owner") && !inherited.has("owner") {
		t.child("owner").fail("is missing: say who answers for this target, here or under defaults")
	}
	if t.has("type") && !t.bad("type") {
		t.typeRules()
		t.live(byType[t.Identity.Type], inherited)
	}
	t.proxyRules(inherited.record, &t.Identity)
	t.refillRules(inherited)
	t.warmRules(inherited)
	if t.shaped(inherited) {
		t.ID = t.Identity.ID()
	}
}

// shaped reports whether every field of the identity can be trusted.
func (t *rawTarget) shaped(inherited rawTarget) bool {
	for _, f := range ownFields {
		if f.must && !t.has(f.key) || t.bad(f.key) {
			return false
		}
	}
	shared := []string{"user_agent", "proxy", "proxy_type"}
	return !t.bad(shared...) && !inherited.bad(shared...)
}

// typeRules refuses what does not belong to the target's type. What a service would
// ignore is refused: it would split the stock in two and promise something that
// nobody does.
func (t *rawTarget) typeRules() {
	typ := t.Identity.Type
	for _, f := range ownFields {
		switch {
		case !t.has(f.key) || f.of(typ):
		case f.key == "data":
			t.at(f.key).fail("belongs to turnstile, not to %s: data-s and rqdata are made for one visit of the page, so they cannot be solved ahead", typ)
		default:
			t.misplaced(f, typ)
		}
	}
}

// of reports whether the field belongs to a type.
func (f field) of(typ captcha.Type) bool { return f.only == nil || slices.Contains(f.only, typ) }

// misplaced reports a field that does not belong to the type.
func (rec record) misplaced(f field, typ captcha.Type) {
	rec.at(f.key).fail("belongs to %s, not to %s: remove it", orList(f.only), typ)
}

// live settles how long a token lives: what the target says, else the defaults,
// else its type.
func (t *rawTarget) live(l life, inherited rawTarget) {
	if t.bad("lifetime", "margin") || inherited.bad("lifetime", "margin") {
		return
	}
	if t.Lifetime == 0 {
		t.Lifetime = l.Lifetime
	}
	if !t.hasMargin {
		t.Margin = l.Margin
	}
	t.outlives(life{t.Lifetime, t.Margin})
}

// proxyRules checks that proxy and proxy_type come together. An empty proxy is
// none: so a target switches off the one of the defaults, and so does a variable
// that is not set.
func (rec record) proxyRules(inherited record, id *captcha.Identity) {
	both := []string{"proxy", "proxy_type"}
	has := func(name string) bool { return rec.has(name) || inherited.has(name) }
	switch {
	case rec.bad(both...) || inherited.bad(both...):
	case id.Proxy != "" && !has("proxy_type"):
		rec.at("proxy").fail("needs proxy_type: http, https, socks4 or socks5")
	case id.Proxy == "" && !has("proxy"):
		if rec.has("proxy_type") {
			rec.at("proxy_type").fail("needs proxy: remove it, or give host:port")
		}
		id.ProxyType = ""
	case id.Proxy == "":
		id.ProxyType = ""
	}
}

// proxy is a proxy or nothing, as a captcha.Secret. No message quotes it: it may
// hold a password.
var proxy = textual{parse: func(e expansion) (any, string) {
	const form = "must be host:port or user:password@host:port"
	text := e.text
	if strings.Contains(text, "://") {
		return nil, form + ": what stands before :// goes under proxy_type"
	}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		if user, _, ok := strings.Cut(text[:at], ":"); !ok || user == "" {
			return nil, form
		}
		text = text[at+1:]
	}
	host, port, err := net.SplitHostPort(text)
	if e.text != "" && (err != nil || host == "" || CheckListen(net.JoinHostPort(host, port), 1) != nil || strings.Trim(port, "0") == "") {
		return nil, form
	}
	return captcha.Secret(e.text), ""
}}

// pageURL is the address of the page that shows the challenge, as a string.
var pageURL = textual{parse: func(e expansion) (any, string) {
	u, err := url.Parse(e.text)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return nil, "must be the page's whole address, with http:// or https:// and a host"
	case u.User != nil:
		return nil, "must not hold a user and password"
	}
	return e.text, ""
}}
