package compat

import (
	"context"
	"errors"

	"poold/internal/pool"
	"poold/internal/provider/wire"
	"poold/internal/solve"
)

// Cause is the reason for an error response of the compatible endpoints. It implements error.
type Cause int

// The reasons for an error response.
const (
	Broken        Cause = iota // unexpected error
	WrongKey                   // the key is not in the configuration file
	OddKey                     // the call has no key, or a text that cannot be a key
	TooManyKeys                // too many wrong keys from the client's address
	NotEntitled                // the key lacks the scope
	TooFast                    // the key's rate is used up
	BadParameters              // a parameter is invalid or not supported
	NotSupported               // unknown type of task
	NotAllowed                 // no target matches, and the key may not buy for other identities
	BadID                      // the id of the task is not a number
	UnknownTask                // the caller has no such task, the task is too old, or its token has expired
	NotReady                   // poll again
	Unsolvable                 // the solve failed
	Refused                    // the service rejects the parameters
	NoSlot                     // paused, budget used up, provider down, too many callers wait, or too many unfinished tasks
	StoreDown                  // Redis cannot be reached
	Stopping                   // this replica stops
	NotReported                // the task has no token
	Duplicate                  // a second report on the same token
	NoAction                   // a call of res.php without an action
)

// causeTexts contains the error codes in both protocols and the explanation of each cause.
var causeTexts = map[Cause]struct{ legacy, tasks, why string }{
	Broken:        {"ERROR_INTERNAL_SERVER_ERROR", "ERROR_INTERNAL_SERVER_ERROR", "poold failed; see its log"},
	WrongKey:      {wire.CodeUnknownKey, wire.CodeUnknownKey, "the configuration file has no such key"},
	OddKey:        {wire.CodeNoKey, wire.CodeUnknownKey, "the call has no key; if the configuration file has no keys, send any 32 characters"},
	TooManyKeys:   {wire.CodeBanned, wire.CodeIPBlocked, "too many wrong keys came from this address; try again in a minute"},
	NotEntitled:   {wire.CodeUnknownKey, wire.CodeUnknownKey, "this key lacks the scope token"},
	TooFast:       {wire.CodeTurns, wire.CodeNoSlot, "this key's rate is used up"},
	BadParameters: {wire.CodeBadParams, wire.CodeBadParams, "a parameter is missing, invalid or not supported"},
	NotSupported:  {wire.CodeNoMethod, wire.CodeNotSupported, "poold does not solve this type"},
	NotAllowed:    {wire.CodeDomain, wire.CodeDomain, "no target of this key matches, and this key may buy nothing else for this page"},
	BadID:         {wire.CodeIDFormat, wire.CodeNoTask, "an id is a number"},
	UnknownTask:   {wire.CodeUnknownTask, wire.CodeNoTask, "this key has no such task, or the task is too old"},
	NotReady:      {wire.CodeNotReady, wire.CodeNotReady, ""},
	Unsolvable:    {wire.CodeUnsolvable, wire.CodeUnsolvable, "the solving service brought no token"},
	Refused:       {wire.CodeBadParams, wire.CodeBadParams, "the solving service rejects the parameters"},
	NoSlot:        {wire.CodeNoSlot, wire.CodeNoSlot, "no token is ready and none can be bought now"},
	StoreDown:     {wire.CodeNoSlot, wire.CodeNoSlot, "the store cannot be used"},
	Stopping:      {wire.CodeNoSlot, wire.CodeNoSlot, "the daemon is stopping"},
	NotReported:   {wire.CodeNotRecorded, wire.CodeNoTask, "this task has no token to report on"},
	Duplicate:     {wire.CodeDuplicate, wire.CodeDuplicate, "a token is reported once, and this one was"},
	NoAction:      {wire.CodeEmptyAction, wire.CodeEmptyAction, "the call names no action"},
}

// Legacy returns the error code of the older protocol (in.php and res.php).
func (c Cause) Legacy() string { return causeTexts[c].legacy }

// Tasks returns the error code of the tasks protocol.
func (c Cause) Tasks() string { return causeTexts[c].tasks }

// Why returns the explanation of the cause; "" for NotReady.
func (c Cause) Why() string { return causeTexts[c].why }

// IsRefusal reports whether a repeated call would fail again until someone changes the call, the
// key or the configuration.
func (c Cause) IsRefusal() bool {
	switch c {
	case Broken, TooManyKeys, NotReady, Unsolvable, NoSlot, StoreDown, Stopping:
		return false
	}
	return true
}

// Error returns the error code of the older protocol and the explanation.
func (c Cause) Error() string { return "compat: " + causeTexts[c].legacy + ": " + causeTexts[c].why }

// CauseOf returns the cause of an error that a method of Tasks returned.
func CauseOf(err error) Cause {
	var (
		own    Cause
		empty  *pool.EmptyError
		rate   *pool.RateError
		failed *solve.SolveError
		outage *solve.OutageError
		budget *solve.BudgetError
	)
	err = solve.Explain(err)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &failed) && failed.Refused:
		return Refused
	case errors.As(err, &failed):
		return Unsolvable
	case errors.As(err, &empty), errors.As(err, &rate), errors.As(err, &outage), errors.As(err, &budget):
		return NoSlot
	case errors.Is(err, solve.ErrStopping):
		return Stopping
	case errors.Is(err, pool.ErrDown), errors.Is(err, context.DeadlineExceeded):
		return StoreDown
	}
	return Broken
}
