package purchase

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/spool"
)

// A token's age counts from the time of its callback minus the configured delay, or from the submit
// if that is later.
func TestTheAgeOfATokenFromACallback(t *testing.T) {
	for name, c := range map[string]struct{ mark, arrived, delay, born, lead time.Duration }{
		"the delay before it arrived": {0, 30 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second},
		"another delay":               {0, 30 * time.Second, time.Second, 29 * time.Second, 30 * time.Second},
		"no delay":                    {0, 30 * time.Second, 0, 30 * time.Second, 30 * time.Second},
		"after a late submit":         {4 * time.Second, 30 * time.Second, 10 * time.Second, 20 * time.Second, 26 * time.Second},
		"not before the mark":         {4 * time.Second, 6 * time.Second, 10 * time.Second, 4 * time.Second, 2 * time.Second},
		"a clock that went back":      {4 * time.Second, -time.Hour, 10 * time.Second, 4 * time.Second, 0},
		"never negative":              {0, time.Second, time.Hour, 0, time.Second},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newCallbackBuyer(t, "no letters")
			terms := callbackSettings("first")
			terms.Delay = c.delay
			s.reload(terms)
			o := s.order(t)
			// An order keeps the terms that applied when it was placed.
			terms.Delay = 7 * time.Minute
			s.reload(terms)
			time.Sleep(c.mark)
			s.startCollecting(t, o)
			told := callbackTo(s.provider.submitted.Pingback, "id=t1&code=03AFcallback")
			told.At = o.placed.Add(c.arrived)
			s.mustCall(t, told)
			l := s.stock.landed()
			if len(l) != 1 || l[0].SincePlaced != c.born || l[0].Lead != c.lead {
				t.Errorf("landed %+v, want it born %v after the placing, lead %v", l, c.born, c.lead)
			}
		})
	}
}

// If the daemon's clock is set ahead between submit and callback, the token does not live longer,
// because Redis knows when the order was placed.
func TestACallbackIsNotFromTheFuture(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		ended := s.startCollecting(t, o)
		time.Sleep(20 * time.Second)
		c := callbackTo(s.provider.submitted.Pingback, "id=t1&code=03AFcallback")
		c.At = c.At.Add(time.Hour)
		s.mustCall(t, c)
		if r := <-ended; r.Err != nil {
			t.Error(r.Err)
		}
		token, err := s.stock.other().Take(t.Context(), pool.Request{ID: o.Identity})
		if err != nil || token.TTL != 120*time.Second || token.Born.After(time.Now()) {
			t.Errorf("taken with a life of %v, born in %v: %v", token.TTL, time.Until(token.Born), err)
		}
	})
}

// If a callback is repeated after an outage of Redis, the token's age is counted from the first
// callback, even if the first callback could not be stored.
func TestARepeatedCallbackMakesNoTokenYounger(t *testing.T) {
	for _, disk := range []bool{true, false} {
		runBubble(t, fmt.Sprint(disk), func(t *testing.T) {
			s := newCallbackBuyer(t, filepath.Join(t.TempDir(), "l"))
			if !disk {
				s.buyer.callbacks.kept = spool.New("")
			}
			o := s.order(t)
			time.Sleep(15 * time.Second)
			s.stock.failSteps("look")
			_ = s.buyer.Callback(t.Context(), callbackTo(o.address(), "code=03AF")) // kept on disk, or refused with status 503
			time.Sleep(30 * time.Second)
			s.stock.failSteps()
			s.mustCall(t, callbackTo(o.address(), "code=03AF")) // the service repeats the callback before the next replay
			if l := s.stock.landed(); len(l) != 1 || l[0].SincePlaced != 5*time.Second {
				t.Errorf("born %v after the placing, want 5s: first arrival less the delay", l[0].SincePlaced)
			}
		})
	}
}
