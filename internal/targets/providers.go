package targets

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"poold/internal/captcha"
)

// Protocol is the protocol of a provider.
type Protocol string

// The protocols.
const (
	ProtocolInPHP      Protocol = "in_php"      // in.php and res.php
	ProtocolCreateTask Protocol = "create_task" // createTask and getTaskResult
	ProtocolSimulated  Protocol = "simulated"   // the built-in provider; no site accepts its tokens
)

// Provider is one entry of the section providers. A reload applies all its fields. Providers can be
// compared with ==. Names are unique, and URLs have no final slash. A simulated provider is the
// only provider of a Set and has an empty URL and Key.
type Provider struct {
	// A name of your choice. Without it: the service.
	Name string `yaml:"name" form:"^[a-z0-9][a-z0-9-]{0,30}$ 1 to 31 of a-z, 0-9 and -, beginning with a letter or digit"`
	// The service, whose address, protocol, codes and pace poold knows. One of captchaai, 2captcha, anti-captcha,
	// capmonster, capsolver. Without it: another one, at url.
	Service string `yaml:"service" oneof:"captchaai 2captcha anti-captcha capmonster capsolver"`
	// The protocol: in_php (in.php and res.php), create_task, or simulated, whose tokens no site
	// accepts. One of in_php, create_task, simulated. Without it: the service's, or else in_php.
	Protocol Protocol `yaml:"protocol" oneof:"in_php create_task simulated"`
	// Base address, without in.php; needed without service, except for simulated. Without it: the service's.
	URL string `yaml:"url" nonempty:"true"`
	// The account's key; needed, except for simulated. A provider with an empty key is left out.
	Key captcha.Secret `yaml:"key"`
	// Most tasks at once, over all targets and replicas. If the service reports its threads, the smaller
	// number applies. 1 to 10000. Default: 20.
	Concurrency int `yaml:"concurrency" range:"1 to 10000"`
	// Time from a submit to the first poll. 50ms to 24h. Without it: by type.
	FirstPoll time.Duration `yaml:"first_poll" range:"50ms to 24h"`
	// Time between the next polls. 50ms to 24h. Without it: by type.
	PollInterval time.Duration `yaml:"poll_interval" range:"50ms to 24h"`
	// A task older than this is abandoned; must exceed first_poll. 50ms to 24h. Default: 3m.
	Timeout time.Duration `yaml:"timeout" range:"50ms to 24h"`
	// Whether the account's balance is read, at most once a minute. Without it: true for all services but captchaai,
	// which sells threads.
	Balance bool `yaml:"balance"`
	// The address at which the service reaches this daemon, without /callback. Empty: polling only.
	CallbackURL string `yaml:"callback_url"`
	// Poll a task that had no callback for this long, at least 50ms and below timeout. 0s to 24h. Without it:
	// the least of 120s, half the timeout and half the tokens' usable life.
	FallbackAfter time.Duration `yaml:"fallback_after" range:"0s to 24h"`
	// Assumed age of a token when its callback first arrives. 0s to 24h. Default: 10s.
	CallbackDelay time.Duration `yaml:"callback_delay" range:"0s to 24h"`
	// The price of 1000 solves, for the spend figures and providers_policy: one number, or numbers by type. 0 is
	// free. Without a number the price is unknown.
	Price Prices `yaml:"price_per_1000"`
}

const (
	defaultTimeout = 180 * time.Second
	shortestPoll   = 50 * time.Millisecond
)

func (p *Provider) preset() {
	*p = Provider{Protocol: ProtocolInPHP, Concurrency: 20, Timeout: defaultTimeout, CallbackDelay: 10 * time.Second,
		Price: unknownPrices}
}

// services has the addresses of each service, by protocol.
var services = map[string]map[Protocol]string{
	"captchaai":    {ProtocolInPHP: "https://ocr.captchaai.com"},
	"2captcha":     {ProtocolInPHP: "https://2captcha.com", ProtocolCreateTask: "https://api.2captcha.com"},
	"anti-captcha": {ProtocolCreateTask: "https://api.anti-captcha.com"},
	"capmonster":   {ProtocolCreateTask: "https://api.capmonster.cloud"},
	"capsolver":    {ProtocolCreateTask: "https://api.capsolver.com"},
}

// Services returns the names of the services that poold knows, sorted.
func Services() []string { return slices.Sorted(maps.Keys(services)) }

func (p *Provider) validate(at *setting) {
	if addresses, known := services[p.Service]; known {
		if addresses[p.Protocol] == "" && !at.has("protocol") {
			p.Protocol = ProtocolCreateTask
		}
		at.rule(addresses[p.Protocol] != "", "protocol", "is not spoken by %s: remove this line, or service", p.Service)
		p.Name, p.URL = cmp.Or(p.Name, p.Service), cmp.Or(p.URL, addresses[p.Protocol])
		p.Balance = p.Balance || !at.has("balance") && p.Service != "captchaai"
	}
	at.rule(p.Name != "" || at.has("name") || !at.ok("service"), "name", "is missing")
	if p.Protocol != ProtocolSimulated && at.ok("protocol", "service") {
		at.require("key")
		at.rule(p.URL != "", "url", "is missing: give the address, or service")
	}
	p.checkAddresses(at)
	at.warnIf(p.Protocol != ProtocolSimulated && p.PollInterval < time.Second, "poll_interval",
		"is very short: services require seconds between two polls and ban faster clients")
	if at.ok("timeout", "first_poll") && p.Timeout <= p.FirstPoll {
		at.at("timeout", "first_poll").fail(
			"timeout must exceed first_poll, or every task times out before its first poll (default timeout: 3m)")
	}
	at.rule(p.FallbackAfter <= 0 || p.FallbackAfter >= shortestPoll, "fallback_after",
		"must be at least %s, or 0s for the default", shortestPoll)
	at.rule(p.FallbackAfter < p.Timeout || !at.ok("timeout"), "fallback_after",
		"must be below timeout, or a task whose callback is lost is never polled (default timeout: 3m)")
	if p.Protocol == ProtocolSimulated {
		p.URL, p.Key, p.Balance, p.CallbackURL = "", "", false, ""
	}
}

// checkAddresses checks the addresses of the service and of this daemon, and removes a final slash.
func (p *Provider) checkAddresses(at *setting) {
	at.check("url", addressFault(p.URL, "must not hold a user and password: the account's key goes under key",
		"must not hold a ? or #: keys and parameters are sent in the body"))
	p.URL = strings.TrimRight(p.URL, "/")
	at.rule(!method.MatchString(p.URL), "url", "must be the base address, without in.php, createTask and the like")
	at.warnIf(unencrypted(p.URL), "url", "http sends the account's key unencrypted: use https")
	if m := serviceHost.FindStringSubmatch(p.URL); m != nil && at.ok("service") {
		at.warnIf(p.Service != m[1], "url",
			"is an address of %s: with another service its error codes are misunderstood, so set service: %[1]s", m[1])
	}
	at.warnIf(strings.HasPrefix(p.Key.Reveal(), "$"), "key",
		"begins with a $ and may be meant as a variable: write ${NAME}")
	const callback = "callback_url"
	at.check(callback, addressFault(p.CallbackURL,
		"must not hold a user and password: callbacks carry a signature instead",
		"must not hold a ? or #: the path of a callback is added to it"))
	at.rule(isPrintable(p.CallbackURL, '!'), callback,
		"must be printable ASCII without spaces: write other characters as %%XX")
	p.CallbackURL = strings.TrimRight(p.CallbackURL, "/")
	at.warnIf(unencrypted(p.CallbackURL), callback,
		"http sends tokens and signed callback addresses unencrypted: use https")
	at.warnIf(strings.HasSuffix(p.CallbackURL, "/callback"), callback,
		"poold appends /callback/…: give the base address only, unless a proxy in front removes the first /callback")
}

// addressFault returns the rule that a base address violates, or "". The rule is userRule for an address with a user,
// and queryRule for an address with a query or a fragment. An empty address violates no rule. The rule does not quote
// the address.
func addressFault(address, userRule, queryRule string) string {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return ""
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "must be an http:// or https:// address with a host"
	case u.User != nil:
		return userRule
	case queryRule != "" && strings.ContainsAny(address, "?#"): // this also finds an empty query, which url.Parse drops
		return queryRule
	}
	return ""
}

// serviceHost matches an address of a known service.
var serviceHost = regexp.MustCompile(
	`^https?://(?:[^/]*\.)?(captchaai|2captcha|anti-captcha|capmonster|capsolver)\.(?:com|cloud)(?:[:/]|$)`)

// method matches an address whose last segment is a method of a protocol.
var method = regexp.MustCompile(`/(in\.php|res\.php|createTask|getTaskResult)$`)

// unencrypted reports whether requests to an address leave this machine without encryption.
func unencrypted(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "http" && !IsLoopback(u.Hostname())
}

// Prices has the price of 1000 solves for each type of CAPTCHA, in the order of the table of types and in the account's
// currency; negative = unknown. Values are comparable.
type Prices [len(captcha.Kinds)]float64

// unknownPrices are the prices of a provider without the key price_per_1000.
var unknownPrices = Prices(slices.Repeat([]float64{-1}, len(captcha.Kinds)))

const (
	solvesPerPrice = 1000 // the number of solves to which the prices in the file refer
	priceRange     = `range:"0 to 1000000"`
)

// For returns the price of one solve of a type; negative = unknown.
func (p Prices) For(t captcha.Type) float64 {
	if i := slices.Index(captcha.SolvableTypes(), t); i >= 0 {
		return p[i] / solvesPerPrice
	}
	return -1
}

// decode reads the prices of all types, or one price for all.
func (p *Prices) decode(at *setting) {
	switch at.node.Kind {
	case yaml.MappingNode:
		at.entries(WordsOf(captcha.SolvableTypes()), nil, func(i int, item *setting) {
			item.tag = priceRange
			p[i], _ = item.number("a number")
		})
	case yaml.ScalarNode:
		at.tag = priceRange
		all, _ := at.number("a number")
		*p = Prices(slices.Repeat([]float64{all}, len(p)))
	default:
		at.fail("must be a number, or a mapping of types to numbers such as {turnstile: 1.2}")
	}
}

// checkProviders chooses the usable providers: all with a key, or the only one if it is simulated. If no provider is
// usable and Redis is embedded, it adds a simulated provider inside the daemon. Simulated tokens never mix with real
// ones.
func (s *Set) checkProviders(at *setting) {
	var usable []Provider
	var unset []string
	for i, item := range at.items {
		p, key := s.Providers[i], item.at("key")
		if p.Name != "" && slices.ContainsFunc(s.Providers[:i], func(o Provider) bool { return o.Name == p.Name }) {
			item.fail("has the same name as another provider: names are unique")
		}
		switch {
		case p.Protocol == ProtocolSimulated && len(at.items) > 1:
			item.at("protocol").fail("a simulated provider must be the only one listed, " +
				"or its worthless tokens would mix with real ones: remove this entry")
		case p.Protocol == ProtocolSimulated:
			usable = []Provider{p}
			item.warn("tokens are simulated; no site accepts them")
		case p.Key != "":
			usable = append(usable, p)
		case item.ok("protocol", "key"):
			key.path = item.path
			key.warn("the key is empty, so this provider is left out%s", toSet(key.names))
			unset = append(unset, key.names...)
		}
	}
	switch {
	case at.bad || s.Redis.URL == "" || len(usable) > 0:
	case s.Redis.Embedded():
		usable = make([]Provider, 1)
		usable[0].preset()
		usable[0].Name, usable[0].Protocol = "simulated", ProtocolSimulated
		at.warn("none can be used, so the simulated one inside the daemon is: no site accepts its tokens%s", toSet(unset))
	default:
		at.fail("none can be used, and with redis.url other than embedded no provider is simulated by default%s",
			cmp.Or(toSet(unset), ": give one of them a key"))
	}
	s.Providers = usable
}

// warnUnusual warns about combinations of settings that are allowed, but rarely intended.
func (s *Set) warnUnusual(top *setting) {
	if s.Redis.Embedded() && slices.ContainsFunc(s.Providers,
		func(p Provider) bool { return p.Protocol != ProtocolSimulated }) {
		top.at("redis").at("url").warn(
			"the embedded Redis keeps nothing over a restart, and tokens are paid for: give the address of a real one")
	}
	for _, t := range s.Targets {
		at, kind := top.at("targets").at(t.Name), t.Identity.Type
		if usual := builtInLife(kind); t.Lifetime > usual.Lifetime {
			at.at("lifetime").warn("is unusually long: %s tokens expire after %s", kind, usual.Lifetime)
		}
		// the policy cheapest accepts a price of 0; for the policy best a price of 0 counts as unknown
		priceless := slices.IndexFunc(s.Providers, func(p Provider) bool {
			price := p.Price.For(kind)
			return t.ProvidersPolicy == ProvidersBest && price <= 0 || t.ProvidersPolicy == ProvidersCheapest && price < 0
		})
		if priceless >= 0 && len(s.Providers) > 1 {
			at.at("providers_policy").warn(
				"the prices of all providers count as equal, because %s has no price_per_1000 above 0 for %s",
				s.Providers[priceless].Name, kind)
		}
	}
}
