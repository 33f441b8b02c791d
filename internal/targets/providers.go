package targets

import (
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"poold/internal/captcha"
)

const (
	// defaultConcurrency is careful: a service that refuses what is above the
	// account's cap costs only time, one that bans costs the day.
	defaultConcurrency = 20
	defaultTimeout     = 180 * time.Second
	longest            = 24 * time.Hour

	profileCaptchaAI = "captchaai"
)

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)

// rawProvider is one entry of the list as it was read.
type rawProvider struct {
	Provider
	value
	given given
	names []string // of the variables that its key refers to
}

// simulated reports whether the entry asks for the provider inside the daemon.
func (p *rawProvider) simulated() bool { return p.API == APISimulated }

// providers reads the list and keeps those that can be used.
func (r *reader) providers(v value, set *Set) {
	before := len(r.problems)
	var all []rawProvider
	byName := make(map[string]int)
	v.list(func(item value) {
		p := r.provider(item)
		if line := byName[p.Name]; line > 0 {
			p.fail("has the name of the provider in line %d: give each its own", line)
		} else if p.Name != "" {
			byName[p.Name] = p.line
		}
		all = append(all, p)
	})
	sound := len(r.problems) == before
	if set.Redis.URL == "" {
		return // nobody knows which rules apply
	}
	r.simulatedRules(all, set.Redis.Embedded())
	if sound {
		r.choose(v, all, set)
	}
}

// provider reads one entry.
func (r *reader) provider(v value) rawProvider {
	v = v.named("providers")
	p := rawProvider{value: v}
	p.API, p.Profile = APILegacy, "generic"
	p.Concurrency, p.Timeout, p.CallbackDelay, p.Line = defaultConcurrency, defaultTimeout, defaultCallbackDelay, v.line
	known := keys{
		"name": func(v value) bool {
			return v.matching(&p.Name, providerName, "1 to 31 of a-z, 0-9 and -, beginning with a letter or digit")
		},
		"api": func(v value) bool {
			return v.choice((*string)(&p.API), string(APILegacy), string(APITasks), string(APISimulated))
		},
		"profile": func(v value) bool { return v.choice(&p.Profile, profileCaptchaAI, "2captcha", "generic") },
		"url":     func(v value) bool { return r.providerURL(v, &p.URL) },
		"key": func(v value) (ok bool) {
			p.names, ok = v.secret(&p.Key)
			return ok
		},
		"concurrency":    func(v value) bool { return v.integer(&p.Concurrency, 1, 10000) },
		"first_poll":     func(v value) bool { return v.duration(&p.FirstPoll, 50*time.Millisecond, longest) },
		"poll_interval":  func(v value) bool { return v.duration(&p.PollInterval, 50*time.Millisecond, longest) },
		"timeout":        func(v value) bool { return v.duration(&p.Timeout, 50*time.Millisecond, longest) },
		"balance":        func(v value) bool { return v.boolean(&p.Balance) },
		"price_per_1000": func(v value) bool { return readPrices(v, &p.Price) },
	}
	maps.Copy(known, p.callbackKeys())
	var ok bool
	p.given, ok = v.section(known, nil)
	if p.given.bad("name") {
		p.Name = ""
	}
	if ok {
		p.rules()
	}
	return p
}

// rules checks what concerns several keys of one entry.
func (p *rawProvider) rules() {
	g := p.given
	p.missing(g, "name")
	switch {
	case g.bad("api"):
	case p.simulated():
		for _, name := range []string{"profile", "url", "key", "balance"} {
			if g.has(name) {
				p.r.warn(g[name].line, "%s.%s: is not used with api: simulated", p.path, name)
			}
		}
		p.URL, p.Key, p.Profile, p.Balance = "", "", "generic", false
	default:
		p.missing(g, "url", "key")
		if p.PollInterval > 0 && p.PollInterval < time.Second {
			p.r.warn(g["poll_interval"].line, "%s.poll_interval: services ask for seconds between two polls and ban who polls faster", p.path)
		}
	}
	if !g.bad("timeout", "first_poll") && p.Timeout <= p.FirstPoll {
		name := "timeout"
		if !g.has(name) {
			name = "first_poll"
		}
		p.at(g, name).fail("timeout must be above first_poll, or every task is given up unseen (timeout is %s unless set)", short(defaultTimeout))
	}
	p.callbackRules()
}

// providerURL reads a base address. No message quotes it.
func (r *reader) providerURL(v value, dst *string) bool {
	if !v.required(dst) {
		return false
	}
	u, rule := baseURL(*dst)
	switch {
	case rule != "":
		return v.fail("%s", rule)
	case u.User != nil:
		return v.fail("must not hold a user and password: the account's key goes under key")
	case strings.ContainsAny(*dst, "?#"): // also an empty one, which the parser drops
		return v.fail("must not hold a ? or #: keys and parameters are sent in the body")
	case slices.Contains([]string{"in.php", "res.php", "createTask", "getTaskResult"}, u.Path[strings.LastIndexByte(u.Path, '/')+1:]):
		return v.fail("must be the base address, without in.php, createTask and the like")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		r.warn(v.line, "%s: http sends the account's key unencrypted: use https", v.path)
	}
	*dst = strings.TrimRight(*dst, "/")
	return true
}

// baseURL takes a web address apart, or says what is wrong with it.
func baseURL(address string) (u *url.URL, rule string) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, "must be an http:// or https:// address with a host"
	}
	return u, ""
}

// simulatedRules keeps worthless tokens away from real ones.
func (r *reader) simulatedRules(all []rawProvider, embedded bool) {
	first := 0
	for i := range all {
		p := &all[i]
		switch {
		case !p.simulated() || p.given.bad("api"):
		case first > 0:
			p.at(p.given, "api").fail("a second simulated provider: the one in line %d is enough", first)
		case !embedded && len(all) > 1:
			p.at(p.given, "api").fail("with redis.url other than embedded a simulated provider must be the only one listed, " +
				"or its worthless tokens would mix with real ones: remove this entry")
		default:
			first = p.line
		}
	}
}

// choose fills the Set with the providers that can be used: real ones with a
// key, else the simulated one that is listed, else, for an embedded Redis, the
// built-in one.
func (r *reader) choose(v value, all []rawProvider, set *Set) {
	var listed *rawProvider
	var unset []string
	for i := range all {
		p := &all[i]
		switch {
		case p.simulated():
			listed = p
		case p.Key == "":
			r.warn(p.given["key"].line, "%s: the key is empty, so this provider is left out%s", p.path, remedy(p.names))
			unset = append(unset, p.names...)
		default:
			set.Providers = append(set.Providers, p.Provider)
		}
	}
	switch {
	case len(set.Providers) > 0:
		if listed != nil {
			r.warn(listed.line, "%s: is not used, because a real provider has a key", listed.path)
		}
	case listed != nil:
		set.Providers = []Provider{listed.Provider}
		r.warn(listed.line, "%s: tokens are simulated; no site accepts them", listed.path)
	case set.Redis.Embedded():
		set.Providers = []Provider{builtIn(v.line)}
		r.warn(v.line, "providers: none can be used, so the simulated one inside the daemon is: no site accepts its tokens%s", remedy(unset))
	default:
		v.fail("none can be used, and with redis.url other than embedded nothing is simulated unasked: %s", noProviderRemedy(unset))
	}
}

func noProviderRemedy(unset []string) string {
	if len(unset) > 0 {
		return "set " + orList(unset)
	}
	return "give one of them a key"
}

// builtIn is the provider that serves where nothing else can; it is as if it were
// listed with its name and api alone.
func builtIn(line int) Provider {
	return Provider{
		Name: "simulated", API: APISimulated, Profile: "generic", Concurrency: defaultConcurrency,
		Timeout: defaultTimeout, CallbackDelay: defaultCallbackDelay, Line: line,
	}
}

// checkProxy says what is wrong with a proxy, without showing it: it may hold a
// password.
func checkProxy(proxy captcha.Secret) string {
	const form = "must be host:port or user:password@host:port"
	text := proxy.Reveal()
	if strings.Contains(text, "://") {
		return form + ": what stands before :// goes under proxy_type"
	}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		if user, _, ok := strings.Cut(text[:at], ":"); !ok || user == "" {
			return form
		}
		text = text[at+1:]
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || CheckListen(net.JoinHostPort(host, port), 1) != nil || strings.Trim(port, "0") == "" {
		return form
	}
	return ""
}

// unusual warns of combinations that are allowed and rarely meant.
func (r *reader) unusual(set *Set) {
	real := slices.ContainsFunc(set.Providers, func(p Provider) bool { return p.API != APISimulated })
	if real && set.Redis.Embedded() {
		r.warn(set.lines.redis, "redis.url: the embedded Redis keeps nothing over a restart, and tokens are paid for: give the address of a real one")
	}
	captchaAI := slices.ContainsFunc(set.Providers, func(p Provider) bool { return p.Profile == profileCaptchaAI })
	for _, t := range set.Targets {
		path := "targets." + t.Name
		if t.Identity.Type == captcha.HCaptcha && captchaAI {
			r.warn(t.Line, "%s.type: captchaai does not list hcaptcha among what it solves", path)
		}
		if usual := builtInLife(t.Identity.Type); t.Lifetime > usual.lifetime {
			r.warn(t.Line, "%s.lifetime: is unusually long: %s tokens are dead after %s", path, t.Identity.Type, short(usual.lifetime))
		}
		if t.Depth == 0 {
			r.warn(t.Line, "%s.depth: 0 keeps nothing ready: a token is bought only once a caller waits for it", path)
		}
	}
}
