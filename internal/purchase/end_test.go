package purchase

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

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
		pool.Bought:     {solved, failed, badParameters, uncollected, stopped, abandoned},
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

// The life of a token is known until an hour after it must be dead, at most two, and
// without a look through all lives at each order.
func TestLivesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLives()
		l.set("short", 2*time.Minute)
		l.set("long", 90*time.Minute)
		l.set("zero", 0)
		if l.get("short") != 2*time.Minute || l.get("never ordered") != uselessAfter || l.get("zero") != uselessAfter {
			t.Errorf("lives %v, %v, %v", l.get("short"), l.get("never ordered"), l.get("zero"))
		}
		time.Sleep(time.Hour + time.Minute)
		l.set("another", time.Minute)
		if l.get("short") != 2*time.Minute {
			t.Error("forgotten within an hour of its end")
		}
		time.Sleep(time.Hour - 2*time.Second)
		l.set("another", time.Minute)
		if len(l.of) != 3 {
			t.Errorf("each order looks through all lives: %v", l.of)
		}
		time.Sleep(2 * time.Second)
		l.set("another", time.Minute)
		if l.get("short") != uselessAfter || l.get("long") != 90*time.Minute || len(l.of) != 2 {
			t.Errorf("two hours later: %v", l.of)
		}
		for i := range 1000 {
			l.set(captcha.ID(strconv.Itoa(i)), time.Minute)
			time.Sleep(10 * time.Minute)
		}
		if len(l.of) > 13 {
			t.Errorf("%d lives are known, of orders each 10 min", len(l.of))
		}
	})
}
