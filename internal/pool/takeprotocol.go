package pool

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What follows is the protocol of take.lua, for both sides: where each value stands
// among the script's keys and arguments, and the words of its answers. The script
// uses the names of takeNames, as in CALL.margin.

// The keys, before those of Idempotency-Keys.
const (
	keyTokens = iota
	keyTickets
	keySeen
	keyStats
	keyReceipt // of this replica's last call
	keyRate
	keyJunk
	keyUntold
	keySize
)

// A call, which is in front of its departures and waiters.
const (
	callNumber      = iota // grows by replica
	callReceiptLife        // ms
	callMargin             // ms
	callRate               // tokens allowed within callRatePer; 0 = no limit
	callRatePer            // ms
	callMostWaiting        // tickets
	callImmediate          // how many callers want nothing but a token
	callDepartures         // how many there are
	callWaiters            // how many there are
	callSize
)

// A departure.
const (
	departureTicket  = iota
	departureOutcome // what the request counts as; 0 = nothing
	departureHolder  // "" = no other replica can hold this ticket
	departureSize
)

// What a request counts as whose caller departs.
const (
	outcomeNone    = iota
	outcomeMissed  // its wait ran out
	outcomeRefused // it was answered that no token can come
)

// A waiter.
const (
	waiterTicket  = iota // "" = does not wait
	waiterArrival        // "" = asks for the first time
	waiterNeed           // ms
	waiterOnce           // the number of its Idempotency-Key's key, from 1; 0 = none
	waiterMinTTL         // ms, as it was asked for
	waiterHolder         // as of a departure
	waiterTold           // 1 if it is told of an order that failed, else 0
	waiterSize
)

// The answer: its head, two values for each waiter, and the elements that the
// immediate callers got.
const (
	replyNow      = iota // Redis' clock, Unix ms
	replyRateWait        // ms until the rate allows the next one; 0 = it refused nobody
	replyHead
)

// What a waiter is answered; behind it stands what belongs to it, or "".
const (
	answerToken    = "token"    // element
	answerReplay   = "replay"   // element: its Idempotency-Key got it before
	answerParked   = "parked"   // arrival: it holds a ticket
	answerHeld     = "held"     // arrival: it holds a ticket, and only the rate keeps a token from it
	answerNone     = "none"     // there is no token
	answerFull     = "full"     // too many wait
	answerConflict = "conflict" // its Idempotency-Key was used with another min_ttl
	answerLimited  = "limited"  // the rate refuses it
	answerFailed   = "failed"   // a FailedError: it lacks an order that failed, and its ticket is given up
)

// takeNames is what the script calls all this, in the order of the constants. Lua
// counts from 1: the first key is KEYS[KEY.tokens], and the values of a departure or
// a waiter are counted from the last one before it.
var takeNames = map[string][]string{
	"KEY": {
		keyTokens: "tokens", keyTickets: "tickets", keySeen: "seen", keyStats: "stats",
		keyReceipt: "receipt", keyRate: "rate", keyJunk: "junk", keyUntold: "untold",
	},
	"CALL": {
		callNumber: "number", callReceiptLife: "receipt_life", callMargin: "margin", callRate: "rate", callRatePer: "rate_per",
		callMostWaiting: "most_waiting", callImmediate: "immediate", callDepartures: "departures", callWaiters: "waiters",
	},
	"DEPARTURE": {departureTicket: "ticket", departureOutcome: "outcome", departureHolder: "holder"},
	"OUTCOME":   {outcomeMissed - 1: "missed", outcomeRefused - 1: "refused"},
	"WAITER": {
		waiterTicket: "ticket", waiterArrival: "arrival", waiterNeed: "need",
		waiterOnce: "once", waiterMinTTL: "min_ttl", waiterHolder: "holder", waiterTold: "told",
	},
	"REPLY": {replyNow: "now", replyRateWait: "rate_wait"},
}

var answerWords = []string{
	answerToken, answerReplay, answerParked, answerHeld, answerNone, answerFull, answerConflict, answerLimited, answerFailed,
}

var takeName = regexp.MustCompile(`\b([A-Z]+)\.([a-z_]+)`)

// resolveNames puts numbers and words for the names in take.lua: CALL.margin
// becomes 3, CALL.size 9 and ANSWER.none 'none'. It costs a take nothing, and a name
// that is not defined ends the program at its start.
func resolveNames(script string) string {
	return takeName.ReplaceAllStringFunc(script, func(name string) string {
		group, member, _ := strings.Cut(name, ".")
		if group == "ANSWER" && slices.Contains(answerWords, member) {
			return "'" + member + "'"
		}
		if names := takeNames[group]; names != nil && member == "size" {
			return strconv.Itoa(len(names))
		} else if at := slices.Index(names, member); at >= 0 {
			return strconv.Itoa(at + 1)
		}
		panic("pool: take.lua uses a name that is not defined: " + name)
	})
}
