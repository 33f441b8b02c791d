package simulated

import (
	"log/slog"
	"poold/internal/provider/wire"
	"time"
)

// Flavour is the service whose manners are imitated where services differ.
type Flavour = wire.Flavour

// The flavours. They differ in the code for "no free thread", in threadsinfo,
// in the name of the user agent's field, in the form of a legacy pingback, in how
// large a picture may be and in how GeeTests are asked for and answered.
const (
	CaptchaAI  = wire.CaptchaAI // the default
	TwoCaptcha = wire.TwoCaptcha
)

// The defaults of Options.
const (
	DefaultMedian     = 18 * time.Second
	DefaultSigma      = 0.45
	DefaultMin        = 6 * time.Second
	DefaultMax        = 120 * time.Second
	DefaultTokenBytes = 600
	DefaultKeep       = 5 * time.Minute
	DefaultBan        = 10 * time.Minute
)

// Options shape a Service. The zero value is a service that accepts any key,
// has no thread cap, never fails and takes 6 to 120 s.
type Options struct {
	Flavour Flavour
	Key     string // the key that is accepted; "" = any that is not empty

	// Lead time: lognormal around Median, cut at Min and Max. All four zero:
	// the defaults. Else each is used as given: Sigma 0 = always the
	// median, Max 0 = no upper end.
	Median, Min, Max time.Duration
	Sigma            float64

	Threads   int     // tasks that may be in flight; 0 = no cap, and threadsinfo is not offered
	FailShare float64 // share of tasks that turn out unsolvable, 0 to 1

	// Seed makes lead times, failures, tokens, ids and shares of faults
	// repeatable. 0 draws one: then a task id of a former run is unknown
	// instead of meaning another task.
	Seed uint64

	TokenBytes         int           // length of a token; 0 = 600; its marks are never cut off; a picture's text is short
	Shape              Shape         // of a GeeTest's legacy answers; "" = list at captchaai, object at 2captcha
	NumericIDs         bool          // legacy JSON answers give reCAPTCHA ids as numbers, as captchaai does
	EnterpriseInResult bool          // legacy JSON answers give enterprise tokens in `result`, not in `request`
	UserAgent          string        // named in answers where the order did not ask for one; "" = answers name none
	Keep               time.Duration // a task is forgotten this long after its due time; 0 = 5 min

	Ledger     bool // keep every sale for Sold; memory grows with the sales
	LedgerHTTP bool // show them under /ledger, without keys, proxies and token texts; take new faults by PUT /faults

	// Pingbacks, where a submit asks for one.
	PingDelay  time.Duration // delivered this much later than due; 0 = at once
	PingShare  float64       // of the tasks, those whose pingback is sent at all; 0 = all
	PingRepeat int           // extra deliveries of each
	// PingEarly delivers the pingback before the submit is answered, with the
	// token: the task is due at once. PingDelay does not count then. A task
	// whose pingback is not sent takes its time as ever.
	PingEarly bool

	Bans   Bans
	Faults []Fault      // in force from the start; SetFaults replaces them
	Log    *slog.Logger // undelivered pingbacks; nil = silent
}

// Bans switches the abuse limits on, each by itself; all are off by default.
type Bans struct {
	Polls bool // more than 20 res.php calls a submit + 1200: ERROR: 1005
	Turns bool // more than 60 in.php calls in 3 s: MAX_USER_TURN for those beyond
	Keys  bool // the fifth call with a wrong key: ERROR: 1004 for what follows
	// For is how long 1004 and 1005 block every call; 0 = 10 min. All counts
	// start afresh afterwards.
	For time.Duration
}

// withDefaults fills what New's caller left out.
func (o Options) withDefaults() Options {
	if o.Flavour == "" {
		o.Flavour = CaptchaAI
	}
	if o.Median == 0 && o.Sigma == 0 && o.Min == 0 && o.Max == 0 {
		o.Median, o.Sigma, o.Min, o.Max = DefaultMedian, DefaultSigma, DefaultMin, DefaultMax
	}
	if o.TokenBytes == 0 {
		o.TokenBytes = DefaultTokenBytes
	}
	if o.Shape == "" {
		o.Shape = map[Flavour]Shape{CaptchaAI: ShapeList, TwoCaptcha: ShapeObject}[o.Flavour]
	}
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	if o.Bans.For == 0 {
		o.Bans.For = DefaultBan
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// userAgent is the browser that a task was solved with, "" if answers name none.
func (o *Options) userAgent(t *task) string {
	if o.UserAgent != "" && t.identity.UserAgent != "" {
		return t.identity.UserAgent
	}
	return o.UserAgent
}
