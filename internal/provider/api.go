package provider

import (
	"cmp"
	"errors"
	"time"

	"poold/internal/captcha"
)

// ErrNotReady is the error of Poll while the service is still solving the task.
var ErrNotReady = errors.New("the service still works on it")

// Class classifies an error by what the caller must do.
type Class int

// The classes of errors.
const (
	Capacity   Class = iota + 1 // nothing was bought; the caller may try again after Delay
	Account                     // the account cannot buy; the caller stops all calls except slow probes
	Parameters                  // this target's parameters are wrong; other targets are unaffected
	Task                        // this task failed; other tasks are unaffected
)

// String names the class in lower case.
func (c Class) String() string {
	return [...]string{"unknown", "capacity", "account", "parameters", "task"}[c]
}

// Unreadable is the error code of a task that the service has solved, in a way that this client cannot read.
const Unreadable = "unreadable_solution"

// NotAsked is the error code of a Submit that made no call, because the service's protocol cannot
// express the identity.
const NotAsked = "cannot_be_asked"

// Error is the type of all errors that calls return, except ErrNotReady and the error of the caller's
// context.
type Error struct {
	Class Class
	Code  string        // the service's error code, or a code of this package; never contains a key or a token
	Delay time.Duration // for Capacity and Account: the time to wait before the next call; 0 = none
	// Unknown means that the Submit failed, but the service may have accepted the task. The task then
	// counts as bought.
	Unknown bool
	Err     error // the cause, without the key; may be nil

	broken bool // the service gave no proper answer
}

// Error names the code and the cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Code + ": " + e.Err.Error()
	}
	return e.Code
}

// Unwrap returns the cause, such as a network error. It returns nil if the provider answered.
func (e *Error) Unwrap() error { return e.Err }

// Submission describes the task to buy.
type Submission struct {
	Identity    captcha.Identity
	Image       []byte // the bytes of the picture for captcha.Image; nil for other types
	CallbackURL string // URL to which the service sends the result; may contain a secret; "" = none
}

// Solution is the result of a solved task.
type Solution struct {
	// Token is the solution as the service wrote it. It has passed IsAnswer. If the solution consists
	// of named values, captcha.Named parses Token.
	Token   string
	Extra   captcha.Extra
	Expires time.Time // when the token expires, on the service's clock; zero = the service does not say
}

// StateKind says whether a provider can be used.
type StateKind string

// The states of a provider, with their names in /status.json.
const (
	StateOK   StateKind = "ok"
	StateBusy StateKind = "busy" // the service is full or asked for fewer calls; this ends within seconds
	StateDown StateKind = "down" // account fault, ban or outage; in each turn the client makes only one call, as a probe
)

// Usable reports whether calls are possible now, or will be within seconds.
func (k StateKind) Usable() bool { return k == StateOK || k == StateBusy }

// Condition is the state of a provider at one moment, for /status.
type Condition struct {
	Kind    StateKind
	Reason  string    // why the provider is not ok; "" when ok
	Code    string    // code of an account fault; "" for other states
	Fault   string    // what the provider does, such as "refuses the key"; "" = unknown
	Remedy  string    // advice to the operator; "" unless the provider is down
	Since   time.Time // when the provider went down; zero unless it is down
	Until   time.Time // when the next call is allowed; zero when ok
	Balance *float64  // the last balance that was read; nil = none yet
}

// Sentence says how a provider that is down behaves, such as "provider acme refuses the key
// (ERROR_KEY_DOES_NOT_EXIST)".
func (s Condition) Sentence(provider string) string {
	return "provider " + provider + " " + cmp.Or(s.Fault, "is down") + " (" + s.Reason + ")"
}

// Notice is the Sentence with what follows and what to do; none = no provider takes orders now.
func (s Condition) Notice(provider string, none bool) string {
	consequence := "the other providers get its orders"
	if none {
		consequence = "no provider takes orders now, and nothing is bought"
	}
	return s.Sentence(provider) + ": " + consequence + "; " + s.Remedy
}
