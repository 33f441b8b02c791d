package purchase

import (
	"testing"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// All news that can come in a state have an end, and the promises hold in each: a budget
// is given back only where nothing was bought, and what may have been bought stays or
// is counted.
func TestEnds(t *testing.T) {
	can := map[pool.State][]news{
		pool.Intent:     {stopped, abandoned},
		pool.Submitting: {badParameters, failed, unavailable, unanswered, abandoned},
		pool.Bought:     {solved, failed, badParameters, stopped, abandoned},
		pool.Unknown:    {abandoned},
	}
	count := 0
	for state, all := range can {
		for _, n := range all {
			count++
			e := endOf(state, n)
			paid := state == pool.Bought || state == pool.Unknown || n == unanswered || state == pool.Submitting && n == abandoned
			if e.refund == paid {
				t.Errorf("%c, %s: refund %v", state, n, e.refund)
			}
			if e.script == "" || e.refund && e.script != remove {
				t.Errorf("%c, %s: script %q", state, n, e.script)
			}
			if (e.script == settle) != (n == solved) || (e.script == settle) != (e.outcome == Solved) {
				t.Errorf("%c, %s: %s, told as %s", state, n, e.script, e.outcome)
			}
			if e.hopeless != (n == badParameters) {
				t.Errorf("%c, %s: hopeless %v", state, n, e.hopeless)
			}
			if (e.outcome == "") != (n == abandoned) {
				t.Errorf("%c, %s: told as %q", state, n, e.outcome)
			}
		}
	}
	if count != len(ends) {
		t.Errorf("%d of the %d ends can come", count, len(ends))
	}
}

// What replicas tell each other of a callback is understood as it was meant.
func TestWordsBetweenReplicas(t *testing.T) {
	for text, n := range map[string]notice{
		pool.Solved:                     {news: solved, callback: true},
		"refused ERROR_WRONG_GOOGLEKEY": {news: badParameters, code: "ERROR_WRONG_GOOGLEKEY", callback: true},
		"ERROR_CAPTCHA_UNSOLVABLE":      {news: failed, code: "ERROR_CAPTCHA_UNSOLVABLE", callback: true},
		pool.RepeatedText:               {news: failed, code: pool.RepeatedText, callback: true},
	} {
		got := readMessage(text)
		if (got.err == nil) != (n.news == solved) || got.err != nil && got.err.Error() != n.code {
			t.Errorf("%q: error %v", text, got.err)
		}
		got.err = nil
		if got != n || n.message() != text {
			t.Errorf("%q is readMessage as %+v, and said as %q", text, got, n.message())
		}
	}
}

// Lives of tokens are known for a day after the last order, and no longer.
func TestLivesAreForgotten(t *testing.T) {
	l := newLives()
	l.set("a", 7)
	l.set("zero", 0)
	if l.get("a") != 7 || l.get("b") != uselessAfter || l.get("zero") != uselessAfter {
		t.Errorf("lives %v, %v, %v", l.get("a"), l.get("b"), l.get("zero"))
	}
	old := l.of["a"]
	old.known = old.known.Add(-uselessAfter - 1)
	l.of["a"] = old
	l.set("c", 8)
	if _, known := l.of[captcha.ID("a")]; !known {
		t.Error("each order looks through all lives")
	}
	l.sweep = l.sweep.Add(-uselessAfter)
	l.set("d", 9)
	if _, known := l.of["a"]; known || l.get("c") != 8 || l.get("d") != 9 {
		t.Errorf("a life of more than a day ago is known: %v, or others are not", known)
	}
}
