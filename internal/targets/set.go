package targets

import (
	"crypto/tls"
	"path"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"poold/internal/captcha"
)

// Set is the content of a valid pools.yaml. Defaults are applied and references are replaced. A Set
// from Parse is immutable. Providers contains only the usable providers. Targets are sorted by name.
//
// The doc comments of the keys are also the JSON Schema and docs/reference.md (docs_test.go). The
// phrases "Default: X.", "A to B.", "One of …." and "Required." in them have a meaning there, and
// TestDocsAgreeWithTheCode compares them with the code.
type Set struct {
	// The HTTP API: its address and its callers.
	Server Server `yaml:"server"`
	// The store of the tokens. Every change needs a restart, except of a password in url and of tls.
	Redis Redis `yaml:"redis"`
	// The solving services, in the order in which they are tried, unless providers_policy says otherwise.
	// A provider with an empty key is left out. If none remains and Redis is embedded, a simulated
	// provider serves.
	Providers []Provider `yaml:"providers"`
	// Which provider gets an order. One of ordered, cheapest, best. ordered: the first in the file that is up;
	// cheapest: the lowest price; best: the lowest expected cost per accepted token, as learned from orders
	// and reports. Default: ordered.
	ProvidersPolicy ProvidersPolicy `yaml:"providers_policy" oneof:"ordered cheapest best"`
	// The overall budget; its PerHour is 0.
	Budget Budget `yaml:"budget"`
	// Owners with a budget for all their targets together.
	Owners Owners `yaml:"owners"`
	// The solves that POST /solve may buy beyond the identities of targets. Without this section: none.
	Solve *Solve `yaml:"solve"`
	// The store in which equal requests to POST /solve with 'dedup: identity' find each other. Needs a
	// restart, except for the password in url.
	Dedup Dedup `yaml:"dedup"`
	// The store of the history and the audit. Needs a restart, except for the password in url.
	History History `yaml:"history"`
	// The webhook for events. Without this section: none.
	Notify Notify `yaml:"notify"`
	// Shown with amounts of money: a code of ISO 4217 such as USD, or a sign of at most 3 letters and currency signs
	// such as $. Empty: none.
	Currency Currency `yaml:"currency" form:"^([A-Z]{3}|[\\p{L}\\p{Sc}.]{1,2}|[\\p{L}.]{2}\\p{Sc}|\\p{L}{2}\\.)?$ a code of ISO 4217 such as USD, or a sign of at most 3 letters and currency signs such as $"`

	DeadLetters string    // folder for callbacks that Redis did not store; never ""; a change needs a restart
	Targets     []Target  `yaml:"targets"` // sorted by name
	Warnings    []Problem // allowed but unusual settings, and entries without a key that were omitted
	Digest      string    // SHA-256 of the bytes of the file, in hex; independent of the environment

	lifetimes map[captcha.Type]life // lifetimes and margins of the poolable types; read-only
}

// file has the keys of pools.yaml before the rules are applied. Its fields for the budget and the targets hide the
// Set's fields with the same keys.
type file struct {
	// The stocks to keep ready. The name appears in the URL, GET /pool/NAME/token. Required.
	Targets yaml.Node `yaml:"targets"`
	// Limits the solves that are bought for all targets and POST /solve together.
	Overall overallBudget `yaml:"budget"`
	Set     `yaml:",inline"`
	// The store of callbacks that arrived while Redis was away. Needs a restart.
	Letters deadLetters `yaml:"dead_letters"`
	// The `lifetime` and `margin` of tokens, by type.
	Types lifetimes `yaml:"types"`
	// The values that targets inherit.
	Defaults defaults `yaml:"defaults"`
}

// Server is the section server. A reload applies all its keys except Listen, and except that TLS is
// switched on or off. CallbackSecrets are non-empty texts of printable ASCII.
type Server struct {
	// host:port to listen on; --listen and POOLD_LISTEN take precedence. Without a usable key only loopback
	// addresses are allowed. Needs a restart. Default: 127.0.0.1:8080.
	Listen string `yaml:"listen" nonempty:"true"`
	// Certificate and key, both or neither. A changed file is read again; switching TLS on or off needs a
	// restart. Without them: plain HTTP.
	TLS TLS `yaml:"tls"`
	// The keys of callers. If all are empty, callers on this machine need no key.
	Keys []Key `yaml:"keys"`
	// The most open connections of callers; further ones are closed at once. 1 to 1000000. Default: 4096.
	Connections int `yaml:"connections" range:"1 to 1000000"`
	// Secrets that sign the callback addresses of providers: the first signs, all verify; at least 16
	// characters each. Without them: derived from each provider's key.
	CallbackSecrets []captcha.Secret `yaml:"callback_secrets"`
}

// TLS contains the paths of the certificate file and of its key file. Either both paths are set or
// neither is.
type TLS struct {
	// File with the certificate chain.
	Cert string `yaml:"cert"`
	// File with the key of the certificate.
	Key string `yaml:"key"`

	Certificate *tls.Certificate `yaml:"cert"` // the content of the files; nil = no TLS, or Parse did not read the files
}

// Scope is one right of a server key.
type Scope string

// The scopes; docs/reference.md says what each permits (server.keys).
const (
	ScopeToken  Scope = "token"
	ScopeSolve  Scope = "solve"
	ScopeStatus Scope = "status"
	ScopeAdmin  Scope = "admin"
)

// Key describes one caller of the HTTP API. The hashes SHA256 are unique in a Set. Targets are globs in
// the syntax of path.Match; nil = all targets.
type Key struct {
	// The caller's name. Several entries with the same name, scopes, targets, rate and budget are several keys
	// of one caller. Required.
	Name string `yaml:"name" form:"^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$ 1 to 63 letters, digits, ., _, @ and -, beginning with a letter or digit"`
	// The caller sends this text as 'Authorization: Bearer'; at least 8 characters, better 16 or more. Either
	// this or key_sha256.
	Bearer captcha.Secret `yaml:"key"` // "" in a Set
	// The SHA-256 of the key as 64 hex digits, instead of the key.
	Hash   captcha.Secret `yaml:"key_sha256"` // "" in a Set
	SHA256 [32]byte       `yaml:"key"`        // hash of the key; never the hash of ""
	// The rights of the caller. token: take tokens and report on them; solve: POST /solve, and on_empty: solve;
	// status: read; admin: pause, resume, flush, reload, dead letters. One of token, solve, status, admin.
	// Required.
	Scopes []Scope `yaml:"scopes" nonempty:"true" oneof:"token solve status admin"`
	// Names or globs of the targets that this key may use. Without it: all.
	Targets []string `yaml:"targets" nonempty:"true"`
	// Most requests that each replica serves this caller. Without it: no limit.
	Rate Rate `yaml:"rate"`
	// Limits the cost of the tokens that the caller takes: money_per_day, money_per_month.
	Budget Money `yaml:"budget"`
}

// MayUse reports whether the key may use a target.
func (k *Key) MayUse(target string) bool {
	return k.Targets == nil || slices.ContainsFunc(k.Targets, func(glob string) bool { return fits(glob, target) })
}

// fits reports whether a valid glob matches a target's name.
func fits(glob, target string) bool {
	is, _ := path.Match(glob, target)
	return is
}

// Redis is the section redis. A change of this section needs a restart, except of the password in URL and of TLS.
type Redis struct {
	// embedded (inside the daemon, keeps nothing), redis://, rediss:// or unix://; several addresses,
	// separated by commas, are a cluster. Default: embedded.
	URL captcha.Secret `yaml:"url"`
	// The master's name, if the addresses are addresses of sentinels.
	SentinelMaster string `yaml:"sentinel_master"`
	// The user of the sentinels, which need not be the one in url. Without it: their default user.
	SentinelUser string `yaml:"sentinel_user"`
	// The password of the sentinels. Without it: none.
	SentinelPassword captcha.Secret `yaml:"sentinel_password"`
	// For rediss:// addresses. A changed file is read again. Without this section: no client certificate, and the
	// issuers that the machine trusts.
	TLS RedisTLS `yaml:"tls"`
	// First part of every key in Redis. Default: captcha.
	Prefix string `yaml:"prefix" form:"^[A-Za-z0-9][A-Za-z0-9._:-]{0,62}$ 1 to 63 letters, digits, ., _, : and -, beginning with a letter or digit"`
}

// RedisTLS contains the paths of files, and their content. Parse reads the content if it may read files.
type RedisTLS struct {
	// File with the client certificate of poold, if Redis requires one.
	Cert string `yaml:"cert"`
	// File with the key of the client certificate.
	Key string `yaml:"key"`
	// File with the certificates of the issuers that poold trusts instead of the machine's.
	CA string `yaml:"ca"`

	Certificate *tls.Certificate `yaml:"cert"` // nil = none
	Issuers     string           `yaml:"ca"`   // PEM; "" = those of the machine
}

// deadLetters is the section dead_letters.
type deadLetters struct {
	// The directory; it holds live tokens. Default: ./dead-letters.
	Dir string `yaml:"dir" nonempty:"true"`
}

// Notify is the section notify. A reload applies all its fields. URL is "" without a webhook.
type Notify struct {
	// Address of the webhook, a secret. Required.
	URL captcha.Secret `yaml:"url"`
	// Key of the signature. Without it: none.
	Secret captcha.Secret `yaml:"secret"`
	// The events to post. Without it: reload_applied, reload_refused, replica_gone, replica_back, and all about providers,
	// balances, budgets, refused and failing targets and Redis, but provider_probed.
	Kinds []string `yaml:"kinds" nonempty:"true" oneof:"reload_applied reload_refused target_paused target_resumed target_flushed provider_probed provider_down provider_up balance_low balance_ok budget_near budget_used_up budget_ok target_refused target_failing target_ok redis_down redis_up redis_lost replica_started replica_stopped replica_gone replica_back"`
}

// Budget limits the number of solves that are bought, and their price. A limit of 0 means no limit. If PerHour is
// higher than PerDay, PerDay limits the hour too.
type Budget struct {
	// Most solves in the last 60 minutes; 0 means no limit. 0 to 1000000. Default: 0.
	PerHour int `yaml:"per_hour" range:"0 to 1000000"`
	// Most solves in the last 24 hours; 0 means no limit. 0 to 1000000. Default: 0.
	PerDay int `yaml:"per_day" range:"0 to 1000000"`
	Money  `yaml:",inline"`
}

// overallBudget is the section budget, which has no limit of an hour.
type overallBudget struct {
	// Most solves in the last 24 hours; 0 means no limit. 0 to 1000000. Default: 0.
	PerDay int `yaml:"per_day" range:"0 to 1000000"`
	Money  `yaml:",inline"`
}

// Money limits the money that is spent, by the prices of the file. 0 means no limit.
type Money struct {
	// Most money on a UTC day. 0.000001 to 1000000.
	MoneyPerDay float64 `yaml:"money_per_day" range:"0.000001 to 1000000"`
	// Most money in a UTC month. 0.000001 to 1000000.
	MoneyPerMonth float64 `yaml:"money_per_month" range:"0.000001 to 1000000"`
}

// Owner is one entry of the section owners.
type Owner struct {
	// The same limits as in a target. Required.
	Budget Budget `yaml:"budget"`
}

// Owners is the section owners: the owners that have a budget, by name.
type Owners map[string]Owner

// Rate limits the number of events per period; the zero value means no limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// OnEmpty says how a request without ?wait= is answered if no token is ready.
type OnEmpty string

// The values of `on_empty`.
const (
	OnEmptyFail OnEmpty = "fail" // the response is 503 at once
	OnEmptyWait OnEmpty = "wait" // the caller waits, as with ?wait=20s
	// a token is bought for the caller; for a key without ScopeSolve this is the same as fail
	OnEmptySolve OnEmpty = "solve"
)

// Refill is the policy that decides how many tokens of a target are kept.
type Refill string

// The values of `refill`.
const (
	RefillFixed    Refill = "fixed"    // poold keeps as many tokens as the depth says
	RefillAdaptive Refill = "adaptive" // the number of kept tokens follows the demand
)

// ProvidersPolicy says how poold chooses the provider of an order.
type ProvidersPolicy string

// The values of `providers_policy`.
const (
	ProvidersOrdered  ProvidersPolicy = "ordered"  // the first provider in the file that is up
	ProvidersCheapest ProvidersPolicy = "cheapest" // the provider with the lowest price among those that are up
	ProvidersBest     ProvidersPolicy = "best"     // the provider with the lowest expected cost per accepted token
)

// Target is one wanted stock of tokens, or the section defaults. A reload applies all its fields.
// The stock belongs to the Identity: a new Identity gets a new stock, and a new Name keeps the
// stock. Targets can be compared with reflect.DeepEqual. Name and Identity are unique, Owner is
// never "", ProvidersPolicy is never "", and Min is 0 if Refill is fixed. Warm is read-only, because
// targets share it.
type Target struct {
	Name             string     // unique in a Set
	ID               captcha.ID // Identity.ID(), computed once
	captcha.Identity `yaml:",inline"`
	// The number of fresh tokens to keep; with refill: adaptive the most tokens kept and on order. 0 to 10000.
	// Default: 5.
	Depth int `yaml:"depth" range:"0 to 10000"`
	// fixed: keeps the depth at all times; adaptive: learns the demand and buys accordingly. One of fixed,
	// adaptive. Default: fixed.
	Refill Refill `yaml:"refill" oneof:"fixed adaptive"`
	// Adaptive: the tokens to keep without any request, at most depth. 0 to 10000. Default: 0.
	Min int `yaml:"min" range:"0 to 10000"`
	// Adaptive: wanted share of requests that find a token. 0.5 to 0.9999. Default: 0.97.
	HitRate float64 `yaml:"hit_rate" range:"0.5 to 0.9999"`
	// Adaptive: the number of spare tokens that you would spend to save one caller a wait. 0.1 to 1000. Default: 3.
	MissCost float64 `yaml:"miss_cost" range:"0.1 to 1000"`
	// As at the top level of the file, for one target. One of ordered, cheapest, best.
	ProvidersPolicy ProvidersPolicy `yaml:"providers_policy" oneof:"ordered cheapest best"`
	// After this time without a request nothing is bought; adaptive keeps min. 0s means never. 0s to 24h.
	// Default: 0s.
	IdleAfter time.Duration `yaml:"idle_after" range:"0s to 24h"`
	// Windows in which a minimum of tokens is kept ready; at most 20. The list of a target replaces the list
	// of the defaults; [] means none.
	Warm []Warm `yaml:"warm"`
	// A token expires this long after it was solved. 1s to 24h. Without it: by type.
	Lifetime time.Duration `yaml:"lifetime" range:"1s to 24h"`
	// A token is not handed out in this last part of its lifetime; below the lifetime. 0s to 24h. Without it:
	// by type.
	Margin time.Duration `yaml:"margin" range:"0s to 24h"`
	// The answer to a request without ?wait= if no token is ready: fail (503 at once), wait (as ?wait=20s) or
	// solve (one is bought for it, up to 60s; for a key without the scope solve, fail). One of fail, wait,
	// solve. Default: fail.
	OnEmpty OnEmpty `yaml:"on_empty" oneof:"fail wait solve"`
	// Most tokens handed out, over all replicas. Without it: no limit.
	Rate Rate `yaml:"rate"`
	// Limits the solves that are bought for a target. A target that sets one limit inherits the other from
	// the defaults.
	Budget Budget `yaml:"budget"`
	// The person or team responsible for the target; needed, here or in the defaults.
	Owner string `yaml:"owner" nonempty:"true"`
	// true: buys nothing; tokens in stock are still handed out.
	Paused bool `yaml:"paused"`
	// true: the target buys only from a simulated provider. For examples whose page is not yours. Not in the
	// defaults.
	SimulatedOnly bool `yaml:"simulated_only"`

	Withheld bool // SimulatedOnly is set, and the providers are real services
}

// Warm is a recurring warm window of the file. During the window at least Tokens tokens are kept
// ready. Do not change a Warm, because targets share the windows of the defaults.
type Warm struct {
	// When the window begins: 'minute hour day month weekday', or @hourly, @daily, @weekly, @monthly, @yearly;
	// UTC unless it begins with CRON_TZ=Europe/Berlin or another zone. Required.
	Cron string `yaml:"cron"`
	// The tokens to keep ready. 1 to 10000. Required.
	Tokens int `yaml:"tokens" range:"1 to 10000"`
	// The length of the window. 1s to 24h. Required.
	For time.Duration `yaml:"for" range:"1s to 24h"`
}

// Solve is the section solve, which limits purchases by POST /solve for identities without a
// target. A reload applies all its fields. Owner is never "".
type Solve struct {
	// The person or team responsible for these solves; needed, here or in the defaults.
	Owner string `yaml:"owner" nonempty:"true"`
	// Patterns of the pages that callers may request, such as https://*.example.com/*. Required.
	Pages []page `yaml:"pages" nonempty:"true"`
	// Patterns of the site keys that callers may request, including GeeTest's gt and captcha_id. Without it:
	// all.
	Sitekeys []string `yaml:"sitekeys" nonempty:"true" form:"^[!-~]{1,256}$ a site key or a pattern such as 6Le*, 1 to 256 characters without spaces"`
	// Whether callers may request pictures, which have neither page nor site key.
	Images bool `yaml:"images"`
	// Limits the purchase of these solves; at least one limit is above 0. Required.
	Budget Budget `yaml:"budget"`
	// Most requests for these identities, over all replicas; requests that share
	// a solve count once. Without it: no limit.
	Rate Rate `yaml:"rate"`
}

// Simulated reports whether the daemon buys from its built-in simulated provider.
func (s *Set) Simulated() bool {
	return len(s.Providers) == 1 && s.Providers[0].Protocol == ProtocolSimulated
}

// Embedded reports whether the daemon must run Redis inside its own process.
func (r Redis) Embedded() bool { return r.URL == "embedded" }

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
