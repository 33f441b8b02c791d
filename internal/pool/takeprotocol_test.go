package pool

import "testing"

// The sizes in takecall.go are those of the lists in take.lua's header.
func TestSizesOfATake(t *testing.T) {
	take := loadScripts(0).Get("take")
	for label, want := range map[string]int{
		"ARGV": callSize, "DEPARTURE": departureSize, "OUTCOME": outcomeRefused, "WAITER": waiterSize, "Reply": replyHead,
	} {
		if got := len(take.Names(label)); got != want {
			t.Errorf("%s of take.lua has %d names, want %d", label, got, want)
		}
	}
}
