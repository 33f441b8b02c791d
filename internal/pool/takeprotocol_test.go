package pool

import (
	"regexp"
	"slices"
	"testing"
)

// The constants of takeprotocol.go have the positions of the names in take.lua's header, and
// take.lua answers with the same words.
func TestBothSidesOfATake(t *testing.T) {
	take := loadScripts(0).Get("take")
	for label, want := range map[string][]string{
		"ARGV": {
			callNumber: "number", callReceiptLife: "receipt_ms", callMargin: "margin_ms", callRate: "rate", callRatePer: "rate_per_ms",
			callMostWaiting: "most_waiting", callImmediate: "immediate", callDepartures: "departures", callWaiters: "waiters", callSize: "",
		},
		"DEPARTURE": {departureTicket: "ticket", departureOutcome: "outcome", departureHolder: "holder", departureSize: ""},
		"OUTCOME":   {outcomeMissed - 1: "missed", outcomeRefused - 1: "refused", outcomeRefused: ""},
		"WAITER": {
			waiterTicket: "ticket", waiterArrival: "arrival", waiterNeed: "need_ms",
			waiterOnce: "once", waiterMinTTL: "min_ttl", waiterHolder: "holder", waiterTold: "told", waiterSize: "",
		},
		"Reply": {replyNow: "now", replyRateWait: "rate_wait_ms", replyHead: ""},
	} {
		if got := append(take.Names(label), ""); !slices.Equal(got, want) {
			t.Errorf("%s of take.lua: %q, want %q", label, got, want)
		}
	}
	words := []string{
		answerToken, answerReplay, answerParked, answerHeld, answerNone, answerFull, answerConflict, answerLimited, answerFailed,
	}
	var answers []string
	for _, found := range regexp.MustCompile(`(?:\{|and |or )'([a-z]+)'[ ,]`).FindAllStringSubmatch(take.Text, -1) {
		answers = append(answers, found[1])
	}
	for _, word := range words {
		if !slices.Contains(answers, word) {
			t.Errorf("take.lua never answers %q", word)
		}
	}
}
