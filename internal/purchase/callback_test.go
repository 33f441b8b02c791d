package purchase

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/spool"
)

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
)

// calling are callbacks as a file has them.
func calling(secrets ...captcha.Secret) Callbacks {
	return Callbacks{URL: "https://poold.example.com", Secrets: secrets, Delay: 10 * time.Second}
}

// newCallbackBuyer is a buyer whose provider calls back.
func newCallbackBuyer(t *testing.T, letters string) *testBuyer {
	t.Helper()
	s := newTestBuyerWith(t, 5, letters)
	s.reload(calling("first", "second"))
	return s
}

// withCallbackBuyer runs a test in a bubble, with a buyer without a folder for dead letters.
func withCallbackBuyer(t *testing.T, test func(t *testing.T, s *testBuyer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newCallbackBuyer(t, "no letters")) })
}

// reload changes the provider's callbacks.
func (s *testBuyer) reload(c Callbacks) {
	s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: 5, Callbacks: c}})
}

// message is what a service sends now to an address that it was given.
func callbackTo(address, query string) Callback {
	parts := strings.Split(address, "/")
	n := len(parts)
	values, _ := url.ParseQuery(query)
	return Callback{Provider: parts[n-3], Order: parts[n-2], Secret: parts[n-1], Query: values, At: time.Now()}
}

// address is where the order's provider was told to call.
func (o *Order) address() string { return o.pingback }

// mustCall brings the buyer a callback that it must accept.
func (s *testBuyer) mustCall(t *testing.T, c Callback) {
	t.Helper()
	if err := s.buyer.Callback(t.Context(), c); err != nil {
		t.Errorf("callback = %v, want nil", err)
	}
}

// wantLeft tells what must be left in Redis and on this replica.
func (s *testBuyer) wantLeft(t *testing.T, orders, places, slots int) {
	t.Helper()
	if o, p := s.stock.counts(); o != orders || p != places || s.buyer.slots()[0] != slots {
		t.Errorf("left: %d orders, %d places, %d slots; want %d, %d, %d", o, p, s.buyer.slots()[0], orders, places, slots)
	}
}

// The form of the address is a promise: orders that were placed before an
// upgrade are called back after it.
func TestCallbackAddressStaysWhatItIs(t *testing.T) {
	ref := pool.Ref{Order: "ABCDEF", Identity: "0123456789abcdef0123456789abcdef"}
	const want = "https://poold.example.com/callback/one/ABCDEF.0123456789abcdef0123456789abcdef/SIGNATURE"
	signature := sign("first", "one", ref.String())
	if got := calling("first", "second").address("one", ref); got != strings.Replace(want, "SIGNATURE", signature, 1) {
		t.Errorf("address %s", got)
	}
	// HMAC-SHA256 with the key "first" of "one", a zero byte and the order, cut to 16 bytes.
	if signature != "5b294efa850d5f11ea1802cbe57ab100" {
		t.Errorf("signature %s", signature)
	}
	seen := map[string]bool{signature: true}
	for _, other := range []string{sign("second", "one", ref.String()), sign("first", "two", ref.String()), sign("first", "one", "x")} {
		if seen[other] {
			t.Errorf("signature %s proves nothing", other)
		}
		seen[other] = true
	}
	a, b := DeriveSecret("key"), DeriveSecret("another key")
	if a == b || a == "" || strings.Contains(a.Reveal(), "key") {
		t.Error("derived secrets do not depend on the key, or show it")
	}
}

func TestSubmitNamesThePingbackOnlyWithCallbacksOn(t *testing.T) {
	for name, c := range map[string]Callbacks{"on": calling("first", "second"), "off": {Secrets: []captcha.Secret{"first"}}} {
		withBuyer(t, 5, func(t *testing.T, s *testBuyer) {
			s.reload(c)
			o := s.order(t)
			if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
				t.Fatal(r.Err)
			}
			want := ""
			if name == "on" {
				want = c.URL + "/callback/one/" + o.String() + "/" + sign("first", "one", o.String())
			}
			if s.provider.submitted.Pingback != want {
				t.Errorf("callbacks %s: pingback %q, want %q", name, s.provider.submitted.Pingback, want)
			}
		})
	}
}

// Every form in which services tell of a token lands it at once: no poll, the
// wait of this replica ends, place and slot are free.
func TestCallbackSettles(t *testing.T) {
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
			ended := s.collecting(t, o)
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

// An error code ends the order as bought and failed.
func TestCallbackFails(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		ended := s.collecting(t, s.order(t))
		s.forget()
		s.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t1&code=ERROR_CAPTCHA_UNSOLVABLE"))
		if r := <-ended; r.Outcome != Failed {
			t.Errorf("collect = %v, want Failed", r.Err)
		}
		s.want(t, "fail bought=true", "release", "login at one: failed", "callback failed")
		s.wantLeft(t, 0, 0, 0)
		if s.stock.failures() != 1 || s.stock.tokens() != 0 {
			t.Errorf("%d failed, %d tokens", s.stock.failures(), s.stock.tokens())
		}
	})
}

func TestCallbackTwice(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		ended := s.collecting(t, s.order(t))
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

// callbackEndings are what callbacks say, what replicas tell each other of it, and
// what comes of the order.
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

// A fast service calls back before its answer to the submit has come.
func TestCallbackBeforeTheSubmitsAnswer(t *testing.T) {
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
				// Storing the task finds no order, and nothing is stored.
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

// An order whose submit had no answer has no task to be polled for; its
// callback collects it all the same.
func TestCallbackCollectsALostSubmit(t *testing.T) {
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

// The token is as old as the provider's delay before its callback arrived, but
// was not solved before its submit.
func TestCallbackBirth(t *testing.T) {
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
			terms := calling("first")
			terms.Delay = c.delay
			s.reload(terms)
			o := s.order(t)
			// Orders keep the terms that they were placed with.
			terms.Delay = 7 * time.Minute
			s.reload(terms)
			time.Sleep(c.mark)
			s.collecting(t, o)
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

// A callback may come to any replica; the one that waits is told by the stock.
func TestCallbackAtAnotherBuyerEndsTheWaiting(t *testing.T) {
	for text, want := range callbackEndings() {
		withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
			s.listening(t)
			o := s.order(t)
			ended := s.collecting(t, o)
			other := s.replica("no letters")
			other.reload(calling("first"))
			s.forget()
			began := time.Now()
			other.mustCall(t, callbackTo(s.provider.submitted.Pingback, text))
			told := len(s.all())
			s.buyer.Ended(pool.Ref{Order: "foreign"}, pool.Solved) // of no order here
			if r := <-ended; (r.Outcome != want.outcome || r.Hopeless != want.hopeless) || time.Since(began) != 0 {
				t.Errorf("%s: collect = %v after %v, want %v at once", text, r.Err, time.Since(began), want.outcome)
			}
			if got := s.all(); len(got) != told || s.provider.polls != 0 {
				t.Errorf("told again: %q, %d polls", got[told:], s.provider.polls)
			}
			s.wantLeft(t, 0, 0, 0)
		})
	}
}

// Where the news does not arrive, the waiting ends with the next renewal.
func TestCallbackAtAnotherBuyerThatIsNotHeard(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		stop := s.running(t)
		ended := s.collecting(t, s.order(t))
		other := s.replica("no letters")
		other.reload(calling("first"))
		began := time.Now()
		other.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t1&code=03AFcallback"))
		if r := <-ended; r.Outcome != Elsewhere || time.Since(began) != renewEvery {
			t.Errorf("collect = %v after %v, want Elsewhere after %v", r.Err, time.Since(began), renewEvery)
		}
		s.wantLeft(t, 0, 0, 0)
		stop()
	})
}

// With callbacks on polling is the backstop; without them it waits until a
// solve could be there.
func TestFirstPoll(t *testing.T) {
	for name, c := range map[string]struct {
		callbacks, explicit       bool
		limit, lifetime, shortest time.Duration
		want                      time.Duration // after the submit, whose answer took a second
	}{
		"explicit":                  {true, true, 3 * time.Minute, 120 * time.Second, 0, 33 * time.Second},
		"half the usable life":      {true, false, 3 * time.Minute, 120 * time.Second, 0, 40 * time.Second},
		"half the time-out":         {true, false, time.Minute, 120 * time.Second, 0, 30 * time.Second},
		"at most two minutes":       {true, false, time.Hour, time.Hour, 0, 120 * time.Second},
		"not by the shortest":       {true, false, 3 * time.Minute, 120 * time.Second, 70 * time.Second, 40 * time.Second},
		"off":                       {false, false, 3 * time.Minute, 120 * time.Second, 0, 16 * time.Second},
		"off, by the shortest":      {false, false, 3 * time.Minute, 120 * time.Second, 30 * time.Second, 26 * time.Second},
		"off, a very short one":     {false, false, 3 * time.Minute, 120 * time.Second, 18 * time.Second, 16 * time.Second},
		"off, whatever is explicit": {false, true, 3 * time.Minute, 120 * time.Second, 0, 16 * time.Second},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			terms := calling("first")
			if c.explicit {
				terms.Fallback = 33 * time.Second
			}
			if !c.callbacks {
				terms.URL = ""
			}
			s.reload(terms)
			s.provider.limit = c.limit
			var asked []time.Duration
			began := time.Now()
			s.provider.submit = func(context.Context) (string, error) {
				time.Sleep(time.Second)
				return "t1", nil
			}
			solved := notReady(3)
			s.provider.poll = func(ctx context.Context, n int) (provider.Solution, error) {
				asked = append(asked, time.Since(began))
				return solved(ctx, n)
			}
			target := spec()
			target.Lifetime, target.Shortest = c.lifetime, c.shortest
			slot, _, _ := mustAdmit(t, s.buyer)
			o, err := s.buyer.placer.place(t.Context(), slot, target)
			if err != nil {
				t.Fatal(err)
			}
			if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
				t.Fatal(r.Err)
			}
			if len(asked) != 3 || asked[0] != c.want {
				t.Fatalf("polls after %v, want three, the first after %v", asked, c.want)
			}
			for i := range 2 {
				if gap := asked[i+1] - asked[i]; !near(gap, 5*time.Second, 500*time.Millisecond) {
					t.Errorf("%v between polls, want the interval of 5s", gap)
				}
			}
		})
	}
}

// A daemon whose clock is set ahead in between gives no token a longer life: Redis
// knows when it came.
func TestACallbackIsNotFromTheFuture(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		o := s.order(t)
		ended := s.collecting(t, o)
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

// A callback that comes again after Redis was away brings a token as old as the
// first one did, also where the first could not be kept.
func TestARepeatedCallbackIsNoYounger(t *testing.T) {
	for _, disk := range []bool{true, false} {
		runBubble(t, fmt.Sprint(disk), func(t *testing.T) {
			s := newCallbackBuyer(t, filepath.Join(t.TempDir(), "l"))
			if !disk {
				s.buyer.callbacks.kept = spool.New("")
			}
			o := s.order(t)
			time.Sleep(15 * time.Second)
			s.stock.away("look")
			_ = s.buyer.Callback(t.Context(), callbackTo(o.address(), "code=03AF")) // kept, or 503
			time.Sleep(30 * time.Second)
			s.stock.away()
			s.mustCall(t, callbackTo(o.address(), "code=03AF")) // a repeat, before the next replay
			if l := s.stock.landed(); len(l) != 1 || l[0].SincePlaced != 5*time.Second {
				t.Errorf("born %v after the placing, want 5s: first arrival less the delay", l[0].SincePlaced)
			}
		})
	}
}

// However many secrets a provider has or had, the one that signs is known.
func TestTheSigningSecretStaysKnown(t *testing.T) {
	for _, once := range []bool{true, false} {
		runBubble(t, fmt.Sprint(once), func(t *testing.T) {
			s := newTestBuyer(t, 1)
			var all []captcha.Secret
			n := mostSecrets
			if once {
				n++
			}
			for i := range n {
				all = append(all, captcha.Secret(fmt.Sprint("secret", i)))
				if !once {
					s.reload(calling("constant", all[i]))
				}
			}
			if once {
				s.reload(calling(all...))
			}
			s.mustCall(t, callbackTo(s.order(t).address(), "code=03AF"))
			if s.stock.tokens() != 1 {
				t.Errorf("%q", s.all())
			}
		})
	}
}

type timed struct {
	witness
	took *time.Duration
}

func (x timed) Ended(e Event) { *x.took = e.Solved.Sub(e.Submitted) }

// A dead letter of a clock that was ahead tells no negative lead time.
func TestAClockThatWentBackGivesNoNegativeTime(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		var took time.Duration
		s.buyer.observe = timed{witness{s.ledger}, &took}
		c := callbackTo(s.order(t).address(), "code=03AF")
		c.At = c.At.Add(-time.Second)
		s.mustCall(t, c)
		if took < 0 {
			t.Errorf("told that it took %v", took)
		}
	})
}

// Where callbacks do not arrive, three tasks wait for theirs in vain; the next
// ones are polled from the start, until a callback comes after all.
func TestSilentCallbacksArePolledFor(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		tasks := 0
		s.provider.submit = func(context.Context) (string, error) {
			tasks++
			return fmt.Sprint("t", tasks), nil
		}
		first := func() time.Duration {
			t.Helper()
			o := s.order(t)
			var asked time.Time
			s.provider.poll = func(context.Context, int) (provider.Solution, error) {
				asked = time.Now()
				return provider.Solution{Token: "03AFexample"}, nil
			}
			if r := s.buyer.orders.collect(t.Context(), o); r.Err != nil {
				t.Fatal(r.Err)
			}
			return asked.Sub(o.placed)
		}
		silent := func() bool { return s.buyer.Providers(boundedCtx(t), time.Now())[0].Silent }
		for range silentAfter {
			if wait := first(); wait != 40*time.Second || silent() && s.buyer.accounts.listed[0].uncalled < silentAfter {
				t.Errorf("the first poll after %v, silent %v", wait, silent())
			}
		}
		if wait := first(); wait != 15*time.Second || !silent() {
			t.Errorf("then the first poll after %v, silent %v", wait, silent())
		}
		o := s.order(t)
		s.mustCall(t, callbackTo(o.address(), "code=03AFcallback"))
		if wait := first(); wait != 40*time.Second || silent() {
			t.Errorf("after a callback the first poll after %v, silent %v", wait, silent())
		}
	})
}

// Callbacks that arrive during an outage of Redis are kept on disk, and polling finds
// the tokens before they are replayed. They have arrived all the same, at whichever replica.
func TestCallbacksThatWereKeptAreNotMissing(t *testing.T) {
	for _, where := range []string{"at this replica", "at another replica"} {
		runBubble(t, where, func(t *testing.T) {
			s := newCallbackBuyer(t, filepath.Join(t.TempDir(), "letters"))
			called := s
			if where == "at another replica" {
				called = s.replica(filepath.Join(t.TempDir(), "letters"))
				called.reload(calling("first"))
			}
			tasks := 0
			s.provider.submit = func(context.Context) (string, error) {
				tasks++
				return fmt.Sprint("t", tasks), nil
			}
			const orders = silentAfter + 1
			var addresses []string
			var ended []<-chan Result
			for range orders {
				o := s.order(t)
				addresses = append(addresses, o.address())
				ended = append(ended, s.collecting(t, o))
			}
			time.Sleep(30 * time.Second)
			s.stock.away("")
			for i, address := range addresses {
				called.mustCall(t, callbackTo(address, fmt.Sprintf("id=t%d&code=03AFcallback-%d", i+1, i)))
			}
			if n := called.buyer.DeadLetterCount(); n != orders {
				t.Fatalf("%d of %d callbacks were kept", n, orders)
			}
			letters, err := called.buyer.DeadLetters()
			if err != nil || len(letters) != orders || letters[0].Reason != "redis does not answer" {
				t.Errorf("listed: %+v, %v", letters, err)
			}
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if s.provider.polls < orders {
				t.Fatalf("%d polls for %d orders, whose callbacks Redis did not take", s.provider.polls, orders)
			}
			s.stock.change(func() { s.stock.fault = nil })
			for _, end := range ended {
				if r := <-end; r.Outcome != Solved {
					t.Errorf("collect = %v, %v, want a token", r.Outcome, r.Err)
				}
			}
			called.mustReplay(t, Replayed{Dropped: orders})
			if s.buyer.Providers(boundedCtx(t), time.Now())[0].Silent {
				t.Error("callbacks that were kept on disk count as if they had not arrived")
			}
		})
	}
}

// A callback that brings nothing of use, so that its task is polled, has arrived.
func TestCallbacksOfNoUseAreNotMissing(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		tasks := 0
		s.provider.submit = func(context.Context) (string, error) {
			tasks++
			return fmt.Sprint("t", tasks), nil
		}
		s.provider.poll = func(_ context.Context, n int) (provider.Solution, error) {
			return provider.Solution{Token: fmt.Sprint("03AFpolled-", n)}, nil
		}
		var addresses []string
		var ended []<-chan Result
		for range silentAfter {
			o := s.order(t)
			addresses = append(addresses, o.address())
			ended = append(ended, s.collecting(t, o))
		}
		for _, address := range addresses {
			s.mustCall(t, callbackTo(address, "id=another&code=03AFcallback"))
		}
		for _, end := range ended {
			if r := <-end; r.Outcome != Solved {
				t.Errorf("collect = %v, %v, want a token", r.Outcome, r.Err)
			}
		}
		if s.buyer.Providers(boundedCtx(t), time.Now())[0].Silent {
			t.Error("callbacks about other tasks count as if none had arrived")
		}
	})
}
