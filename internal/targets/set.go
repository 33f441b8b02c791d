package targets

import (
	"time"

	"poold/internal/captcha"
)

// Set is one valid pools.yaml, immutable after Parse returns it. Defaults are
// applied, references are replaced, so that no reader looks anything up again.
type Set struct {
	Server      Server
	Redis       Redis
	Providers   []Provider // in the order in which they are tried; only those that can be used
	Budget      Budget     // over all targets and guests; PerHour is always 0
	Solve       *Solve     // what POST /solve may buy beyond the targets' identities; nil = nothing
	Dedup       Dedup      // a change needs a restart
	History     History    // a change needs a restart
	DeadLetters string     // directory for callbacks that could not be stored; never "", default ./dead-letters; a change needs a restart
	Targets     []Target   // sorted by name
	Warnings    []Problem  // unusual but allowed, and what was left out for want of a key
	Digest      string     // SHA-256 of the file's bytes, in hex; a process's environment does not change

	lives map[captcha.Type]life // of the poolable types; read only
	lines restartLines

	listenGiven bool // Server.Listen is not the file's
}

// Simulated reports whether the provider inside the daemon is the one that is used.
func (s *Set) Simulated() bool {
	return len(s.Providers) == 1 && s.Providers[0].API == APISimulated
}

// Demo reports whether nothing outside the daemon is used: no Redis and no provider.
func (s *Set) Demo() bool { return s.Redis.Embedded() && s.Simulated() }

// restartLines tells where the file has what only a restart applies; the line is
// 0 or the first one where the file does not have it.
type restartLines struct{ listen, tls, redis, deadLetters, dedup, history int }

// Server is the section `server`. A reload applies Keys and CallbackSecrets alone.
type Server struct {
	Listen string // host:port, the port 0 to 65535; default 127.0.0.1:8080; loopback where Keys is empty
	TLS    TLS    // default none
	Keys   []Key  // those with a key, in the order of the file; none: callers need no key

	BodyBudget Size // bytes that large bodies may take at a replica; 4 MiB or more, default 256 MiB

	// CallbackSecrets are those that are not empty, in the order of the file: the
	// first signs, all verify. No two are the same, each has 16 or more printable
	// ASCII characters. None is the default.
	CallbackSecrets []captcha.Secret
}

// TLS names the certificate and key files; both or neither. Parse does not look
// at them.
type TLS struct{ Cert, Key string }

// Scope is one right of a server key.
type Scope string

// The scopes; docs/api.md.
const (
	ScopeToken  Scope = "token"
	ScopeSolve  Scope = "solve"
	ScopeStatus Scope = "status"
	ScopeAdmin  Scope = "admin"
)

// Key is one caller that may use the HTTP API.
type Key struct {
	Name    string   // unique; 1 to 63 letters, digits, ., _, @ and -
	SHA256  [32]byte // of the bearer, unique and never that of ""; the text itself is not kept
	Scopes  []Scope  // at least one, none twice
	Targets []string // globs (path.Match), all well formed; empty = all
	Rate    Rate     // requests per replica; zero = no limit
}

// Redis is the section `redis`. A change of it needs a restart.
type Redis struct {
	URL            captcha.Secret // "embedded", or one or more addresses, comma-separated; may hold a password
	SentinelMaster string         // set: the addresses are sentinels; never with "embedded" or unix://
	Prefix         string         // first part of every key; default "captcha"; holds no brace
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

// Provider is one entry of `providers`. A reload applies all of it. Two of them
// can be compared with ==.
type Provider struct {
	Name         string         // unique; 1 to 31 of a-z, 0-9 and -
	API          API            // default legacy; simulated is always the only provider of a Set
	Profile      string         // what its error codes mean: captchaai | 2captcha | generic (default) | poold
	URL          string         // base, without in.php and the last slash; "" for simulated
	Key          captcha.Secret // of the account; "" for simulated alone
	Concurrency  int            // most tasks at once over all targets and replicas; 1 to 10000, default 20
	FirstPoll    time.Duration  // from the submit to the first question; 50ms to 24h; 0 = the type's own
	PollInterval time.Duration  // between the next ones; 50ms to 24h; 0 = the type's own
	Timeout      time.Duration  // a task older than this is given up; above FirstPoll, default 180s
	Balance      bool           // read the account's balance now and then; default false

	CallbackURL   string        // public base of this daemon, without the last slash; "" = polling alone (default)
	FallbackAfter time.Duration // a task without a callback is polled after this long; 50ms to below Timeout, 0 = not set
	CallbackDelay time.Duration // a callback's token is taken to be this old when it first arrives; 0s to 24h, default 10s
	Price         Prices        // what it charges; default unknown

	Line int // in the file
}

// solvesPerPrice is how many solves the file's prices are for.
const solvesPerPrice = 1000

// Prices is what 1000 solves of each type cost, as services list it.
type Prices struct{ RecaptchaV2, RecaptchaV3, HCaptcha, Turnstile, GeeTest, GeeTestV4, Image Price }

// Price is what 1000 solves of one type cost. The zero value is an unknown price.
type Price struct {
	Known   bool    // the file names the price
	Per1000 float64 // 0 to 1000000, in the account's currency; 0 = free if Known
}

// Costs returns a known price.
func Costs(per1000 float64) Price { return Price{Known: true, Per1000: per1000} }

// For returns the price of one solve, a thousandth of what the file names, and 0 if the
// price is unknown.
func (p Prices) For(t captcha.Type) float64 {
	if per := p.of(t); per != nil {
		return per.Per1000 / solvesPerPrice
	}
	return 0
}

// Known reports whether the file names a price for the type.
func (p Prices) Known(t captcha.Type) bool {
	per := p.of(t)
	return per != nil && per.Known
}

// of returns the place of a type's price, nil for a type that is not known.
func (p *Prices) of(t captcha.Type) *Price {
	switch t {
	case captcha.RecaptchaV2:
		return &p.RecaptchaV2
	case captcha.RecaptchaV3:
		return &p.RecaptchaV3
	case captcha.HCaptcha:
		return &p.HCaptcha
	case captcha.Turnstile:
		return &p.Turnstile
	case captcha.GeeTest:
		return &p.GeeTest
	case captcha.GeeTestV4:
		return &p.GeeTestV4
	case captcha.Image:
		return &p.Image
	}
	return nil
}

// Budget is the most solves that are bought in the last 60 minutes and in the
// last 24 hours; 0 to 1000000, 0 (the default) = no cap. PerHour may be above
// PerDay, which then decides.
type Budget struct{ PerHour, PerDay int }

// Rate is "so many per so long"; the zero value means no limit.
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

// OnEmpty says what a request without ?wait= meets where no token is ready.
type OnEmpty string

// The values of `on_empty`.
const (
	OnEmptyFail  OnEmpty = "fail"  // 503 at once
	OnEmptyWait  OnEmpty = "wait"  // as ?wait=20s
	OnEmptySolve OnEmpty = "solve" // one is bought for it; to a key without ScopeSolve it is fail
)

// Refill says by which policy a target is kept filled.
type Refill string

// The values of `refill`.
const (
	RefillFixed    Refill = "fixed"    // Depth tokens are kept
	RefillAdaptive Refill = "adaptive" // as many as the demand asks for
)

// Target is one named wish. A reload applies all of it; another Identity is
// another stock, another name is not. Two of them can be compared with
// reflect.DeepEqual.
type Target struct {
	Name     string           // unique; 1 to 63 of a-z, 0-9, ., _ and -
	Identity captcha.Identity // unique; holds only fields that its type knows
	ID       captcha.ID       // Identity.ID(), computed once
	Depth    int              // fixed: how many are kept fresh; adaptive: the most ever kept and on order; 0 to 10000, default 5
	Refill   Refill           // default fixed
	Min      int              // adaptive: kept even when nobody asks; 0 to Depth, default 0; 0 where fixed
	HitRate  float64          // adaptive: wanted share of requests that find a token; 0.5 to 0.9999, default 0.97
	MaxWaste float64          // adaptive: spare tokens that saving one caller a wait is worth; 0.1 to 1000, default 3

	IdleAfter time.Duration // no request for this long: fall to Min; 0s to 24h, 0 (the default) = never
	Warm      []Warm        // at least so many are kept in these windows; at most 20, nil (the default) = none; read only

	Lifetime time.Duration // a token is dead this long after it was solved; 1s to 24h, default by type
	Margin   time.Duration // and is not handed out in the last part of it; 0s to below Lifetime, default by type
	OnEmpty  OnEmpty       // default fail
	Rate     Rate          // most tokens handed out, over all replicas; zero = no limit
	Budget   Budget        // most tokens bought; each key is the target's own, else that of the defaults
	Owner    string        // who answers for it; never ""
	Paused   bool          // nothing is bought, stock is still handed out; default false
	Line     int           // in the file
}

// Usable is how long a token of this target can be handed out.
func (t Target) Usable() time.Duration { return t.Lifetime - t.Margin }
