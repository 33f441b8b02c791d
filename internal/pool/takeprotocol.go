package pool

// The protocol of take.lua, which explains each value: the positions of the names in the
// script's header, and the words of its answers. TestBothSidesOfATake compares them.

// The arguments, before the departures and waiters.
const (
	callNumber = iota
	callReceiptLife
	callMargin
	callRate
	callRatePer
	callMostWaiting
	callImmediate
	callDepartures
	callWaiters
	callSize
)

// A departure.
const (
	departureTicket = iota
	departureOutcome
	departureHolder
	departureSize
)

// The outcomes of a departed caller's request.
const (
	outcomeNone    = iota // is not counted
	outcomeMissed         // its wait ended
	outcomeRefused        // it was told that no token can come
)

// A waiter.
const (
	waiterTicket = iota
	waiterArrival
	waiterNeed
	waiterOnce
	waiterMinTTL
	waiterHolder
	waiterTold
	waiterSize
)

// The reply: its head, two values for each waiter, and the elements that the immediate
// callers got.
const (
	replyNow = iota
	replyRateWait
	replyHead
)

// The answers of a waiter, each with its value or "".
const (
	answerToken    = "token"
	answerReplay   = "replay"
	answerParked   = "parked"
	answerHeld     = "held"
	answerNone     = "none"
	answerFull     = "full"
	answerConflict = "conflict"
	answerLimited  = "limited"
	answerFailed   = "failed"
)
