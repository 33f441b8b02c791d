package targets

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the container image has no time zone files

	"github.com/robfig/cron/v3"

	"poold/internal/captcha"
)

const (
	// MostDepth is the maximum number of tokens that a target can keep, also in a warm window.
	MostDepth = 10000
	// DefaultHitRate is the default of hit_rate.
	DefaultHitRate = 0.97
	// DefaultMissCost is the default of miss_cost.
	DefaultMissCost = 3.0
	// MostMissCost is the maximum value of miss_cost.
	MostMissCost = 1000

	mostWindows = 20
)

var targetName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// defaults is the section defaults. It has the keys of a target except keys that targets cannot share.
type defaults Target

func (*defaults) refuse(key string) string {
	shared := slices.Contains([]string{"user_agent", "proxy", "proxy_type"}, key)
	own := key == "type" || key == "simulated_only" || typesWith[key] != nil && !shared
	return first(check{requestOnly(key) != "", requestOnly(key)},
		check{own, "belongs in each target, not in the defaults"})
}

func (d *defaults) validate(at *setting) { (*Target)(d).checkValues(at) }

// refuse explains why a target cannot have a key that belongs to an unpoolable type.
func (*Target) refuse(key string) string { return requestOnly(key) }

// checkValues checks the keys that targets and defaults share, each by itself.
func (t *Target) checkValues(at *setting) {
	at.rule(len(t.Warm) <= mostWindows || !at.has("warm"), "warm", "must be at most %d windows, not %d", mostWindows,
		len(t.Warm))
	checkIdentity(at, &t.Identity)
}

// validate checks a target. If only keys outside the identity are invalid, it sets the ID, so that
// the target is still compared with other targets.
func (t *Target) validate(at *setting) {
	t.checkValues(at)
	t.Withheld = t.SimulatedOnly && !at.r.set.Simulated()
	kind := t.Identity.Type
	if reason := unpoolable(string(kind)); reason != "" {
		at.check("type", reason) // which also explains why other keys are missing
	} else {
		at.at("type").oneOf(WordsOf(captcha.Types()))
		at.require("type", "sitekey", "pageurl")
	}
	at.rule(at.given("owner"), "owner",
		"is missing: name the person or team responsible for this target, here or under defaults")
	if at.has("type") && at.ok("type") {
		checkType(at, kind)
		// The target's own values have precedence over the defaults, and the defaults over the type.
		lifetime, margin := at.r.set.Life(kind)
		t.Lifetime = cmp.Or(t.Lifetime, lifetime)
		if !at.given("margin") { // a margin of 0s is valid
			t.Margin = margin
		}
		checkMargin(at, t.Lifetime, t.Margin)
	}
	t.checkRefill(at)
	odd := OddSitekey(kind, t.Identity.Sitekey)
	at.warnIf(odd != "" && at.ok("type"), "sitekey", "%s", odd)
	if kind == captcha.RecaptchaV3 && !at.has("action") {
		at.child("action").warn("is missing: without the action of the page, the site may refuse the tokens of recaptcha_v3")
	}
	if at.has("type") && at.has("sitekey") && at.has("pageurl") && at.ok("type") && at.ok(identityKeys...) {
		t.ID = t.Identity.ID()
	}
}

// OddSitekey returns why a site key is probably wrong, or "". It accepts the short site keys of tests and examples.
func OddSitekey(t captcha.Type, key string) string {
	google, cloudflare := strings.HasPrefix(key, "6L"), cloudflareKey.MatchString(key)
	return first(
		check{strings.ContainsAny(key, `"'=<>$`), "holds more than the key: give only the value of data-sitekey, or ${NAME}"},
		check{google && t != captcha.RecaptchaV2 && t != captcha.RecaptchaV3,
			fmt.Sprintf("looks like a key of reCAPTCHA, not of %s", t)},
		check{cloudflare && t != captcha.Turnstile, fmt.Sprintf("looks like a key of turnstile, not of %s", t)},
		check{uuid.MatchString(key) && t != captcha.HCaptcha, fmt.Sprintf("looks like a key of hcaptcha, not of %s", t)},
		check{google && len(key) != 40,
			fmt.Sprintf("has %d characters, but a key of reCAPTCHA has 40: copy all of them", len(key))},
	)
}

var (
	cloudflareKey = regexp.MustCompile(`^[0-3]x[0-9A-Za-z_-]+`)
	uuid          = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

func checkMargin(at *setting, lifetime, margin time.Duration) {
	if margin >= lifetime && at.ok("lifetime", "margin") {
		at.at("margin", "lifetime").fail(
			"the margin must be below the lifetime, or no token is ever handed out " +
				"(built in: 40s of 120s, for turnstile 50s of 300s)")
	}
}

// life has the lifetime and the margin of the tokens of a type.
type life struct {
	// A token expires this long after it was solved. 1s to 24h.
	Lifetime time.Duration `yaml:"lifetime" range:"1s to 24h"`
	// A token is not handed out in this last part of its lifetime; below the lifetime. 0s to 24h.
	Margin time.Duration `yaml:"margin" range:"0s to 24h"`
}

func (l *life) validate(at *setting) { checkMargin(at, l.Lifetime, l.Margin) }

// lifetimes is the section types of pools.yaml.
type lifetimes map[captcha.Type]life

// decode reads the lives of types. A type whose life is invalid keeps the built-in one, so that its targets do not
// report the same problem again.
func (l *lifetimes) decode(at *setting) {
	*l = lifetimes{}
	at.entries(WordsOf(captcha.Types()), unpoolable, func(i int, item *setting) {
		t := captcha.Types()[i]
		one := builtInLife(t)
		if item.decode(reflect.ValueOf(&one).Elem()); !item.bad {
			(*l)[t] = one
		}
	})
}

func builtInLife(t captcha.Type) life {
	k := captcha.Of(t)
	return life{k.Lifetime, k.Margin}
}

// Life returns the lifetime and the margin of the tokens of a type, from the section `types` or
// else from the built-in values. A target may override both. Types that cannot be pooled always
// have a lifetime of 120 s and a margin of 40 s.
func (s *Set) Life(t captcha.Type) (lifetime, margin time.Duration) {
	l, set := s.lifetimes[t]
	if !set {
		l = builtInLife(t)
	}
	return l.Lifetime, l.Margin
}

// unpoolable explains why a type, or a key of such a type, cannot stand in a target. It returns "" for
// others.
func unpoolable(t string) string {
	if k := captcha.Of(captcha.Type(t)); k.Type == "" || k.Poolable {
		return ""
	}
	return fmt.Sprintf("cannot be pooled: each token of %s is made for one visit of the page or one picture; "+
		"request it with POST /solve", t)
}

// requestOnly returns why a key of the identity cannot be in the file, or "".
func requestOnly(key string) string {
	key = strings.ReplaceAll(key, "-", "_") // pages write data-s
	of := typesWith[key]
	poolable := slices.ContainsFunc(of, func(t captcha.Type) bool { return captcha.Of(t).Poolable })
	if of == nil || poolable && !captcha.IsOfVisit(key) {
		return ""
	}
	return "cannot be pooled: it is made for one visit of the page or one picture; send it with POST /solve"
}

var (
	// identityKeys lists the keys of an identity, except its type.
	identityKeys = append([]string{"image"}, captcha.Keys()...)
	// typesWith has the types to which a key of an identity belongs.
	typesWith = func() map[string][]captcha.Type {
		all := map[string][]captcha.Type{"image": {captcha.Image}}
		for _, key := range captcha.Keys() {
			all[key] = captcha.TypesWith(key)
		}
		return all
	}()
)

// checkType refuses keys that do not belong to the type of the identity. A service would ignore such
// keys, but they would change the identity, and the target would get a separate stock. In a request,
// checkType also reports keys that the type needs and the request lacks.
func checkType(at *setting, t captcha.Type) {
	for _, key := range identityKeys {
		switch has, belongs := at.has(key), slices.Contains(typesWith[key], t); {
		case has && !belongs:
			at.at(key).fail("belongs to %s, not to %s: remove it", orList(typesWith[key]), t)
		case has || !belongs || !at.r.request:
		case key == "image" && !at.r.hasImage || slices.Contains(captcha.Of(t).Must(), key):
			at.child(key).fail("is missing: %s needs it", t)
		}
	}
}

// checkIdentity checks the addresses of an identity, and that a proxy has a type. An empty proxy, for instance
// from an unset variable, removes the proxy of the defaults.
func checkIdentity(at *setting, id *captcha.Identity) {
	at.check("pageurl", addressFault(id.Pageurl, "must not hold a user and password", ""))
	at.check("proxy", proxyFault(id.Proxy))
	at.rule(id.Proxy == "" || at.given("proxy_type"), "proxy", "needs proxy_type: http, https, socks4 or socks5")
	at.rule(!at.has("proxy_type") || at.given("proxy"), "proxy_type", "needs proxy: remove it, or give host:port")
	if id.Proxy == "" {
		id.ProxyType = ""
	}
}

// proxyFault returns the rule that the address of a proxy violates. It does not quote the address,
// because it may contain a password.
func proxyFault(address captcha.Secret) string {
	const form = "must be host:port or user:password@host:port"
	_, ok := captcha.SplitProxy(address)
	return first(
		check{strings.Contains(address.Reveal(), "://"), form + ": the scheme before :// belongs under proxy_type"},
		check{!ok && address != "", form},
	)
}

// checkRefill checks the rules between the keys that control the refill of a target.
func (t *Target) checkRefill(at *setting) {
	if at.ok("refill") && t.Refill == RefillFixed {
		// The keys of `defaults` are not checked: other targets may be adaptive.
		for _, name := range []string{"min", "hit_rate", "miss_cost"} {
			at.check(name, "belongs to refill: adaptive: remove it, or set refill")
		}
		t.Min = 0
	}
	if at.ok("refill", "min", "depth") && t.Min > t.Depth {
		at.at("min", "depth").fail("min must not exceed depth (%d of %d), which limits the tokens kept", t.Min, t.Depth)
	}
}

func (w *Warm) validate(at *setting) {
	at.require("cron", "tokens", "for")
	_, err := schedule(w.Cron)
	if err != nil && at.has("cron") && at.ok("cron") {
		item := at.at("cron")
		rule := `must be five fields (minute hour day month weekday) such as "55 8 * * 1-5", or @daily and its like` +
			item.not()
		if len(item.names) == 0 && len(w.Cron) <= maxQuoted && isPrintable(w.Cron, ' ') {
			rule += ": " + err.Error() // quotes the text
		}
		item.fail("%s", rule)
	}
}

// Next returns the start and the end, in UTC, of the first window that ends after t. The window may
// start before t. If windows overlap, Next returns the earliest one. If none comes within
// five years, both times are before t.
func (w Warm) Next(t time.Time) (from, until time.Time) {
	if times, err := schedule(w.Cron); err == nil {
		from = times.Next(t.UTC().Add(-w.For))
	}
	return from, from.Add(w.For)
}

// schedule parses a cron expression. Its times are in UTC unless it begins with CRON_TZ=ZONE. The
// zone of the machine is never used.
func schedule(text string) (*cron.SpecSchedule, error) {
	zone, fields := "UTC", text
	if rest, ok := strings.CutPrefix(text, "CRON_TZ="); ok {
		zone, fields, _ = strings.Cut(rest, " ")
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "" || zone == "Local" {
		return nil, errors.New("CRON_TZ= must name a time zone such as Europe/Berlin")
	}
	parsed, err := cron.ParseStandard("CRON_TZ=" + zone + " " + strings.ToLower(fields))
	if err != nil {
		return nil, err
	}
	times, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("@every has no fixed begin")
	}
	if times.Next(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("this day never occurs")
	}
	return times, nil
}
