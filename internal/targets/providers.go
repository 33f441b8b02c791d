package targets

import (
	"cmp"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"poold/internal/captcha"
)

const (
	defaultTimeout   = 180 * time.Second
	profileCaptchaAI = "captchaai"
	profilePoold     = "poold" // another poold; a token of its stock may be older than the submit
)

// providerEntry is one entry of the section providers, with its positions in the file.
type providerEntry struct {
	*Provider
	entry
}

func (p *providerEntry) simulated() bool { return p.API == APISimulated }

// checkProviders checks the section providers, and stores the usable providers in the Set.
func (r *reader) checkProviders(e entry, set *Set) {
	before := len(r.problems)
	var all []providerEntry
	byName := make(map[string]int)
	for i, item := range e.items {
		p := providerEntry{&set.Providers[i], item}
		p.Line = p.line
		if item.read {
			p.rules()
		}
		p.checkUnique("provider", p.Name, byName)
		all = append(all, p)
	}
	if set.Redis.URL == "" {
		return // the other rules need a valid value of `api`
	}
	valid := (e.ok || e.node == nil) && len(r.problems) == before
	r.simulatedRules(all, set.Redis.Embedded())
	if valid {
		set.Providers = nil
		r.chooseProviders(e.value, all, set)
	}
}

func (p *providerEntry) rules() {
	if unencrypted(p.URL) {
		p.firstEntry("url").warn("http sends the account's key unencrypted: use https")
	}
	if endsInMethod(p.URL) { // providerURL has removed a final slash
		p.firstEntry("url").warn("ends in a method such as in.php, to which poold adds another: give the base address")
	}
	switch {
	case p.hasInvalid("api"):
	case p.simulated():
		for _, name := range []string{"profile", "url", "key", "balance", "callback_url"} {
			if p.hasKey(name) {
				p.firstEntry(name).warn("is not used with api: simulated")
			}
		}
		p.URL, p.Key, p.Profile, p.Balance, p.CallbackURL = "", "", "generic", false, ""
	default:
		p.requireKeys("url", "key")
		if p.PollInterval > 0 && p.PollInterval < time.Second {
			p.firstEntry("poll_interval").warn("is very short: services require seconds between two polls and ban faster clients")
		}
	}
	if !p.hasInvalid("timeout", "first_poll") && p.Timeout <= p.FirstPoll {
		p.firstEntry("timeout", "first_poll").fail("timeout must exceed first_poll, or every task times out before its first poll (default timeout: %s)", shortDuration(defaultTimeout))
	}
	p.callbackRules()
}

// providerURL parses the base address of a service. No message quotes the address.
func providerURL(e scalar) (any, string) {
	if e.text == "" {
		return "", "must not be empty"
	}
	address, rule := baseAddress(e.text, "must not hold a user and password: the account's key goes under key",
		"must not hold a ? or #: keys and parameters are sent in the body")
	if rule != "" {
		return "", rule
	}
	if endsInMethod(e.text) {
		return "", "must be the base address, without in.php, createTask and the like"
	}
	return address, ""
}

// endsInMethod reports whether the last segment of a path is a method of a protocol, such as
// in.php. For "…/in.php/" it returns false, because the last segment is empty.
func endsInMethod(address string) bool {
	u, err := url.Parse(address)
	return err == nil && slices.Contains([]string{"in.php", "res.php", "createTask", "getTaskResult"}, u.Path[strings.LastIndexByte(u.Path, '/')+1:])
}

// baseAddress parses a web address, which may be empty, and removes a final slash. It returns
// userRule for an address with a user, and queryRule for an address with a query or a fragment.
func baseAddress(text, userRule, queryRule string) (address, rule string) {
	if text == "" {
		return "", ""
	}
	u, rule := baseURL(text)
	switch {
	case rule != "":
		return "", rule
	case u.User != nil:
		return "", userRule
	case strings.ContainsAny(text, "?#"): // this also finds an empty query, which url.Parse drops
		return "", queryRule
	}
	return strings.TrimRight(text, "/"), ""
}

// baseURL parses an http or https address, or returns the rule that the address violates.
func baseURL(address string) (u *url.URL, rule string) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, "must be an http:// or https:// address with a host"
	}
	return u, ""
}

// unencrypted reports whether requests to an address leave this machine without encryption.
func unencrypted(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "http" && !isLoopback(u.Hostname())
}

// simulatedRules checks that simulated tokens cannot mix with real tokens.
func (r *reader) simulatedRules(all []providerEntry, embedded bool) {
	first := 0
	for i := range all {
		p := &all[i]
		switch {
		case !p.simulated() || p.hasInvalid("api"):
		case first > 0:
			p.firstEntry("api").fail("a second simulated provider: the one in line %d is enough", first)
		case !embedded && len(all) > 1:
			p.firstEntry("api").fail("with redis.url other than embedded a simulated provider must be the only one listed, " +
				"or its worthless tokens would mix with real ones: remove this entry")
		default:
			first = p.line
		}
	}
}

// chooseProviders stores the usable providers in the Set. The real providers with a key are usable.
// If there is none, the simulated provider that the file lists is usable. If the file lists no
// simulated provider and Redis is embedded, the built-in simulated provider is usable.
func (r *reader) chooseProviders(v value, all []providerEntry, set *Set) {
	var listed *providerEntry
	var unset []string
	for i := range all {
		p := &all[i]
		switch {
		case p.simulated():
			listed = p
		case p.Key == "":
			key := p.firstEntry("key").value
			r.warnOfDemo(key.line, "%s: the key is empty, so this provider is left out%s", p.path, key.remedy())
			unset = append(unset, key.variables()...)
		default:
			set.Providers = append(set.Providers, *p.Provider)
		}
	}
	switch {
	case len(set.Providers) > 0:
		if listed != nil {
			listed.warn("is not used, because a real provider has a key")
		}
	case listed != nil:
		set.Providers = []Provider{*listed.Provider}
		r.warnOfDemo(listed.line, "%s: tokens are simulated; no site accepts them", listed.path)
	case set.Redis.Embedded():
		// The built-in provider has the same defaults as an entry that sets only name and api.
		built := Provider{Name: "simulated", Line: v.line}
		sectionOf(reflect.TypeFor[Provider](), "").preset(reflect.ValueOf(&built).Elem())
		built.API = APISimulated
		set.Providers = []Provider{built}
		r.warnOfDemo(v.line, "%s: none can be used, so the simulated one inside the daemon is: no site accepts its tokens%s", v.path, toSet(unset))
	default:
		v.fail("none can be used, and with redis.url other than embedded no provider is simulated by default%s", cmp.Or(toSet(unset), ": give one of them a key"))
	}
}

// agedRules refuses targets whose tokens may expire earlier than this daemon computes. The reason
// is a provider that is another poold with the legacy protocol, which does not report the age of a
// token.
func (r *reader) agedRules(set *Set) {
	aged := slices.ContainsFunc(set.Providers, func(p Provider) bool { return p.Profile == profilePoold && p.API == APILegacy })
	if !aged {
		return
	}
	for _, t := range set.Targets {
		if lifetime, _ := set.Life(t.Identity.Type); t.Lifetime > lifetime/2 {
			r.fail(t.Line, "targets.%s.lifetime: must be at most %s, half of what %s tokens live: a provider with profile poold and api legacy does not say how old its tokens are; "+
				"set it, or use api: tasks", t.Name, shortDuration(lifetime/2), t.Identity.Type)
		}
	}
}

// warnUnusual warns about combinations of settings that are allowed, but rarely intended.
func (r *reader) warnUnusual(set *Set) {
	real := slices.ContainsFunc(set.Providers, func(p Provider) bool { return p.API != APISimulated })
	if real && set.Redis.Embedded() {
		r.warn(set.lines["redis"], "redis.url: the embedded Redis keeps nothing over a restart, and tokens are paid for: give the address of a real one")
	}
	captchaAI := slices.ContainsFunc(set.Providers, func(p Provider) bool { return p.Profile == profileCaptchaAI })
	for _, t := range set.Targets {
		prefix := "targets." + t.Name
		if t.Identity.Type == captcha.HCaptcha && captchaAI {
			r.warn(t.Line, "%s.type: captchaai does not list hcaptcha as a supported type", prefix)
		}
		if usual := builtInLife(t.Identity.Type); t.Lifetime > usual.Lifetime {
			r.warn(t.Line, "%s.lifetime: is unusually long: %s tokens expire after %s", prefix, t.Identity.Type, shortDuration(usual.Lifetime))
		}
		if t.Depth == 0 {
			r.warn(t.Line, "%s.depth: 0 keeps nothing ready: a token is bought only once a caller waits for it", prefix)
		}
	}
}
