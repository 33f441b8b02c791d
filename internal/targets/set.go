package targets

import (
	"crypto/tls"
	"time"

	"poold/internal/captcha"
)

// Set is the content of a valid pools.yaml. Defaults are applied and references are replaced. A Set
// from Parse is immutable.
//
// The struct tags describe the keys (see tags.go). Providers contains only the usable providers.
// Budget is the overall budget, and its PerHour is 0. Solve is nil if only tokens for the
// identities of targets may be bought. Targets are sorted by name. ProvidersPolicy applies to tokens for
// other identities than those of targets; each target has its own.
type Set struct {
	Server          Server          // the section server
	Redis           Redis           `key:"redis" doc:"The store of the tokens. Every change needs a restart."`
	Providers       []Provider      `key:"providers" doc:"The solving services, in the order in which they are tried, unless providers_policy says otherwise. A provider with an empty key is left out. If none remains and Redis is embedded, a simulated provider serves."`
	ProvidersPolicy ProvidersPolicy `key:"providers_policy" words:"ordered cheapest best" default:"ordered" doc:"How an order gets its provider. ordered: the first in the file that is up; cheapest: the lowest price; best: the lowest expected cost per accepted token, as learned from orders, reports and lead times. Also per target."`
	Budget          Budget          `key:"budget" view:"total" doc:"Limits the solves that are bought for all targets and POST /solve together."`
	Solve           *Solve          `key:"solve" doc:"What POST /solve may buy beyond the identities of targets. Without this section: nothing."`
	Dedup           Dedup           `key:"dedup" doc:"The store in which equal requests to POST /solve with 'dedup: identity' find each other. Needs a restart, except for the password in url."`
	History         History         `key:"history" doc:"The store of the history: how orders ended and who took their tokens. Needs a restart, except for the password in url."`
	Currency        Currency        `key:"currency" as:"currency" default:"" doc:"The code (ISO 4217, such as USD) or the sign (such as $) that is shown with amounts of money. Empty: none."`
	DeadLetters     string          // folder for callbacks that Redis did not store; never ""; a change needs a restart
	Targets         []Target        `key:"targets" must:"yes" view:"target" names:"[a-z0-9][a-z0-9._-]{0,62}" want:"a target's name is 1 to 63 of a-z, 0-9, ., _ and -, beginning with a letter or digit" doc:"The stocks to keep ready. The name appears in the URL, GET /pool/NAME/token."`
	Warnings        []Problem       // allowed but unusual settings, and entries without a key that were omitted
	Digest          string          // SHA-256 of the bytes of the file, in hex; independent of the environment

	lifetimes map[captcha.Type]life // lifetimes and margins of the poolable types; read-only
	lines     map[string]int        // lines of the settings that need a restart; see lastingSettings

	listenGiven bool // whether --listen or POOLD_LISTEN set the listen address
}

// file has the keys of pools.yaml before the rules are applied.
type file struct {
	Set      `inline:"yes"`
	Listener serverSection `key:"server" doc:"Where the daemon listens, and who may call it."`
	Letters  struct {
		Dir string `key:"dir" as:"filled" default:"./dead-letters" doc:"The directory; it holds live tokens."`
	} `key:"dead_letters" doc:"The store of callbacks that arrived while Redis was away. Needs a restart."`
	Types    lifetimes `key:"types" view:"types" doc:"How long tokens live, by type, instead of the built-in values."`
	Defaults Target    `key:"defaults" view:"defaults" doc:"The values that targets inherit."`
}

// Simulated reports whether the daemon buys from its built-in simulated provider.
func (s *Set) Simulated() bool {
	return len(s.Providers) == 1 && s.Providers[0].API == APISimulated
}

// Demo reports whether the daemon uses no external service: Redis is embedded and the provider is
// simulated.
func (s *Set) Demo() bool { return s.Redis.Embedded() && s.Simulated() }

// Server is the section server. A reload applies all its keys except Listen, and except that TLS is
// switched on or off.
// CallbackSecrets are different, non-empty texts of printable ASCII.
type Server struct {
	Listen          string           `key:"listen" as:"filled" default:"127.0.0.1:8080" doc:"host:port to listen on; --listen and POOLD_LISTEN take precedence. Without a usable key only loopback addresses are allowed. Needs a restart."`
	TLS             TLS              `key:"tls" doc:"Certificate and key, both or neither. A changed file is read again; switching TLS on or off needs a restart. Default: plain HTTP."`
	Keys            []Key            // the entries with a key, in the order of the file; if there are none, callers need no key
	Connections     int              `key:"connections" range:"1 1000000" default:"4096" doc:"The most open connections of callers; further ones are closed at once."`
	CallbackSecrets []captcha.Secret `key:"callback_secrets" doc:"Secrets that sign the callback addresses of providers: the first signs, all verify; at least 16 characters each. Default: derived from each provider's key."`
}

// TLS contains the paths of the certificate file and of its key file. Either both paths are set or
// neither is.
type TLS struct {
	Cert string `key:"cert" doc:"File with the certificate chain."`
	Key  string `key:"key" doc:"File with the key of the certificate."`

	Certificate *tls.Certificate // the content of the files; nil = no TLS, or Parse did not read the files
}

// serverSection has the keys of the section server before the rules apply.
type serverSection struct {
	Server  `inline:"yes"`
	Entries []keyEntry `key:"keys" doc:"Who may call. Without an entry whose key is not empty, callers on this machine need no key."`
}

// Scope is one right of a server key.
type Scope string

// The scopes, which docs/api.md describes.
const (
	ScopeToken  Scope = "token"
	ScopeSolve  Scope = "solve"
	ScopeStatus Scope = "status"
	ScopeAdmin  Scope = "admin"
)

// Key describes one caller of the HTTP API. Names and hashes are unique in a Set. Targets are
// patterns in the syntax of path.Match.
type Key struct {
	Name    string   `key:"name" must:"yes" form:"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}" want:"1 to 63 letters, digits, ., _, @ and -, beginning with a letter or digit" doc:"The caller's name in the log. Several entries with the same name, scopes, targets and rate are several keys of one caller."`
	SHA256  [32]byte // hash of the key; never the hash of ""; the key is not stored
	Scopes  []Scope  `key:"scopes" must:"yes" set:"yes" words:"token solve status admin" doc:"What the caller may do. token: take tokens and report on them; solve: POST /solve, and on_empty: solve; status: read; admin: pause, resume, flush, reload, dead letters."`
	Targets []string `key:"targets" set:"yes" as:"glob" doc:"Names or patterns of the targets that this key may use. Default: all."`
	Rate    Rate     `key:"rate" doc:"Most requests, such as 50/s, 30/m or 500/h, for each replica. Default: no limit."`
}

// keyEntry has the keys of one entry of server.keys before the rules apply.
type keyEntry struct {
	Key    `inline:"yes"`
	Bearer captcha.Secret `key:"key" doc:"What the caller sends as 'Authorization: Bearer'; at least 8 characters, better 16 or more. Either this or key_sha256."`
	Hash   captcha.Secret `key:"key_sha256" doc:"The SHA-256 of the key as 64 hex digits, instead of the key."`
}

// Redis is the section redis. A change of this section needs a restart, except of the password.
type Redis struct {
	URL            captcha.Secret `key:"url" as:"redis" default:"embedded" doc:"embedded (inside the daemon, keeps nothing), redis://, rediss:// or unix://; several addresses, separated by commas, are a cluster."`
	SentinelMaster string         `key:"sentinel_master" doc:"The master's name, if the addresses are addresses of sentinels."`

	// Prefix must not contain braces. Braces would override the hash tags that keep the keys of an
	// identity in one slot of a cluster.
	Prefix string `key:"prefix" form:"[A-Za-z0-9][A-Za-z0-9._:-]{0,62}" want:"1 to 63 letters, digits, ., _, : and -, beginning with a letter or digit" default:"captcha" doc:"First part of every key in Redis."`
}

// Embedded reports whether the daemon must run Redis inside its own process.
func (r Redis) Embedded() bool { return r.URL == "embedded" }

// API is the protocol of a provider.
type API string

// The protocols.
const (
	APILegacy    API = "legacy"    // in.php and res.php
	APITasks     API = "tasks"     // createTask and getTaskResult
	APISimulated API = "simulated" // the built-in provider; no site accepts its tokens
)

// Provider is one entry of the section providers. A reload applies all its fields. Providers can be
// compared with ==. Names are unique, and URLs have no final slash. A simulated provider is the
// only provider of a Set and has an empty URL and Key. If FirstPoll, PollInterval or FallbackAfter
// is zero, the default in the doc tag applies.
type Provider struct {
	Name         string         `key:"name" must:"yes" form:"[a-z0-9][a-z0-9-]{0,30}" want:"1 to 31 of a-z, 0-9 and -, beginning with a letter or digit" doc:"A name of your choice."`
	API          API            `key:"api" words:"legacy tasks simulated" default:"legacy" doc:"The protocol: legacy (in.php and res.php), tasks (createTask), or simulated, whose tokens no site accepts."`
	Profile      string         `key:"profile" words:"captchaai 2captcha generic poold" default:"generic" doc:"What the service's error codes mean."`
	URL          string         `key:"url" as:"provider" doc:"Base address of the service, without in.php. Required, except for simulated."`
	Key          captcha.Secret `key:"key" doc:"The account's key. Required, except for simulated; a provider with an empty key is left out."`
	Concurrency  int            `key:"concurrency" range:"1 10000" default:"20" doc:"Most tasks at once, over all targets and replicas. If the service reports its threads, the smaller number applies."`
	FirstPoll    time.Duration  `key:"first_poll" range:"50ms 24h" doc:"Time from a submit to the first poll. Default: by type."`
	PollInterval time.Duration  `key:"poll_interval" range:"50ms 24h" doc:"Time between the next polls. Default: by type."`
	Timeout      time.Duration  `key:"timeout" range:"50ms 24h" default:"3m" doc:"A task older than this is abandoned; must exceed first_poll."`
	Balance      bool           `key:"balance" default:"false" doc:"Whether the account's balance is read, at most once a minute."`

	CallbackURL   string        `key:"callback_url" as:"callback" default:"" doc:"Where the service reaches this daemon from outside, without /callback. Empty: polling only."`
	FallbackAfter time.Duration `key:"fallback_after" range:"0s 24h" doc:"Poll a task that had no callback for this long, at least 50ms and below timeout. Default: the least of 120s, half the timeout and half the tokens' usable life."`
	CallbackDelay time.Duration `key:"callback_delay" range:"0s 24h" default:"10s" doc:"Assumed age of a token when its callback first arrives."`
	Price         Prices        `key:"price_per_1000" doc:"What 1000 solves cost, for the spend figures and providers_policy: one number, or numbers by type. 0 is free. Without a number the price and the spend are unknown."`

	Line int // line of the entry in the file
}

// solvesPerPrice is the number of solves to which the prices in the file refer.
const solvesPerPrice = 1000

// Prices has the price of 1000 solves for each type of CAPTCHA.
type Prices struct {
	RecaptchaV2 Price `key:"recaptcha_v2" range:"0 1000000" doc:"What 1000 solves of this type cost; 0 is free."`
	RecaptchaV3 Price `key:"recaptcha_v3" range:"0 1000000" doc:"What 1000 solves of this type cost; 0 is free."`
	HCaptcha    Price `key:"hcaptcha" range:"0 1000000" doc:"What 1000 solves of this type cost; 0 is free."`
	Turnstile   Price `key:"turnstile" range:"0 1000000" doc:"What 1000 solves of this type cost; 0 is free."`
	GeeTest     Price `key:"geetest" range:"0 1000000" doc:"What 1000 solves of this type cost; 0 is free."`
	GeeTestV4   Price `key:"geetest_v4" range:"0 1000000" doc:"What 1000 solves of this type cost; 0 is free."`
	Image       Price `key:"image" range:"0 1000000" doc:"What 1000 solves of this type cost; 0 is free."`
}

// Price is the price of 1000 solves of one type. The zero value is an unknown price.
type Price struct {
	Known   bool    // whether the file states the price
	Per1000 float64 // 0 to 1000000, in the account's currency; 0 = free if Known
}

// Costs returns a known price for 1000 solves.
func Costs(per1000 float64) Price { return Price{Known: true, Per1000: per1000} }

// For returns the price of one solve of a type, or 0 if the price is unknown.
func (p Prices) For(t captcha.Type) float64 {
	if per := p.priceOf(t); per != nil {
		return per.Per1000 / solvesPerPrice
	}
	return 0
}

// Known reports whether the file states a price for the type.
func (p Prices) Known(t captcha.Type) bool {
	per := p.priceOf(t)
	return per != nil && per.Known
}

// priceOf returns the price for a type of CAPTCHA, or nil for an unknown type.
func (p *Prices) priceOf(t captcha.Type) *Price {
	return map[captcha.Type]*Price{
		captcha.RecaptchaV2: &p.RecaptchaV2, captcha.RecaptchaV3: &p.RecaptchaV3, captcha.HCaptcha: &p.HCaptcha, captcha.Turnstile: &p.Turnstile,
		captcha.GeeTest: &p.GeeTest, captcha.GeeTestV4: &p.GeeTestV4, captcha.Image: &p.Image,
	}[t]
}

// Budget limits the number of solves that are bought. A limit of 0 means no limit. If PerHour is
// higher than PerDay, PerDay limits the hour too.
type Budget struct {
	PerHour int `key:"per_hour" not:"total" range:"0 1000000" default:"0" doc:"Limit for the last 60 minutes; 0 means no limit."`
	PerDay  int `key:"per_day" range:"0 1000000" default:"0" doc:"Limit for the last 24 hours; 0 means no limit."`
}

// Rate limits the number of events per period; the zero value means no limit.
type Rate struct {
	Count float64
	Per   time.Duration
}

// PerSecond returns the rate in events per second, or 0 if there is no limit.
func (r Rate) PerSecond() float64 {
	if r.Per <= 0 {
		return 0
	}
	return r.Count / r.Per.Seconds()
}

// OnEmpty says how a request without ?wait= is answered if no token is ready.
type OnEmpty string

// The values of `on_empty`.
const (
	OnEmptyFail  OnEmpty = "fail"  // the response is 503 at once
	OnEmptyWait  OnEmpty = "wait"  // the caller waits, as with ?wait=20s
	OnEmptySolve OnEmpty = "solve" // a token is bought for the caller; for a key without ScopeSolve this is the same as fail
)

// Refill is the policy that decides how many tokens of a target are kept.
type Refill string

// The values of `refill`.
const (
	RefillFixed    Refill = "fixed"    // poold keeps as many tokens as the depth says
	RefillAdaptive Refill = "adaptive" // the number of kept tokens follows the demand
)

// Target is one wanted stock of tokens, or the section defaults. A reload applies all its fields.
// The stock belongs to the Identity: a new Identity gets a new stock, and a new Name keeps the
// stock. Targets can be compared with reflect.DeepEqual. Name and Identity are unique, Owner is
// never "", ProvidersPolicy is never "", and Min is 0 if Refill is fixed. Warm is read-only, because targets share it.
type Target struct {
	Name     string           // unique in a Set
	Identity captcha.Identity `inline:"yes"`
	ID       captcha.ID       // Identity.ID(), computed once
	Depth    int              `key:"depth" range:"0 10000" default:"5" doc:"How many tokens are kept fresh; with refill: adaptive the most tokens kept and on order."`
	Refill   Refill           `key:"refill" words:"fixed adaptive" default:"fixed" doc:"fixed: keeps the depth at all times; adaptive: learns the demand and buys accordingly."`
	Min      int              `key:"min" range:"0 10000" default:"0" doc:"Adaptive: how many tokens are kept without any request, at most depth."`
	HitRate  float64          `key:"hit_rate" range:"0.5 0.9999" default:"0.97" doc:"Adaptive: wanted share of requests that find a token."`
	MaxWaste float64          `key:"max_waste" range:"0.1 1000" default:"3" doc:"Adaptive: how many spare tokens you would spend to save one caller a wait."`

	ProvidersPolicy ProvidersPolicy `key:"providers_policy" words:"ordered cheapest best" doc:"How an order gets its provider. Default: the providers_policy at the top level of the file."`

	IdleAfter time.Duration `key:"idle_after" range:"0s 24h" default:"0s" doc:"After this time without a request nothing is bought; adaptive keeps min. 0s means never."`
	Warm      []Warm        `key:"warm" max:"20" doc:"Windows in which a minimum of tokens is kept ready. The list of a target replaces the list of the defaults; [] means none."`

	Lifetime time.Duration `key:"lifetime" range:"1s 24h" doc:"A token expires this long after it was solved. Default: by type."`
	Margin   time.Duration `key:"margin" range:"0s 24h" doc:"A token is not handed out in this last part of its lifetime; below the lifetime. Default: by type."`
	OnEmpty  OnEmpty       `key:"on_empty" words:"fail wait solve" default:"fail" doc:"The answer to a request without ?wait= if no token is ready: fail (503 at once), wait (as ?wait=20s) or solve (one is bought for it, up to 60s; for a key without the scope solve, fail)."`
	Rate     Rate          `key:"rate" doc:"Most tokens handed out, such as 20/s, 30/m or 500/h, over all replicas. Default: no limit."`
	Budget   Budget        `key:"budget" doc:"Limits the solves that are bought for a target. A target that sets one limit inherits the other from the defaults."`
	Owner    string        `key:"owner" as:"filled" doc:"The person or team responsible for the target; required, here or in the defaults."`
	Paused   bool          `key:"paused" default:"false" doc:"true: buys nothing; tokens in stock are still handed out."`
	Line     int           // line of the entry in the file

	SimulatedOnly bool `key:"simulated_only" not:"defaults" default:"false" doc:"true: the target buys only from a simulated provider; while the providers are real services, nothing is bought. For examples whose page is not yours."`
	Withheld      bool // SimulatedOnly is set, and the providers are real services
}

// Halted returns why the file forbids all purchases for the target, or "" if it allows them.
func (t Target) Halted() string {
	switch {
	case t.Paused:
		return "paused in the configuration file"
	case t.Withheld:
		return "`simulated_only: true` in the configuration file forbids purchases from a real provider"
	}
	return ""
}

// Usable returns how long a token of this target can be handed out.
func (t Target) Usable() time.Duration { return t.Lifetime - t.Margin }
