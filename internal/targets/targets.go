package targets

import (
	"cmp"
	"net"
	"reflect"
	"slices"
	"strings"

	"poold/internal/captcha"
)

// IsName reports whether a text is a valid name of a target.
func IsName(text string) bool {
	return pools.field("targets").kind.(mapping).form.MatchString(text)
}

// targetEntry is a target or the section defaults, with its positions in the file.
type targetEntry struct {
	*Target
	entry
}

// These sections have the keys of a target.
var (
	targetSection   = sectionOf(reflect.TypeFor[Target](), viewTarget)
	defaultsSection = sectionOf(reflect.TypeFor[Target](), viewDefaults)
)

// unknownDefault explains why the section `defaults` cannot have a key.
func unknownDefault(key string) string {
	if targetSection.field(key) != nil {
		return "belongs in each target, not in the defaults"
	}
	return unpoolableField(key)
}

// checkMargin checks that the margin is less than the lifetime. Otherwise no token could be handed
// out.
func (e entry) checkMargin(l life) bool {
	if l.Margin < l.Lifetime {
		return true
	}
	return e.firstEntry("margin", "lifetime").fail("the margin must be below the lifetime, or no token is ever handed out (built in: 40s of 120s, for turnstile 50s of 300s)")
}

// checkTargets completes the targets with the defaults, and checks each target and the rules
// between targets.
func (r *reader) checkTargets(items []entry, set *Set, defaults *targetEntry) {
	all := set.Targets
	set.Targets = all[:0]
	byID := make(map[captcha.ID]entry, len(all))
	for i, item := range items {
		t := targetEntry{&all[i], item}
		t.Line = item.line
		t.Withheld = t.SimulatedOnly && !set.Simulated()
		defaultsSection.inherit(item, reflect.ValueOf(t.Target).Elem(), reflect.ValueOf(defaults.Target).Elem())
		t.windowRules()
		t.budgetRules(t.Budget)
		if item.read {
			t.rules(defaults.entry, set.lifetimes)
		}
		if t.ID == "" {
			continue
		}
		if other, taken := byID[t.ID]; taken {
			t.fail("has the same identity as %s in line %d, so both would share one stock: "+
				"remove one, or change its type, sitekey, pageurl or another field of the identity", other.path, other.line)
			continue
		}
		byID[t.ID] = item
		// An invalid target stays in the Set, because the checks of other targets need it. Parse
		// discards the Set later.
		set.Targets = append(set.Targets, *t.Target)
	}
	// YAML mappings have no order. Sorting keeps the order on /status stable.
	slices.SortFunc(set.Targets, func(a, b Target) int { return strings.Compare(a.Name, b.Name) })
}

// rules checks the rules between the keys of one target. If the identity is invalid, the ID stays
// empty. If only other keys are invalid, the ID is set, so that the target is still compared with
// other targets.
func (t *targetEntry) rules(inherited entry, byType map[captcha.Type]life) {
	if !t.hasKey("owner") && !inherited.hasKey("owner") {
		t.child("owner").fail("is missing: name the person or team responsible for this target, here or under defaults")
	}
	if t.hasKey("type") && !t.hasInvalid("type") {
		t.typeRules(&t.Identity, targetSection.fields)
		t.settleLife(byType[t.Identity.Type], inherited)
	}
	t.proxyRules(inherited, &t.Identity)
	t.refillRules(inherited)
	t.warmRules(inherited)
	if t.hasValidIdentity(inherited) {
		t.ID = t.Identity.ID()
	}
}

// hasValidIdentity reports whether all fields of the identity are valid.
func (t *targetEntry) hasValidIdentity(inherited entry) bool {
	for _, f := range identityFields {
		if f.must && f.belongs(t.Identity.Type) && !t.hasKey(f.key) || t.hasInvalid(f.key) || inherited.hasInvalid(f.key) {
			return false
		}
	}
	return true
}

// identityFields describes the keys of an identity.
var identityFields = sectionOf(reflect.TypeFor[captcha.Identity](), "").fields

// typeRules refuses keys that do not belong to the type of the identity. A service would ignore
// such keys, but they would change the identity, and the target would get a separate stock. In a
// request, typeRules also reports keys that the type needs and the request lacks.
func (e entry) typeRules(id *captcha.Identity, fields []field) {
	for _, f := range fields {
		switch has, belongs := e.hasKey(f.key), f.belongs(id.Type); {
		case !has && belongs && f.must && e.r.request:
			e.child(f.key).fail("is missing: %s needs it", id.Type)
		case !has || belongs:
		case f.key == "data" && !e.r.request:
			e.firstEntry(f.key).fail("belongs to turnstile, not to %s: data-s and rqdata are made for one visit of the page, so they cannot be solved ahead", id.Type)
		default:
			e.firstEntry(f.key).fail("belongs to %s, not to %s: remove it", orList(f.of), id.Type)
		}
	}
}

// noHourlyTotal explains why the overall budget cannot have the key per_hour.
func noHourlyTotal(key string) string {
	if key == "per_hour" {
		return "the overall budget has only per_day: write per_day, or set per_hour in targets or defaults"
	}
	return ""
}

// budgetRules warns if the hourly limit is higher than the daily limit. A section that inherits the
// budget gets no warning, because the defaults already get one.
func (e entry) budgetRules(b Budget) {
	if e = e.firstEntry("budget"); len(e.keys) > 0 && b.PerDay > 0 && b.PerHour > b.PerDay {
		e.r.warn(e.firstEntry("per_hour", "per_day").line, "%s.per_hour: is above per_day (%d of %d), so an hour can never use it up", e.path, b.PerHour, b.PerDay)
	}
}

// settleLife sets the lifetime and the margin of a target's tokens. The target's own values have
// precedence over the defaults, and the defaults over the type.
func (t *targetEntry) settleLife(l life, inherited entry) {
	if t.hasInvalid("lifetime", "margin") || inherited.hasInvalid("lifetime", "margin") {
		return
	}
	t.Lifetime = cmp.Or(t.Lifetime, l.Lifetime)
	if !t.hasKey("margin") && !inherited.hasKey("margin") { // the value 0 does not mean that the key is missing, because a margin of 0s is valid
		t.Margin = l.Margin
	}
	t.checkMargin(life{t.Lifetime, t.Margin})
}

// proxyRules checks that proxy and proxy_type are both set or both missing. An empty proxy, for
// instance from an unset variable, removes the proxy of the defaults.
func (e entry) proxyRules(inherited entry, id *captcha.Identity) {
	both := []string{"proxy", "proxy_type"}
	has := func(name string) bool { return e.hasKey(name) || inherited.hasKey(name) }
	switch {
	case e.hasInvalid(both...) || inherited.hasInvalid(both...):
		return
	case id.Proxy != "" && !has("proxy_type"):
		e.firstEntry("proxy").fail("needs proxy_type: http, https, socks4 or socks5")
	case e.hasKey("proxy_type") && !has("proxy"):
		e.firstEntry("proxy_type").fail("needs proxy: remove it, or give host:port")
	}
	if id.Proxy == "" {
		id.ProxyType = ""
	}
}

// proxy parses the address of a proxy. The address may be empty. No message quotes the address,
// because it may contain a password.
func proxy(e scalar) (any, string) {
	const form = "must be host:port or user:password@host:port"
	text := e.text
	if strings.Contains(text, "://") {
		return nil, form + ": the scheme before :// belongs under proxy_type"
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
	return e.text, ""
}

// pageURL parses the address of the page that shows the CAPTCHA.
func pageURL(e scalar) (any, string) {
	u, rule := baseURL(e.text)
	switch {
	case rule != "":
		return nil, "must be the page's whole address, with http:// or https:// and a host"
	case u.User != nil:
		return nil, "must not hold a user and password"
	}
	return e.text, ""
}
