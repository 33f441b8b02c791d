package purchase

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase/signature"
)

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
)

// callbackSettings returns the callback settings with these secrets.
func callbackSettings(secrets ...captcha.Secret) Callbacks {
	return Callbacks{URL: "https://poold.example.com", Secrets: secrets, Delay: 10 * time.Second}
}

// newCallbackBuyer returns a buyer whose provider sends callbacks.
func newCallbackBuyer(t *testing.T, letters string) *testBuyer {
	t.Helper()
	s := newTestBuyerWith(t, 5, letters)
	s.reload(callbackSettings("first", "second"))
	return s
}

// withCallbackBuyer runs a test in a bubble. The buyer has callbacks, but no folder for dead letters.
func withCallbackBuyer(t *testing.T, test func(t *testing.T, s *testBuyer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newCallbackBuyer(t, "no letters")) })
}

// reload replaces the provider's callback settings.
func (s *testBuyer) reload(c Callbacks) {
	s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: 5, Callbacks: c}})
}

// callbackTo returns a callback that a service sends now, for an address and a query.
func callbackTo(address, query string) Callback {
	parts := strings.Split(address, "/")
	n := len(parts)
	values, _ := url.ParseQuery(query)
	return Callback{Provider: parts[n-3], Order: parts[n-2], Secret: parts[n-1], Query: values, At: time.Now()}
}

func (o *Order) address() string { return o.pingback }

// mustCall handles a callback; an error fails the test.
func (s *testBuyer) mustCall(t *testing.T, c Callback) {
	t.Helper()
	if err := s.buyer.Callback(t.Context(), c); err != nil {
		t.Errorf("callback = %v, want nil", err)
	}
}

// wantLeft checks how many orders and permits are in Redis, and how many slots are in use at this
// replica.
func (s *testBuyer) wantLeft(t *testing.T, orders, places, slots int) {
	t.Helper()
	if o, p := s.stock.counts(); o != orders || p != places || s.buyer.slots()[0] != slots {
		t.Errorf("left: %d orders, %d permits, %d slots; want %d, %d, %d", o, p, s.buyer.slots()[0], orders, places, slots)
	}
}

// The form of an address never changes, because a callback may arrive after an upgrade of poold.
func TestTheCallbackAddressIsStable(t *testing.T) {
	ref := pool.Ref{Order: "ABCDEF", Identity: "0123456789abcdef0123456789abcdef"}
	const want = "https://poold.example.com/callback/one/ABCDEF.0123456789abcdef0123456789abcdef/SIGNATURE"
	own := signature.Of("first", "one", ref.String())
	if got := callbackSettings("first", "second").address("one", ref); got != strings.Replace(want, "SIGNATURE", own, 1) {
		t.Errorf("address %s", got)
	}
	// The expected text is the first 16 bytes of the HMAC-SHA256 of "one", a zero byte and the order,
	// with the key "first".
	if own != "5b294efa850d5f11ea1802cbe57ab100" {
		t.Errorf("signature %s", own)
	}
	seen := map[string]bool{own: true}
	for _, other := range []string{signature.Of("second", "one", ref.String()), signature.Of("first", "two", ref.String()), signature.Of("first", "one", "x")} {
		if seen[other] {
			t.Errorf("signature %s proves nothing", other)
		}
		seen[other] = true
	}
	a, b := signature.Derive("key"), signature.Derive("another key")
	if a == b || a == "" || strings.Contains(a.Reveal(), "key") {
		t.Error("derived secrets do not depend on the key, or show it")
	}
}

// A callback with a token in any form lands the token immediately, without a poll. The order's
// goroutine ends, and the permit and the slot are freed.
func TestACallbackSettlesItsOrder(t *testing.T) {
	for name, change := range map[string]func(*Callback){
		"a query": func(c *Callback) { c.Query = url.Values{"id": {"t1"}, "code": {"03AFcallback"}} },
		"a form":  func(c *Callback) { c.ContentType, c.Body = formType, []byte("id=t1&code=03AFcallback") },
		"JSON":    func(c *Callback) { c.ContentType, c.Body = jsonType, []byte(`{"id":"t1","code":"03AFcallback"}`) },
		"a result": func(c *Callback) {
			c.ContentType = jsonType
			c.Body = []byte(`{"errorId":0,"status":"ready","taskId":"t1","solution":{"token":"03AFcallback"}}`)
		},
		"without a task": func(c *Callback) { c.Query = url.Values{"code": {"03AFcallback"}} },
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newCallbackBuyer(t, "no letters")
			o := s.order(t)
			ended := s.startCollecting(t, o)
			time.Sleep(20 * time.Second)
			s.forget()
			c := callbackTo(s.provider.submitted.Pingback, "")
			change(&c)
			s.mustCall(t, c)
			if r := <-ended; r.Err != nil {
				t.Errorf("collect = %v", r.Err)
			}
			s.want(t, "settle", "release", "login at one: solved", "callback settled")
			s.wantLeft(t, 0, 0, 0)
			l := s.stock.landed()
			if len(l) != 1 || l[0].Ref != o.Ref || l[0].Value != "03AFcallback" || !l[0].Callback || l[0].Provider != "one" || l[0].Lifetime != 120*time.Second {
				t.Errorf("landings %+v", l)
			}
		})
	}
}

func TestARepeatedCallbackIsUnknown(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		ended := s.startCollecting(t, s.order(t))
		c := callbackTo(s.provider.submitted.Pingback, "id=t1&code=03AFcallback")
		s.mustCall(t, c)
		if r := <-ended; r.Err != nil {
			t.Error(r.Err)
		}
		s.forget()
		s.mustCall(t, c)
		s.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t1&code=ERROR_CAPTCHA_UNSOLVABLE"))
		s.want(t, "callback unknown", "callback unknown")
		if n := len(s.stock.landed()); n != 1 || s.stock.failures() != 0 {
			t.Errorf("%d tokens, %d failed", n, s.stock.failures())
		}
	})
}

// callbackEndings lists callbacks. For each callback it gives the message to other replicas and the
// end of the order.
func callbackEndings() map[string]struct {
	how      string
	outcome  Outcome
	hopeless bool
} {
	return map[string]struct {
		how      string
		outcome  Outcome
		hopeless bool
	}{
		"id=t1&code=03AFcallback":    {pool.Solved, Solved, false},
		"id=t1&code=ERROR_X":         {"ERROR_X", Failed, false},
		"id=t1&code=ERROR_GOOGLEKEY": {"refused ERROR_GOOGLEKEY", Failed, true},
	}
}

// A fast service sends the callback before its answer to the submit.
func TestACallbackMayPrecedeTheSubmitsAnswer(t *testing.T) {
	for text, want := range callbackEndings() {
		withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
			s.provider.submit = func(ctx context.Context) (string, error) {
				if err := s.buyer.Callback(ctx, callbackTo(s.provider.submitted.Pingback, text)); err != nil {
					t.Error(err)
				}
				return "t1", nil
			}
			if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Outcome != want.outcome || r.Hopeless != want.hopeless {
				t.Errorf("%s: collect = %+v, want %v", text, r, want.outcome)
			}
			s.wantLeft(t, 0, 0, 0)
			if want.outcome == Solved {
				// When the task id is stored, the order no longer exists.
				s.want(t, "mark", "submit", "claim t1", "settle", "release", "login at one: solved", "callback settled", "claim t1", "store t1", "release")
			} else {
				s.want(t, "mark", "submit", "claim t1", "fail bought=true", "release", "login at one: failed", "callback failed", "claim t1", "store t1", "release")
			}
			if s.stock.tokens()+s.stock.failures() != 1 || s.provider.polls != 0 {
				t.Errorf("%d tokens, %d failed, %d polls", s.stock.tokens(), s.stock.failures(), s.provider.polls)
			}
		})
	}
}

// An order whose submit had no answer has no task id and is not polled. A callback still ends the
// order.
func TestACallbackCollectsALostSubmit(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		s.provider.submit = func(context.Context) (string, error) {
			return "", &provider.Error{Class: provider.Capacity, Code: "EOF", Unknown: true}
		}
		if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Outcome != Lost {
			t.Fatalf("collect = %v, want Lost", r.Err)
		}
		s.wantLeft(t, 1, 1, 0)
		s.forget()
		time.Sleep(time.Minute)
		s.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t7&code=03AFcallback"))
		s.want(t, "claim t7", "settle", "release", "login at one: solved", "callback settled")
		s.wantLeft(t, 0, 0, 0)
		if l := s.stock.landed(); len(l) != 1 || l[0].Task != "t7" {
			t.Errorf("landings %+v", l)
		}
	})
}

// A callback may arrive at any replica. A message through Redis reaches the replica that runs the
// order.
func TestACallbackAtAnotherReplicaEndsTheOrderHere(t *testing.T) {
	for text, want := range callbackEndings() {
		withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
			s.subscribe(t)
			o := s.order(t)
			ended := s.startCollecting(t, o)
			other := s.replica("no letters")
			other.reload(callbackSettings("first"))
			s.forget()
			began := time.Now()
			other.mustCall(t, callbackTo(s.provider.submitted.Pingback, text))
			told := len(s.all())
			s.buyer.Ended(pool.Ref{Order: "foreign"}, pool.Solved) // this replica has no such order
			if r := <-ended; (r.Outcome != want.outcome || r.Hopeless != want.hopeless) || time.Since(began) != 0 {
				t.Errorf("%s: collect = %v after %v, want %v at once", text, r.Err, time.Since(began), want.outcome)
			}
			if got := s.all(); len(got) != told || s.provider.polls != 0 {
				t.Errorf("reported again: %q, %d polls", got[told:], s.provider.polls)
			}
			s.wantLeft(t, 0, 0, 0)
		})
	}
}

// Another replica receives a callback, and its message to this replica is lost. This replica ends
// the order when it next renews the lease.
func TestARenewalNoticesACallbackAtAnotherReplica(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		stop := s.startRunning(t)
		ended := s.startCollecting(t, s.order(t))
		other := s.replica("no letters")
		other.reload(callbackSettings("first"))
		began := time.Now()
		other.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t1&code=03AFcallback"))
		if r := <-ended; r.Outcome != Elsewhere || time.Since(began) != renewEvery {
			t.Errorf("collect = %v after %v, want Elsewhere after %v", r.Err, time.Since(began), renewEvery)
		}
		s.wantLeft(t, 0, 0, 0)
		stop()
	})
}
