package provider

import (
	"errors"
	"fmt"
	"time"

	"poold/internal/captcha"
)

// ErrNotReady is the error of Poll while a task is being solved.
var ErrNotReady = errors.New("provider: not ready")

// Class says what an error asks the caller to do.
type Class int

// The classes.
const (
	Capacity   Class = iota + 1 // nothing was bought; try again after Delay
	Account                     // the account cannot buy; every call stops but a slow probe
	Parameters                  // this target's parameters are wrong; others are unaffected
	Task                        // this one task is dead
)

// String names the class in lower case.
func (c Class) String() string {
	switch c {
	case Capacity:
		return "capacity"
	case Account:
		return "account"
	case Parameters:
		return "parameters"
	case Task:
		return "task"
	}
	return "unknown"
}

// NotAsked is the code of a submit that no call was made for, because the service cannot be
// asked for the identity.
const NotAsked = "cannot_be_asked"

// Error is every failure of a call but ErrNotReady and the caller's own context.
type Error struct {
	Class Class
	Code  string        // the provider's own word, or one of this package; never holds a key or a token
	Delay time.Duration // how long to leave the provider (Capacity, Account) alone; 0 = none
	// Unknown marks a submit whose acceptance cannot be determined. It counts as bought.
	Unknown bool
	Err     error // the cause, with the key scrubbed; may be nil
}

// Error names the action, the code and the cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s fault %s: %v", e.Class, e.Code, e.Err)
	}
	return fmt.Sprintf("%s fault %s", e.Class, e.Code)
}

// Unwrap returns the cause, such as a network error; nil if the provider answered.
func (e *Error) Unwrap() error { return e.Err }

// Request describes the task to buy.
type Request struct {
	Identity captcha.Identity
	Image    []byte // of captcha.Image, the picture's bytes; else nil
	Pingback string // URL for the result; may hold a secret; "" = none
}

// Solution is a solved task.
type Solution struct {
	// Token is the answer as the service wrote it; IsAnswer holds for it. If it consists of
	// named values, captcha.Named reads them.
	Token     string
	UserAgent string // the solver's browser; "" = unknown
	// Dated reports whether the service says when the token was solved. SinceSubmit is that time
	// after the submit; it is negative for a token from stock. Only another poold is trusted.
	Dated       bool
	SinceSubmit time.Duration
}

// StateKind is the state of a provider.
type StateKind string

// The states of `providers` in /status.json.
const (
	StateOK   StateKind = "ok"
	StateBusy StateKind = "busy" // full, or asked for fewer calls; ends within seconds
	StateDown StateKind = "down" // account fault, ban or outage; one probe in each turn
)

// Usable reports whether calls are possible now or within seconds.
func (k StateKind) Usable() bool { return k == StateOK || k == StateBusy }

// State is a snapshot for /status.
type State struct {
	Kind    StateKind
	Reason  string    // "" when ok
	Code    string    // of an account fault; else ""
	Remedy  string    // advice to the operator; "" = none
	Since   time.Time // when it went down; zero unless down
	Until   time.Time // next call allowed; zero when ok
	Balance *float64  // last one read; nil = never
}
