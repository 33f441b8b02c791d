package kernel

import (
	"fmt"
	"testing"
	"time"
)

// Of equal lines about a caller, one is due in each period, with the number of lines that were left
// out. At most mostLines different lines are remembered for a caller. They do not affect the lines
// of other callers.
func TestEqualLinesAreDueOncePerPeriod(t *testing.T) {
	var l Repeats[string]
	at := time.Unix(1000, 0)
	check := func(caller, text string, after time.Duration, wantRepeats int, wantDue bool) {
		t.Helper()
		if repeats, due := l.Due(caller, text, time.Minute, at.Add(after)); repeats != wantRepeats || due != wantDue {
			t.Errorf("%s, %s, after %s: %d %v, want %d %v", caller, text, after, repeats, due, wantRepeats, wantDue)
		}
	}
	check("a", "x", 0, 0, true)
	check("a", "x", 59*time.Second, 0, false)
	check("a", "x", 59*time.Second, 0, false)
	check("a", "y", 59*time.Second, 0, true)
	check("b", "x", 59*time.Second, 0, true)
	check("a", "x", time.Minute, 2, true)
	check("a", "x", 2*time.Minute, 0, true)

	for i := range mostLines - 2 {
		check("a", fmt.Sprint(i), 2*time.Minute-1, 0, true)
	}
	check("a", "one more", 2*time.Minute-1, 0, true) // replaces y, whose period is over
	check("a", "another", 2*time.Minute, 0, false)
	check("b", "another", 2*time.Minute, 0, true)
	check("a", "another", 4*time.Minute, 0, true)
}

// Lines are logged for at most mostSenders senders. Senders whose lines are out of date make room
// for others.
func TestLinesOfManySenders(t *testing.T) {
	var r Repeats[int]
	at := time.Unix(1000, 0)
	due := func(sender int, after time.Duration) bool {
		_, due := r.Due(sender, "x", time.Minute, at.Add(after))
		return due
	}
	for i := range mostSenders {
		if !due(i, time.Duration(i%2)*time.Minute) {
			t.Fatalf("the line of sender %d is not due", i)
		}
	}
	for _, c := range []struct {
		sender int
		after  time.Duration
		want   bool
	}{{mostSenders, 59 * time.Second, false}, {0, time.Minute, true}, {mostSenders, time.Minute, true}, {mostSenders + 1, time.Minute, true}} {
		if got := due(c.sender, c.after); got != c.want {
			t.Errorf("sender %d after %s: %v, want %v", c.sender, c.after, got, c.want)
		}
	}
	if len(r.of) > mostSenders/2+3 || !r.Has(1, "x") || r.Has(2, "x") {
		t.Errorf("%d senders are remembered", len(r.of))
	}
}
