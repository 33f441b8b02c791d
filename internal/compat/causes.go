package compat

import (
	"context"
	"errors"

	"poold/internal/pool"
	"poold/internal/provider/wire"
)

// Cause is the reason for an error response of the compatible endpoints.
type Cause struct {
	Code string // of the protocol in_php
	Why  string // the explanation for people
}

// Error returns the code and the explanation.
func (c *Cause) Error() string { return "compat: " + c.Code + ": " + c.Why }

// The reasons for an error response that need no further data.
var (
	Broken       = &Cause{"ERROR_INTERNAL_SERVER_ERROR", "poold failed; see its log"}
	WrongKey     = &Cause{wire.CodeUnknownKey, "the configuration file has no such key"}
	NoKey        = &Cause{wire.CodeNoKey, "the call has no key; if the configuration file has none, send any text"}
	TooManyKeys  = &Cause{wire.CodeBanned, "too many wrong keys came from this address; right keys are still accepted"}
	NotEntitled  = &Cause{wire.CodeUnknownKey, "this key lacks the scope token"}
	TooFast      = &Cause{wire.CodeTurns, "this key's rate is used up"}
	NotSupported = &Cause{wire.CodeNoMethod, "poold does not solve this type"}
	NotAllowed   = &Cause{wire.CodeDomain,
		"no target of this key matches, and this key may buy nothing else for this page"}
	BadID       = &Cause{wire.CodeIDFormat, "an id is a number"}
	UnknownTask = &Cause{wire.CodeUnknownTask, "this key has no such task, or the task is too old"}
	NotReady    = &Cause{Code: wire.CodeNotReady}
	Unsolvable  = &Cause{wire.CodeUnsolvable, "the solving service brought no token"}
	Refused     = &Cause{wire.CodeBadParams, "the solving service rejects the parameters"}
	// this cause also stands for too many callers or tasks
	NoSlot      = &Cause{wire.CodeNoSlot, "no token is ready and none can be bought now"}
	StoreDown   = &Cause{wire.CodeNoSlot, "the store cannot be used"}
	Stopping    = &Cause{wire.CodeNoSlot, "the daemon is stopping"}
	NotReported = &Cause{wire.CodeNotRecorded, "this task has no token to report on"}
	Duplicate   = &Cause{wire.CodeDuplicate, "this token was reported already, with another outcome or by another caller"}
	NoAction    = &Cause{wire.CodeEmptyAction, "the call names no action"}
)

// IsRefusal reports whether a repeated call would fail again until someone changes the call, the
// key or the configuration, or until a pause, a full budget or an outage ends.
func (c *Cause) IsRefusal() bool {
	switch c {
	case Broken, TooManyKeys, NotReady, Unsolvable, NoSlot, StoreDown, Stopping:
		return false
	}
	return true
}

// CauseOf returns the cause of an error that a method of Tasks returned.
func CauseOf(err error) *Cause {
	var (
		own    *Cause
		empty  *pool.EmptyError
		rate   *pool.RateError
		failed *pool.FailedError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &empty), errors.As(err, &rate), errors.As(err, &failed) && failed.NotPlaced != "":
		return NoSlot
	case errors.As(err, &failed) && failed.BadParameters:
		return Refused
	case errors.As(err, &failed):
		return Unsolvable
	case errors.Is(err, pool.ErrClosed):
		return Stopping
	case errors.Is(err, pool.ErrDown), errors.Is(err, context.DeadlineExceeded):
		return StoreDown
	}
	return Broken
}
