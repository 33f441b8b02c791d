package targets

import (
	"time"

	"poold/internal/captcha"
)

// Set is one valid pools.yaml, immutable after Parse returns it. Defaults are applied and
// references are replaced, so that no reader looks anything up again.
//
// The tags of its types describe the keys (tags.go); comments add what tags cannot say.
// Providers are the usable ones. Budget.PerHour is 0. Solve is nil if nothing may be bought
// beyond the targets. Targets are sorted by name.
type Set struct {
	Server      Server     // section server; see file
	Redis       Redis      `key:"redis" doc:"Where tokens wait. All of it needs a restart."`
	Providers   []Provider `key:"providers" doc:"The solving services, in the order in which they are tried. One whose key is empty is left out. Without any, and with the embedded Redis, a simulated one serves."`
	Budget      Budget     `key:"budget" view:"total" doc:"The most solves that are bought over all targets, and by POST /solve."`
	Solve       *Solve     `key:"solve" doc:"What POST /solve may buy beyond the targets' identities. Without this section: nothing."`
	Dedup       Dedup      `key:"dedup" doc:"Where callers of POST /solve that ask for 'dedup: identity' find each other. Needs a restart."`
	History     History    `key:"history" doc:"Where it is kept how orders ended and who took their tokens, and for how long. Needs a restart."`
	DeadLetters string     // directory for callbacks that could not be stored; never ""; needs a restart
	Targets     []Target   `key:"targets" must:"yes" view:"target" names:"[a-z0-9][a-z0-9._-]{0,62}" want:"a target's name is 1 to 63 of a-z, 0-9, ., _ and -, beginning with a letter or digit" doc:"What is kept ready. The name is the one in the URL, GET /pool/NAME/token."`
	Warnings    []Problem  // unusual but allowed, and entries left out because their key is empty
	Digest      string     // SHA-256 of the file's bytes, in hex; the environment does not change it

	lives map[captcha.Type]life // of the poolable types; read only
	lines map[string]int        // of what only a restart applies; see lasting

	listenGiven bool // by --listen or POOLD_LISTEN, not by the file
}

// file is pools.yaml as it is written, before the rules make a Set of it.
type file struct {
	Set      `inline:"yes"`
	Listener serverSection `key:"server" doc:"Where the daemon listens, and who may call it."`
	Letters  struct {
		Dir string `key:"dir" as:"filled" default:"./dead-letters" doc:"The directory; it holds live tokens."`
	} `key:"dead_letters" doc:"Callbacks that came while Redis was away. Needs a restart."`
	Types    lives  `key:"types" view:"types" doc:"How long tokens live, by type, in place of the built-in values."`
	Defaults Target `key:"defaults" view:"defaults" doc:"What a target says when it says nothing."`
}

// Simulated reports whether the provider inside the daemon is used.
func (s *Set) Simulated() bool {
	return len(s.Providers) == 1 && s.Providers[0].API == APISimulated
}

// Demo reports whether nothing outside the daemon is used: no Redis and no provider.
func (s *Set) Demo() bool { return s.Redis.Embedded() && s.Simulated() }

// Server is the section server. A reload applies all but Listen and TLS. CallbackSecrets
// are printable ASCII, none is empty and no two are the same.
type Server struct {
	Listen          string           `key:"listen" as:"filled" default:"127.0.0.1:8080" doc:"host:port to listen on; --listen and POOLD_LISTEN beat it. Without a usable key only loopback addresses are allowed. Needs a restart."`
	TLS             TLS              `key:"tls" doc:"Certificate and key, both or neither. Default: plain HTTP. Needs a restart."`
	Keys            []Key            // those with a key, in the order of the file; none: callers need no key
	BodyBudget      Size             `key:"body_budget" range:"4MiB 1024GiB" default:"256MiB" doc:"The most bytes that bodies above 64 KiB may take at a replica until their requests end; beyond it 503 with Retry-After. Pictures are such bodies."`
	CallbackSecrets []captcha.Secret `key:"callback_secrets" doc:"What signs the addresses that providers call back: the first signs, all verify; 16 characters at least. Default: derived from each provider's key."`
}

// TLS names the certificate and key files; both or neither. Parse does not read them.
type TLS struct {
	Cert string `key:"cert" doc:"File with the certificate chain."`
	Key  string `key:"key" doc:"File with the key of the certificate."`
}

// serverSection is the section server as it is written.
type serverSection struct {
	Server  `inline:"yes"`
	Entries []keyEntry `key:"keys" doc:"Who may call. Without an entry whose key is not empty, callers on this machine need no key."`
}

// Scope is one right of a server key.
type Scope string

// The scopes; docs/api.md.
const (
	ScopeToken  Scope = "token"
	ScopeSolve  Scope = "solve"
	ScopeStatus Scope = "status"
	ScopeAdmin  Scope = "admin"
)

// Key is one caller that may use the HTTP API. Names and hashes are unique. Targets are
// patterns of path.Match.
type Key struct {
	Name    string   `key:"name" must:"yes" form:"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}" want:"1 to 63 letters, digits, ., _, @ and -, beginning with a letter or digit" doc:"What the log calls this caller."`
	SHA256  [32]byte // of the bearer, never that of ""; the text itself is not kept
	Scopes  []Scope  `key:"scopes" must:"yes" set:"yes" words:"token solve status admin" doc:"What the caller may do. token: take tokens and report on them; solve: POST /solve, and on_empty: solve; status: read; admin: pause, resume, flush, reload, dead letters."`
	Targets []string `key:"targets" set:"yes" as:"glob" doc:"Names or patterns of the targets that this key may use. Default: all."`
	Rate    Rate     `key:"rate" doc:"Most requests, such as 50/s, 30/m or 500/h, for each replica. Default: no limit."`
}

// keyEntry is one entry of server.keys as it is written.
type keyEntry struct {
	Key    `inline:"yes"`
	Bearer captcha.Secret `key:"key" doc:"What the caller sends as 'Authorization: Bearer'; 8 characters at least, 16 or more are wise. This or key_sha256."`
	Hash   captcha.Secret `key:"key_sha256" doc:"The SHA-256 of the key as 64 hex digits, in place of the key."`
}

// Redis is the section redis. A change of it needs a restart.
type Redis struct {
	URL            captcha.Secret `key:"url" as:"redis" default:"embedded" doc:"embedded (inside the daemon, keeps nothing), redis://, rediss:// or unix://; several addresses, separated by commas, are a cluster."`
	SentinelMaster string         `key:"sentinel_master" doc:"Where set, the addresses are those of sentinels, and this is the master's name."`

	// Braces in Prefix would replace the hash tags that keep the keys of one identity in
	// one slot of a cluster.
	Prefix string `key:"prefix" form:"[A-Za-z0-9][A-Za-z0-9._:-]{0,62}" want:"1 to 63 letters, digits, ., _, : and -, beginning with a letter or digit" default:"captcha" doc:"First part of every key in Redis."`
}

// Embedded reports whether the daemon shall run its own in-process Redis.
func (r Redis) Embedded() bool { return r.URL == "embedded" }

// API is a provider's protocol.
type API string

// The protocols.
const (
	APILegacy    API = "legacy"    // in.php and res.php
	APITasks     API = "tasks"     // createTask and getTaskResult
	APISimulated API = "simulated" // the provider inside the daemon; its tokens are worth nothing
)

// Provider is one entry of providers. A reload applies all of it. Two of them can be
// compared with ==. Names are unique. The URLs have no last slash. URL and Key are "" if API
// is simulated, which is then the only provider of a Set. The zero FirstPoll, PollInterval
// and FallbackAfter are the defaults that their docs name.
type Provider struct {
	Name         string         `key:"name" must:"yes" form:"[a-z0-9][a-z0-9-]{0,30}" want:"1 to 31 of a-z, 0-9 and -, beginning with a letter or digit" doc:"Yours to choose."`
	API          API            `key:"api" words:"legacy tasks simulated" default:"legacy" doc:"The protocol: legacy (in.php and res.php), tasks (createTask), or simulated, whose tokens no site accepts."`
	Profile      string         `key:"profile" words:"captchaai 2captcha generic poold" default:"generic" doc:"What the service's error codes mean."`
	URL          string         `key:"url" as:"provider" doc:"Base address of the service, without in.php. Required but for simulated."`
	Key          captcha.Secret `key:"key" doc:"The account's key. Required but for simulated; where it is empty, the provider is left out."`
	Concurrency  int            `key:"concurrency" range:"1 10000" default:"20" doc:"Most tasks at once, over all targets and replicas; where the service tells its threads, the smaller of the two."`
	FirstPoll    time.Duration  `key:"first_poll" range:"50ms 24h" doc:"From a submit to the first question. Default: by type."`
	PollInterval time.Duration  `key:"poll_interval" range:"50ms 24h" doc:"Between the next questions. Default: by type."`
	Timeout      time.Duration  `key:"timeout" range:"50ms 24h" default:"3m" doc:"A task older than this is given up; above first_poll."`
	Balance      bool           `key:"balance" default:"false" doc:"Whether the account's balance is read, at most once a minute."`

	CallbackURL   string        `key:"callback_url" as:"callback" default:"" doc:"Where the service reaches this daemon from outside, without /callback. Empty: polling alone."`
	FallbackAfter time.Duration `key:"fallback_after" range:"0s 24h" doc:"Poll a task that had no callback for this long, at least 50ms and below timeout. Default: the least of 120s, half the timeout and half the tokens' usable life."`
	CallbackDelay time.Duration `key:"callback_delay" range:"0s 24h" default:"10s" doc:"How old a callback's token is taken to be when it first arrives."`
	Price         Prices        `key:"price_per_1000" doc:"What 1000 solves cost, for the spend figures: one number, or numbers by type. 0 is free. Without a number the price is unknown, and so is what is spent."`

	Line int // in the file
}

// solvesPerPrice is how many solves the file's prices are for.
const solvesPerPrice = 1000

// Prices are the prices of 1000 solves, by type, as services list them.
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
	Known   bool    // the file names the price
	Per1000 float64 // 0 to 1000000, in the account's currency; 0 = free if Known
}

// Costs returns a known price.
func Costs(per1000 float64) Price { return Price{Known: true, Per1000: per1000} }

// For returns the price of one solve, or 0 if it is unknown.
func (p Prices) For(t captcha.Type) float64 {
	if per := p.of(t); per != nil {
		return per.Per1000 / solvesPerPrice
	}
	return 0
}

// Known reports whether the file has a price for the type.
func (p Prices) Known(t captcha.Type) bool {
	per := p.of(t)
	return per != nil && per.Known
}

// of returns the price of a type, nil for an unknown type.
func (p *Prices) of(t captcha.Type) *Price {
	return map[captcha.Type]*Price{
		captcha.RecaptchaV2: &p.RecaptchaV2, captcha.RecaptchaV3: &p.RecaptchaV3, captcha.HCaptcha: &p.HCaptcha, captcha.Turnstile: &p.Turnstile,
		captcha.GeeTest: &p.GeeTest, captcha.GeeTestV4: &p.GeeTestV4, captcha.Image: &p.Image,
	}[t]
}

// Budget caps the solves that are bought. 0 is no cap. PerHour may be above PerDay, which
// then decides.
type Budget struct {
	PerHour int `key:"per_hour" not:"total" range:"0 1000000" default:"0" doc:"In the last 60 minutes; 0 is no cap."`
	PerDay  int `key:"per_day" range:"0 1000000" default:"0" doc:"In the last 24 hours; 0 is no cap."`
}

// Rate is a number of events per period; the zero value means no limit.
type Rate struct {
	Count float64
	Per   time.Duration
}

// PerSecond returns the rate in events per second, 0 for no limit.
func (r Rate) PerSecond() float64 {
	if r.Per <= 0 {
		return 0
	}
	return r.Count / r.Per.Seconds()
}

// OnEmpty is the answer to a request without ?wait= if no token is ready.
type OnEmpty string

// The values of `on_empty`.
const (
	OnEmptyFail  OnEmpty = "fail"  // 503 at once
	OnEmptyWait  OnEmpty = "wait"  // as ?wait=20s
	OnEmptySolve OnEmpty = "solve" // one is bought for it; to a key without ScopeSolve it is fail
)

// Refill is the policy by which a target is kept filled.
type Refill string

// The values of `refill`.
const (
	RefillFixed    Refill = "fixed"    // Depth tokens are kept
	RefillAdaptive Refill = "adaptive" // as many as the demand asks for
)

// Target is one wanted stock of tokens, or the section defaults. A reload applies all of it; another
// Identity is another stock, another name is not. Two of them can be compared with
// reflect.DeepEqual. Name and Identity are unique, Owner is never "", Min is 0 if Refill is
// fixed, and nothing may write to Warm, which targets share.
type Target struct {
	Name     string           // unique
	Identity captcha.Identity `inline:"yes"`
	ID       captcha.ID       // Identity.ID(), computed once
	Depth    int              `key:"depth" range:"0 10000" default:"5" doc:"How many tokens are kept fresh; with refill: adaptive the most ever kept and on order."`
	Refill   Refill           `key:"refill" words:"fixed adaptive" default:"fixed" doc:"fixed: the depth is kept at all times; adaptive: learns the demand and buys just as much."`
	Min      int              `key:"min" range:"0 10000" default:"0" doc:"Adaptive: how many are kept even when nobody asks, at most depth."`
	HitRate  float64          `key:"hit_rate" range:"0.5 0.9999" default:"0.97" doc:"Adaptive: wanted share of requests that find a token."`
	MaxWaste float64          `key:"max_waste" range:"0.1 1000" default:"3" doc:"Adaptive: how many spare tokens you would spend to save one caller a wait."`

	IdleAfter time.Duration `key:"idle_after" range:"0s 24h" default:"0s" doc:"No request for this long: buy nothing; adaptive keeps min. 0s is never."`
	Warm      []Warm        `key:"warm" max:"20" doc:"Windows in which at least so many tokens are kept ready. A target's own list replaces that of the defaults, and [] is none."`

	Lifetime time.Duration `key:"lifetime" range:"1s 24h" doc:"A token is dead this long after it was solved. Default: by type."`
	Margin   time.Duration `key:"margin" range:"0s 24h" doc:"How long before its end a token is no longer handed out; below the lifetime. Default: by type."`
	OnEmpty  OnEmpty       `key:"on_empty" words:"fail wait solve" default:"fail" doc:"What a request without ?wait= meets where no token is ready: fail (503 at once), wait (as ?wait=20s) or solve (one is bought for it, up to 60s; to a key without the scope solve it is fail)."`
	Rate     Rate          `key:"rate" doc:"Most tokens handed out, such as 20/s, 30/m or 500/h, over all replicas. Default: no limit."`
	Budget   Budget        `key:"budget" doc:"The most solves that are bought for a target; one that names a single cap keeps the other of the defaults."`
	Owner    string        `key:"owner" as:"filled" doc:"Who answers for the target; required, here or in the defaults."`
	Paused   bool          `key:"paused" default:"false" doc:"true: buy nothing; what is in stock is still handed out."`
	Line     int           // in the file
}

// Usable is how long a token of this target can be handed out.
func (t Target) Usable() time.Duration { return t.Lifetime - t.Margin }
