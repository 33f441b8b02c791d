package targets

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"poold/internal/captcha"
)

// defaultDepth is how many tokens are kept where nobody says.
const defaultDepth = 5

var (
	targetName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	sitekey    = regexp.MustCompile(`^[!-~]{1,256}$`)
)

// life is how long the tokens of a type can be used.
type life struct{ lifetime, margin time.Duration }

// rawTarget is a target, or the defaults, as it was read.
type rawTarget struct {
	Target
	value
	given     given
	hasMargin bool // 0s is a margin too

	windowLines []int // of Warm
}

// lives reads the section `types` over the built-in lifetimes.
func (r *reader) lives(v value) map[captcha.Type]life {
	lives := make(map[captcha.Type]life)
	known := keys{}
	for _, t := range captcha.Types() {
		lives[t] = builtInLife(t)
		known[string(t)] = func(v value) bool {
			l := lives[t]
			g, ok := v.section(keys{
				"lifetime": func(v value) bool { return v.duration(&l.lifetime, time.Second, longest) },
				"margin":   func(v value) bool { return v.duration(&l.margin, 0, longest) },
			}, nil)
			if !ok || g.bad("lifetime", "margin") || !v.outlives(g, l) {
				return false // the built-in ones stay, or every target would complain too
			}
			lives[t] = l
			return true
		}
	}
	v.section(known, unpoolableType)
	return lives
}

// outlives checks that a token can be handed out at all.
func (v value) outlives(g given, l life) bool {
	if l.margin < l.lifetime {
		return true
	}
	name := "margin"
	if !g.has(name) {
		name = "lifetime"
	}
	return v.at(g, name).fail("the margin must be below the lifetime, or no token is ever handed out (built in: 40s of 120s, for turnstile 50s of 300s)")
}

// common are the keys that a target and the defaults share.
func (t *rawTarget) common() keys {
	return keys{
		"depth":    func(v value) bool { return v.integer(&t.Depth, 0, MostDepth) },
		"refill":   func(v value) bool { return v.choice((*string)(&t.Refill), string(RefillFixed), string(RefillAdaptive)) },
		"min":      func(v value) bool { return v.integer(&t.Min, 0, MostDepth) },
		"hit_rate": func(v value) bool { return v.number(&t.HitRate, leastHitRate, mostHitRate) },
		"max_waste": func(v value) bool {
			return v.number(&t.MaxWaste, leastMaxWaste, MostMaxWaste)
		},
		"idle_after": func(v value) bool { return v.duration(&t.IdleAfter, 0, longest) },
		"warm":       t.readWarm,
		"lifetime": func(v value) bool {
			return v.duration(&t.Lifetime, time.Second, longest)
		},
		"margin": func(v value) bool {
			t.hasMargin = true
			return v.duration(&t.Margin, 0, longest)
		},
		"on_empty": func(v value) bool {
			return v.choice((*string)(&t.OnEmpty), string(OnEmptyFail), string(OnEmptyWait))
		},
		"rate":       func(v value) bool { return v.rate(&t.Rate) },
		"budget":     func(v value) bool { return readBudget(v, &t.Budget) },
		"owner":      func(v value) bool { return v.required(&t.Owner) },
		"paused":     func(v value) bool { return v.boolean(&t.Paused) },
		"user_agent": func(v value) bool { return v.text(&t.Identity.UserAgent) },
		"proxy":      func(v value) bool { return readProxy(v, &t.Identity.Proxy) },
		"proxy_type": func(v value) bool {
			return v.choice(&t.Identity.ProxyType, "http", "https", "socks4", "socks5")
		},
	}
}

// own are the keys that make a target what it is and cannot be shared.
func (t *rawTarget) own() keys {
	id := &t.Identity
	return keys{
		"type":    func(v value) bool { return readType(v, &id.Type) },
		"sitekey": func(v value) bool { return v.matching(&id.Sitekey, sitekey, "1 to 256 characters without spaces") },
		"pageurl": func(v value) bool { return readPageurl(v, &id.Pageurl) },
		"invisible": func(v value) bool {
			return v.boolean(&id.Invisible)
		},
		"enterprise": func(v value) bool { return v.boolean(&id.Enterprise) },
		"action":     func(v value) bool { return v.text(&id.Action) },
		"min_score":  func(v value) bool { return v.number(&id.MinScore, 0.1, 0.9) },
		"data":       func(v value) bool { return v.text(&id.Data) },
	}
}

// defaults reads what targets start from.
func (r *reader) defaults(v value) rawTarget {
	t := rawTarget{value: v}
	t.Depth, t.OnEmpty = defaultDepth, OnEmptyFail
	t.Refill, t.HitRate, t.MaxWaste = RefillFixed, DefaultHitRate, DefaultMaxWaste
	t.given, _ = v.section(t.common(), func(key string) string {
		if _, ok := t.own()[key]; ok {
			return "belongs in each target, not in the defaults"
		}
		return unpoolableField(key)
	})
	return t
}

// targets reads the section `targets`.
func (r *reader) targets(v value, set *Set, defaults rawTarget, lives map[captcha.Type]life) {
	byID := make(map[captcha.ID]rawTarget)
	ok := v.each(func(key string, item value) {
		t := r.target(key, item, defaults, lives)
		if t.ID == "" {
			return
		}
		if other, taken := byID[t.ID]; taken {
			t.fail("shapes the same solve as %s in line %d, so the two would share their tokens: "+
				"keep one, or make type, sitekey, pageurl or another such field differ", other.path, other.line)
			return
		}
		byID[t.ID] = t
		// A Set with a faulty target is never handed out; here it helps to check the rest.
		set.Targets = append(set.Targets, t.Target)
	})
	if ok && len(v.node.Content) == 0 {
		// Nobody runs a daemon for nothing: this is a file that was cut off.
		v.fail("names no target: name at least one, with paused: true to buy nothing")
	}
	// The order of a mapping means nothing in YAML, and a fixed one keeps /status still.
	slices.SortFunc(set.Targets, func(a, b Target) int { return strings.Compare(a.Name, b.Name) })
}

// target reads one target. Its ID stays empty if what shapes the solve is not
// known for a fault; other faults leave it to be compared with its neighbours.
func (r *reader) target(name string, v value, defaults rawTarget, lives map[captcha.Type]life) rawTarget {
	t := defaults // what is not written stays as it was there
	t.value, t.Name, t.Line = v, name, v.line
	if !targetName.MatchString(name) {
		v.fail("a target's name is 1 to 63 of a-z, 0-9, ., _ and -, beginning with a letter or digit")
	}
	known := t.common()
	for key, read := range t.own() {
		known[key] = read
	}
	var ok bool
	if t.given, ok = v.section(known, unpoolableField); !ok {
		return t
	}
	t.complete(defaults)
	if t.given["type"].ok {
		t.fields()
		t.live(lives[t.Identity.Type], defaults)
	}
	t.proxyRules(defaults)
	t.refillRules(defaults)
	t.warmRules(defaults)
	if t.shaped() && !defaults.given.bad("user_agent", "proxy", "proxy_type") {
		t.ID = t.Identity.ID()
	}
	return t
}

// shaped reports whether every field of the identity can be trusted.
func (t *rawTarget) shaped() bool {
	for name := range t.own() {
		if t.given.bad(name) {
			return false
		}
	}
	return t.given.has("type") && t.given.has("sitekey") && t.given.has("pageurl") &&
		!t.given.bad("user_agent", "proxy", "proxy_type")
}

// complete reports what a target must say and does not.
func (t *rawTarget) complete(defaults rawTarget) {
	t.missing(t.given, "type")
	// Other types have neither key nor page, or other names for them.
	if unpoolableType(string(t.Identity.Type)) == "" {
		t.missing(t.given, "sitekey", "pageurl")
	}
	if !t.given.has("owner") && !defaults.given.has("owner") {
		t.child("owner").fail("is missing: say who answers for this target, here or under defaults")
	}
}

// fields refuses what does not belong to the target's type.
func (t *rawTarget) fields() {
	typ := t.Identity.Type
	// What a service would ignore is refused: it would split the stock in two and
	// promise something that nobody does.
	for _, field := range []struct {
		name  string
		types []captcha.Type
	}{
		{"invisible", []captcha.Type{captcha.RecaptchaV2}},
		{"enterprise", []captcha.Type{captcha.RecaptchaV2, captcha.RecaptchaV3}},
		{"action", []captcha.Type{captcha.RecaptchaV3, captcha.Turnstile}},
		{"min_score", []captcha.Type{captcha.RecaptchaV3}},
		{"data", []captcha.Type{captcha.Turnstile}},
	} {
		if !t.given.has(field.name) || slices.Contains(field.types, typ) {
			continue
		}
		at := t.at(t.given, field.name)
		if field.name == "data" {
			at.fail("belongs to turnstile, not to %s: data-s and rqdata are made for one visit of the page, so they cannot be solved ahead", typ)
			continue
		}
		var names []string
		for _, other := range field.types {
			names = append(names, string(other))
		}
		at.fail("belongs to %s, not to %s: remove it", orList(names), typ)
	}
}

// live settles how long a token lives: what the target says, else the defaults,
// else its type.
func (t *rawTarget) live(l life, defaults rawTarget) {
	if t.given.bad("lifetime", "margin") || defaults.given.bad("lifetime", "margin") {
		return
	}
	if t.Lifetime == 0 {
		t.Lifetime = l.lifetime
	}
	if !t.hasMargin {
		t.Margin = l.margin
	}
	t.outlives(t.given, life{t.Lifetime, t.Margin})
}

// proxyRules checks that proxy and proxy_type come together. An empty proxy is
// none: so a target switches off the one of the defaults, and so does a variable
// that is not set.
func (t *rawTarget) proxyRules(defaults rawTarget) {
	id := &t.Identity
	both := []string{"proxy", "proxy_type"}
	has := func(name string) bool { return t.given.has(name) || defaults.given.has(name) }
	switch {
	case t.given.bad(both...) || defaults.given.bad(both...):
	case id.Proxy != "" && !has("proxy_type"):
		t.at(t.given, "proxy").fail("needs proxy_type: http, https, socks4 or socks5")
	case id.Proxy == "" && !has("proxy"):
		if t.given.has("proxy_type") {
			t.at(t.given, "proxy_type").fail("needs proxy: remove it, or give host:port")
		}
		id.ProxyType = ""
	case id.Proxy == "":
		id.ProxyType = ""
	}
}

// readProxy reads a proxy or nothing.
func readProxy(v value, dst *captcha.Secret) bool {
	if _, ok := v.secret(dst); !ok {
		return false
	}
	if rule := checkProxy(*dst); rule != "" && *dst != "" {
		return v.fail("%s", rule)
	}
	return true
}

// readPageurl reads the address of the page that shows the challenge.
func readPageurl(v value, dst *string) bool {
	if !v.text(dst) {
		return false
	}
	u, err := url.Parse(*dst)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return v.fail("must be the page's whole address, with http:// or https:// and a host")
	case u.User != nil:
		return v.fail("must not hold a user and password")
	}
	return true
}
