package simulated

import (
	"log/slog"
	"time"
)

// Flavour is the service that is imitated.
type Flavour string

// The flavours. They differ in the code for "no free thread", threadsinfo, the JSON type of a
// reCAPTCHA's id, the name of the user agent's field, the form of a legacy pingback, and the
// form of a GeeTest's answer.
const (
	CaptchaAI  Flavour = "captchaai" // the default
	TwoCaptcha Flavour = "2captcha"
)

// The defaults of Options.
const (
	DefaultMedian = 18 * time.Second
	DefaultSigma  = 0.45
	DefaultMin    = 6 * time.Second
	DefaultMax    = 120 * time.Second
)

const (
	tokenBytes = 600             // length of a token
	keep       = 5 * time.Minute // from a task's due time until it is forgotten
)

// Options shape a Service. The zero value is a service that accepts any key,
// has no thread cap, never fails and takes 6 to 120 s.
type Options struct {
	Flavour Flavour
	Key     string // the valid key; "" = any key but the empty one

	// Lead time: lognormal around Median, cut at Min and Max. If all four are zero, the
	// defaults apply. Otherwise each is used as given: Sigma 0 = always the
	// median, Max 0 = no upper end.
	Median, Min, Max time.Duration
	Sigma            float64

	Threads   int     // limit of tasks in flight; 0 = no cap, and threadsinfo is not offered
	FailShare float64 // share of unsolvable tasks, 0 to 1

	// Seed makes lead times, failures, tokens, ids and shares of faults repeatable. 0 draws
	// one, so that a task id of an earlier process is unknown instead of another task's.
	Seed uint64

	UserAgent string // in answers to orders that named no user agent; "" = answers have none

	Ledger     bool // keep every sale for Sold; memory grows with the sales
	LedgerHTTP bool // serve /ledger, without keys, proxies and token texts, and /faults

	PingShare  float64 // share of the requested pingbacks that are sent; 0 = all
	PingRepeat int     // extra deliveries of each pingback

	Faults []Fault      // in force from the start; SetFaults replaces them
	Log    *slog.Logger // undelivered pingbacks; nil = silent
}

func (o Options) withDefaults() Options {
	if o.Flavour == "" {
		o.Flavour = CaptchaAI
	}
	if o.Median == 0 && o.Sigma == 0 && o.Min == 0 && o.Max == 0 {
		o.Median, o.Sigma, o.Min, o.Max = DefaultMedian, DefaultSigma, DefaultMin, DefaultMax
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// userAgent returns the browser that a task was solved with, "" if answers have none.
func (o *Options) userAgent(t *task) string {
	if o.UserAgent != "" && t.identity.UserAgent != "" {
		return t.identity.UserAgent
	}
	return o.UserAgent
}
