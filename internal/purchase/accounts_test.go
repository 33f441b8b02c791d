//go:build !race

package purchase_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/testkit"
)

// keyed returns a provider with a key of the same account, and its listing.
func keyed(key string) (*fake, purchase.Listing) {
	f := newFake("main")
	e := f.listing()
	e.Fingerprint = key
	return f, e
}

// Orders in flight are asked for with the present key; if the service refuses it or does not know the task, with
// the key that submitted them. A fault of one key never brakes another one.
func TestKeyRotation(t *testing.T) {
	wrongKey := fails(provider.Account, "ERROR_KEY_DOES_NOT_EXIST")
	unknownTask := fails(provider.Task, "ERROR_WRONG_CAPTCHA_ID")
	for _, c := range []struct {
		name               string
		old, new           error // of polls with the keys
		oldPolls, newPolls int
		kinds, brake       string
	}{
		{name: "the new key sees the task", old: wrongKey, newPolls: 1, kinds: "active solved"},
		{name: "another account, the old key valid", new: unknownTask, oldPolls: 1, newPolls: 1, kinds: "active solved"},
		{name: "another account, the old key revoked", old: wrongKey, new: unknownTask, oldPolls: 1, newPolls: 1,
			kinds: "active failed"},
		{name: "a revoked key in an old file", new: wrongKey, oldPolls: 1, newPolls: 1, kinds: "active solved",
			brake: "account"},
	} {
		bubble(t, c.name, func(t *testing.T, w *world) {
			before, listing := keyed("old")
			after, present := keyed("new")
			before.pollErr, after.pollErr = c.old, c.new
			r := w.replica("r1", listing)
			r.mustBuy(spec())
			time.Sleep(5 * second)
			r.SetProviders([]purchase.Listing{present})
			time.Sleep(6 * second)
			testkit.Equal(t, "polls with the old key", before.polled(), c.oldPolls)
			testkit.Equal(t, "polls with the new key", after.polled(), c.newPolls)
			testkit.Equal(t, "rows in the outbox", w.kinds(), c.kinds)
			testkit.Equal(t, "brake of the old key", w.brake("main.old"), "")
			testkit.Equal(t, "brake of the new key", w.brake("main.new"), c.brake)
		})
	}
	bubble(t, "a key is revoked before the file has the new one", func(t *testing.T, w *world) {
		before, listing := keyed("old")
		after, present := keyed("new")
		before.pollErr = wrongKey
		r := w.replica("r1", listing)
		for range 4 {
			r.mustBuy(spec())
		}
		time.Sleep(30 * second)
		testkit.Equal(t, "brake of the old key", w.brake("main.old"), "account")
		r.mustRefuse(spec(), pool.ReasonBrake)
		r.SetProviders([]purchase.Listing{present})
		time.Sleep(5 * second)
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active active active active solved solved solved solved")
		r.mustBuy(spec())
		testkit.Equal(t, "submits with the new key", after.submitted(), 1)
		testkit.Equal(t, "logged", r.log.Count("a provider is up again"), 1)
		testkit.Equal(t, "state", r.state(0), provider.StateOK)
	})
	bubble(t, "a wrong key is replaced by another wrong one, and by a good one", func(t *testing.T, w *world) {
		refuses := func(f *fake) { f.submitErr, f.threads, f.threadsErr = wrongKey, 1, wrongKey }
		before, listing := keyed("old")
		refuses(before)
		r := w.replica("r1", listing)
		_ = r.buy(spec())
		time.Sleep(2400 * time.Millisecond)
		typo, replaced := keyed("typo")
		refuses(typo)
		good, repaired := keyed("good")
		good.balance = new(9.0)
		for _, c := range []struct {
			listing purchase.Listing
			state   provider.StateKind
			ups     int
		}{{replaced, provider.StateDown, 0}, {repaired, provider.StateOK, 1}} {
			r.SetProviders([]purchase.Listing{c.listing})
			testkit.Equal(t, "at once with "+c.listing.Fingerprint, r.state(0), provider.StateDown)
			time.Sleep(2400 * time.Millisecond)
			testkit.Equal(t, "after the first calls of "+c.listing.Fingerprint, r.state(0), c.state)
			ups := r.log.Count("a provider is up again", "took=5s") + r.log.Count("a provider is up again", "took=6s")
			testkit.Equal(t, "logged, with the time since the first fault", ups, c.ups)
		}
	})
	bubble(t, "an account is removed, and another one renamed", func(t *testing.T, w *world) {
		f, listing := keyed("k")
		r := w.replica("r1", listing)
		r.mustBuy(spec())
		r.mustBuy(spec())
		time.Sleep(9 * second)
		r.SetProviders(nil) // the memory has the account
		time.Sleep(2 * second)
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active active solved solved")
		r.SetProviders([]purchase.Listing{listing})
		f.fail(nil, provider.ErrNotReady)
		r.mustBuy(spec())
		r.stop()
		next := newFake("other")
		renamed := next.listing()
		renamed.Fingerprint = "k"
		two := w.replica("r2") // its file has no provider: the order is stranded until the reload
		time.Sleep(10 * second)
		testkit.Equal(t, "logged", two.log.Count("cannot be collected", "provider=main"), 1)
		two.SetProviders([]purchase.Listing{renamed})
		time.Sleep(4 * second)
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active active solved solved active solved")
	})
}

// The first poll comes when the task may be solved, or after the fallback time; the last one at the timeout.
func TestPollTimes(t *testing.T) {
	for _, c := range []struct {
		name                            string
		called                          bool
		fallback, limit, life, shortest time.Duration
		first                           string
	}{
		{name: "the first poll without callbacks", limit: 60 * second, first: "10"},
		{name: "the first poll by the shortest lead time", limit: 60 * second, shortest: 30 * second, first: "25"},
		{name: "the first poll is not before the first wait", limit: 60 * second, shortest: 12 * second, first: "10"},
		{name: "the first poll at the fallback time", called: true, fallback: 33 * second, limit: 90 * second, first: "33"},
		{name: "the fallback is at most half the time-out", called: true, limit: 60 * second, first: "30"},
		{name: "the fallback is at most half the life", called: true, limit: 180 * second, life: 90 * second, first: "40"},
		{name: "the fallback is at most two minutes", called: true, limit: time.Hour, life: time.Hour, first: "120"},
	} {
		bubble(t, c.name, func(t *testing.T, w *world) {
			f := newFake("main")
			f.limit, f.pollErr = c.limit, provider.ErrNotReady
			e := f.listing()
			e.Callbacks.Fallback = c.fallback
			if c.called {
				e.Callbacks.URL, e.Callbacks.Secrets = "https://poold", []captcha.Secret{"s"}
			}
			r := w.replica("r1", e)
			s := spec()
			s.Lifetime, s.Shortest = cmp.Or(c.life, s.Lifetime), c.shortest
			r.mustBuy(s)
			time.Sleep(c.limit + second)
			times := strings.Fields(f.pollTimes())
			testkit.Equal(t, "first poll", times[0], c.first)
			testkit.Equal(t, "last poll", times[len(times)-1], fmt.Sprintf("%.0f", c.limit.Seconds()))
			testkit.AtMost(t, "polls", len(times), int((c.limit-10*second)/(4*second)))
		})
	}
}

// A token is born at the last poll that was answered "not ready", else at its submit, unless the service says
// when it was solved.
func TestTheAgeOfAPolledToken(t *testing.T) {
	for _, c := range []struct {
		name  string
		polls []error // before the token
		born  time.Duration
	}{
		{name: "the first poll brings the token", born: 2 * second},
		{name: "the poll before says not ready", polls: []error{provider.ErrNotReady}, born: 14 * second},
		{name: "the last poll has no answer", polls: []error{provider.ErrNotReady, unheard("http_502")}, born: 14 * second},
	} {
		bubble(t, c.name, func(t *testing.T, w *world) {
			f := newFake("main")
			f.submit = func(int, provider.Submission) (string, error) { time.Sleep(2 * second); return "T1", nil }
			f.poll = func(n int, _ string) (provider.Solution, error) {
				if n <= len(c.polls) {
					return provider.Solution{}, c.polls[n-1]
				}
				return provider.Solution{Token: "03AF"}, nil
			}
			r := w.replica("r1", f.listing())
			at := time.Now()
			r.buys.Go(func() {
				r.Buy(t.Context(), spec(), func(captcha.ID, error) { time.Sleep(2 * second) })
			})
			time.Sleep(40 * second)
			_, born := w.take(r)
			testkit.Equal(t, "born after", born.Sub(at).Round(second), c.born)
			testkit.AtLeast(t, "noticed after", r.ended[0].Submitted.Add(r.took).Sub(at), c.born+4*second)
		})
	}
}

// While the service refuses an account, nothing is submitted but a probe each minute; orders in flight are
// asked for once a minute, and at the timeout. An accepted probe ends it.
func TestAnAccountFault(t *testing.T) {
	bubble(t, "a fault of the account at a poll stops submits", func(t *testing.T, w *world) {
		f := newFake("main")
		f.pollErr = fails(provider.Account, "IP_BANNED")
		r := w.replica("r1", f.listing())
		r.mustBuy(spec())
		f.fail(f.pollErr, f.pollErr)
		time.Sleep(11*second + second/2) // a poll is before the order that the end of the brake would allow
		tryFor(119, r)
		testkit.Equal(t, "polls", f.pollTimes(), "10 70 120")
		testkit.Equal(t, "submits: the polls are the probes", f.submitted(), 1)
		testkit.Equal(t, "rows in the outbox", strings.Count(w.kinds(), "lost"), 1)
	})
	bubble(t, "only submits fail: orders in flight are asked for as before", func(t *testing.T, w *world) {
		f := newFake("main")
		f.pollErr = provider.ErrNotReady
		r := w.replica("r1", f.listing())
		r.mustBuy(spec())
		f.fail(fails(provider.Account, "IP_BANNED"), f.pollErr)
		_ = r.buy(spec())
		time.Sleep(31 * second)
		testkit.Equal(t, "brake", w.brake("main.main-key"), "account")
		testkit.AtLeast(t, "polls", len(strings.Fields(f.pollTimes())), 4)
	})
	bubble(t, "submits fail", func(t *testing.T, w *world) {
		f := newFake("main")
		f.submitErr = fails(provider.Account, "ERROR_ZERO_BALANCE")
		one, two := w.replica("r1", f.listing()), w.replica("r2", f.listing())
		tryFor(185, one, two)
		testkit.Equal(t, "submits", f.submitted(), 4)
		s := two.Providers(t.Context())[0]
		if s.State.Kind != provider.StateDown || s.State.Reason != "ERROR_ZERO_BALANCE" || s.State.Remedy != "repair it" {
			t.Errorf("the provider is not down for want of money: %+v", s)
		}
		f.fail(nil, nil)
		testkit.NoError(t, two.Probe(t.Context(), "main"))
		two.mustBuy(spec())
		time.Sleep(2 * second)
		one.mustBuy(spec())
		testkit.Equal(t, "state", one.state(0), provider.StateOK)
	})
	bubble(t, "polls fail, and orders of another provider prove nothing", func(t *testing.T, w *world) {
		f, other := newFake("main"), newFake("other")
		f.pollErr, other.pollErr = fails(provider.Account, "ERROR_KEY_DOES_NOT_EXIST"), provider.ErrNotReady
		one, two := w.replica("r1", f.listing(), other.listing()), w.replica("r2", f.listing(), other.listing())
		s := spec()
		s.Depth = 2
		one.mustBuy(s)
		one.mustBuy(s)
		one.mustRefuse(s, pool.ReasonEnough)
		time.Sleep(12 * second)
		testkit.Equal(t, "decisions", fmt.Sprint(one.turns), fmt.Sprint([]captcha.ID{s.ID, s.ID}))
		two.mustBuy(s)
		two.mustBuy(s)
		two.mustRefuse(s, pool.ReasonEnough)
		testkit.Equal(t, "submits", fmt.Sprint(f.submitted(), other.submitted()), "2 2")
		testkit.Equal(t, "logged", two.log.Count("level=ERROR", "a provider is down", "the other providers get"), 1)
	})
	bubble(t, "no token comes: only a token ends it, and another provider gets the orders", func(t *testing.T, w *world) {
		f, other := newFake("main"), newFake("other")
		f.pollErr, other.pollErr = provider.ErrNotReady, provider.ErrNotReady
		f.limit, f.balance = 500*second, new(9.0)
		one, two := w.replica("r1", f.listing(), other.listing()), w.replica("r2", f.listing(), other.listing())
		s := spec()
		one.mustBuy(s)
		time.Sleep(time.Minute)
		testkit.Equal(t, "of an unknown lead time", w.brake("main.main-key"), "")
		s.Depth, s.Usual = 2, 5*second
		one.mustBuy(s)
		time.Sleep(19 * second)
		testkit.Equal(t, "within four times the usual time", w.brake("main.main-key"), "")
		time.Sleep(11 * second)                            // the pauses between polls are random
		testkit.NoError(t, one.Probe(t.Context(), "main")) // a balance proves nothing, but the next order goes there
		time.Sleep(1500 * time.Millisecond)
		two.mustBuy(s)
		time.Sleep(10 * second)
		two.mustBuy(s)
		two.mustBuy(s)
		state := two.Providers(t.Context())[0].State
		testkit.Equal(t, "state", fmt.Sprint(state.Kind, " ", time.Since(state.Since).Round(10*second)), "down 40s")
		testkit.Equal(t, "submits", fmt.Sprint(f.submitted(), other.submitted()), "3 2")
		f.fail(nil, nil)
		time.Sleep(10 * second)
		testkit.Equal(t, "state after a token", two.state(0), provider.StateOK)
	})
	bubble(t, "no token comes, and the usual time is near the time-out", func(t *testing.T, w *world) {
		f := newFake("main")
		f.pollErr, f.limit = provider.ErrNotReady, 40*second
		r, s := w.replica("r1", f.listing()), spec()
		s.Usual = 20 * second
		r.mustBuy(s)
		time.Sleep(37 * second)
		testkit.Equal(t, "brake before the timeout", w.brake("main.main-key"), "hangs")
	})
	bubble(t, "a balance disproves a fault of the account", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", f.listing())
		for _, c := range []struct {
			fault   string
			balance float64
			state   provider.StateKind
		}{
			{"ERROR_ZERO_BALANCE", 0, provider.StateDown}, {"ERROR_ZERO_BALANCE", 9, provider.StateOK},
			{"ERROR_KEY_DOES_NOT_EXIST", 9, provider.StateOK}, {"ERROR_IP_NOT_ALLOWED", 9, provider.StateDown},
		} {
			f.fail(fails(provider.Account, c.fault), nil)
			f.set(func() { f.balance = &c.balance })
			time.Sleep(2 * time.Minute) // until a probe is due
			_ = r.buy(spec())
			time.Sleep(2 * second)
			testkit.Equal(t, c.fault, r.state(0), provider.StateDown)
			testkit.NoError(t, r.Probe(t.Context(), "main"))
			time.Sleep(2 * second)
			testkit.Equal(t, fmt.Sprint(c.fault, " with ", c.balance), r.state(0), c.state)
		}
	})
	bubble(t, "a fault of the account is seen before the first order", func(t *testing.T, w *world) {
		f := newFake("main")
		f.threads, f.threadsErr = 1, fails(provider.Account, "ERROR_WRONG_USER_KEY")
		r := w.replica("r1", f.listing())
		time.Sleep(second)
		testkit.Equal(t, "brake", w.brake("main.main-key"), "account")
		testkit.Equal(t, "state", r.state(0), provider.StateDown)
	})
}

// Without proper answers to the calls of several orders there is an outage: polls that fail stop submits, and
// end it when they work; the odd answers of one task are that task's fault.
func TestOutages(t *testing.T) {
	bubble(t, "polls fail", func(t *testing.T, w *world) {
		f := newFake("main")
		f.pollErr = unheard("odd")
		r := w.replica("r1", f.listing())
		tryFor(100, r)
		testkit.Equal(t, "submits until the polls fail", f.submitted(), 10)
		testkit.Equal(t, "brake", w.brake("main.main-key"), "polls")
		f.fail(nil, nil)
		time.Sleep(7 * second)
		testkit.Equal(t, "brake", w.brake("main.main-key"), "")
		testkit.Equal(t, "solved", strings.Count(w.kinds(), "solved"), 10)
		r.mustBuy(spec())
	})
	bubble(t, "polls of one task fail", func(t *testing.T, w *world) {
		f := newFake("main")
		f.poll = func(_ int, task string) (provider.Solution, error) {
			if task == "main1" {
				return provider.Solution{}, unheard("odd")
			}
			return provider.Solution{}, provider.ErrNotReady
		}
		r := w.replica("r1", f.listing())
		r.mustBuy(spec())
		time.Sleep(60 * second)
		testkit.Equal(t, "brake", w.brake("main.main-key"), "")
		r.mustBuy(spec())
		time.Sleep(40 * second)
		testkit.Equal(t, "brake", w.brake("main.main-key"), "")
	})
	bubble(t, "submits fail", func(t *testing.T, w *world) {
		f := newFake("main")
		f.submitErr = unheard("http_502")
		e := f.listing()
		e.Concurrency = 100
		r := w.replica("r1", e)
		tryFor(26, r)
		testkit.Equal(t, "submits: five, and one each 10 s", f.submitted(), 7)
		testkit.Equal(t, "logged", r.log.Count("a submit got no proper answer"), 1)
		s := r.Providers(t.Context())[0]
		testkit.Equal(t, "reason", s.State.Reason, "no proper answer: http_502")
		f.fail(nil, nil)
		time.Sleep(9 * second)
		r.mustBuy(spec())
		r.mustBuy(spec())
	})
	bubble(t, "the service's front refuses submits", func(t *testing.T, w *world) {
		f := newFake("main")
		f.submitErr = &provider.Error{Class: provider.Capacity, Code: "http_503", Delay: 5 * second}
		one, two := w.replica("r1", f.listing()), w.replica("r2", f.listing())
		for range 10 { // the pauses of a busy service grow, so that two replicas make few calls
			tryFor(1, one)
			tryFor(1, two)
		}
		s := one.Providers(t.Context())[0]
		testkit.Equal(t, "state", fmt.Sprint(s.State.Kind, ": ", s.State.Reason), "down: no proper answer: http_503")
		f.fail(fails(provider.Account, "ERROR_ZERO_BALANCE"), nil)
		time.Sleep(11 * second)
		_ = one.buy(spec())
		time.Sleep(2 * second)
		testkit.Equal(t, "logged for the other fault", two.log.Count("a provider is down", "ERROR_ZERO_BALANCE"), 1)
		f.fail(nil, nil)
		time.Sleep(time.Minute)
		one.mustBuy(spec())
		time.Sleep(2 * second)
		testkit.Equal(t, "logged at the end", two.log.Count("a provider is up again", "took=1m"), 1)
	})
}

// With the policy ordered, the first provider that is up gets the order. With the others only those that are up are
// compared, but a probe of another one goes first.
func TestTheFirstUsableProviderGetsTheOrder(t *testing.T) {
	bubble(t, "the choice between two providers", func(t *testing.T, w *world) {
		first, second := newFake("first"), newFake("second")
		second.threads, second.pollErr = 1, provider.ErrNotReady
		first.submitErr = fails(provider.Account, "ERROR_ZERO_BALANCE")
		one := w.replica("r1", first.listing(), second.listing())
		counts := func() string { return fmt.Sprint(first.submitted(), " ", second.submitted()) }
		one.mustBuy(spec())
		one.mustBuy(spec())
		testkit.Equal(t, "ordered", counts(), "1 1")
		one.mustRefuse(spec(), pool.ReasonPermit)                   // the service allows one thread
		other := w.replica("r2", first.listing(), second.listing()) // has not read the brakes yet
		other.mustRefuse(spec(), pool.ReasonPermit)
		time.Sleep(2 * time.Second)
		s := spec()
		s.Policy = "best"
		one.mustRefuse(s, pool.ReasonPermit)
		time.Sleep(60 * time.Second)
		s.Probe = true
		one.mustRefuse(s, pool.ReasonPermit) // the try of a failing identity does not go to a provider that is down
		s.Probe = false
		one.mustBuy(s)
		testkit.Equal(t, "with a probe", counts(), "2 1")
		testkit.Equal(t, "chosen as", one.ended[len(one.ended)-1].Choice, "probe")
	})
	bubble(t, "a fallback that answers again", func(t *testing.T, w *world) {
		first, second := newFake("first"), newFake("second")
		first.submitErr, second.submitErr = unheard("http_502"), unheard("http_502")
		second.threadsErr, second.balance = errors.New("http_502"), new(5.0)
		r := w.replica("r1", first.listing(), second.listing())
		tryFor(60, r)
		var refused *pool.NotPlacedError
		if err := r.buy(spec()); !errors.As(err, &refused) || strings.Count(refused.Text, "provider ") != 2 {
			t.Errorf("the refusal does not name both providers: %v", err)
		}
		testkit.Equal(t, "while both are away", r.state(1), provider.StateDown)
		first.fail(nil, nil)
		tryFor(90, r)
		testkit.Equal(t, "with the first one up", r.state(1), provider.StateDown)
		second.set(func() { second.submitErr, second.threadsErr = nil, nil })
		time.Sleep(61 * time.Second)
		r.mustBuy(spec())
		time.Sleep(2 * time.Second)
		testkit.Equal(t, "after an answer about its balance", r.state(1), provider.StateOK)
	})
	bubble(t, "two replicas do not probe an account twice", func(t *testing.T, w *world) {
		first, second := newFake("first"), newFake("second")
		first.submitErr = fails(provider.Account, "ERROR_ZERO_BALANCE")
		one, two := w.replica("r1", first.listing(), second.listing()), w.replica("r2", first.listing(), second.listing())
		one.mustBuy(spec())
		for _, step := range []struct {
			after time.Duration
			by    *replica
			want  int // submits at the first
		}{{62 * time.Second, one, 2}, {30 * time.Second, two, 2}, {32 * time.Second, two, 3}} {
			time.Sleep(step.after)
			step.by.mustBuy(spec())
			testkit.Equal(t, "submits", first.submitted(), step.want)
		}
	})
	bubble(t, "an order goes past full and refusing providers", func(t *testing.T, w *world) {
		first, second := newFake("first"), newFake("second")
		first.pollErr, second.pollErr = provider.ErrNotReady, provider.ErrNotReady
		full, dear := first.listing(), second.listing()
		full.Concurrency = 1
		dear.Price = func(captcha.Type) float64 { return 0.02 } // no order explores it
		r := w.replica("r1", full, dear)
		for _, c := range []struct {
			policy string
			urgent bool
			avoid  []string
			want   string // the submits at both
		}{
			{"ordered", false, nil, "1 0"},
			{"ordered", true, nil, "1 0"}, // it waits for a thread
			{"best", false, nil, "1 0"},
			{"best", true, nil, "1 1"},
			{"ordered", false, []string{"first"}, "1 1"},
			{"cheapest", false, []string{"first"}, "1 2"},
			{"best", false, []string{"first"}, "1 3"},
			{"best", false, []string{"first", "second"}, "1 3"},
		} {
			s := spec()
			s.Policy, s.Urgent, s.Avoid = c.policy, c.urgent, c.avoid
			_ = r.buy(s)
			testkit.Equal(t, fmt.Sprint(c), fmt.Sprint(first.submitted(), " ", second.submitted()), c.want)
		}
	})
	bubble(t, "a target of simulated_only", func(t *testing.T, w *world) {
		real, simulated := newFake("real"), newFake("simulated")
		r := w.replica("r1")
		testkit.ErrorIs(t, "an order", r.buy(spec()), purchase.ErrNoProvider)
		r.SetProviders([]purchase.Listing{real.listing()})
		s := spec()
		s.SimulatedOnly = true
		testkit.ErrorIs(t, "an order", r.buy(s), purchase.ErrSimulatedOnly)
		e := simulated.listing()
		e.Simulated = true
		r.SetProviders([]purchase.Listing{real.listing(), e})
		r.mustBuy(s)
		testkit.Equal(t, "submits", simulated.submitted(), 1)
	})
	bubble(t, "a budget in money refuses a price", func(t *testing.T, w *world) {
		unpriced, priced := newFake("unpriced"), newFake("priced")
		e := unpriced.listing()
		e.Price = func(captcha.Type) float64 { return -1 }
		r := w.replica("r1", e)
		money, ofKey := spec(), spec()
		money.Budgets, ofKey.Priced = []pool.Budget{{Scope: pool.ScopeOverall, MicrosPerDay: 1e9}}, true
		for _, s := range []purchase.Spec{money, ofKey} {
			testkit.ErrorIs(t, "an order", r.buy(s), purchase.ErrNoPrice)
		}
		free := priced.listing()
		free.Price = func(captcha.Type) float64 { return 0 }
		r.SetProviders([]purchase.Listing{e, free})
		r.mustBuy(money)
		testkit.Equal(t, "submits", fmt.Sprint(unpriced.submitted(), priced.submitted()), "0 1")
	})
	bubble(t, "an end says whose turn it is", func(t *testing.T, w *world) {
		f := newFake("main")
		e := f.listing()
		e.Concurrency = 1
		r := w.replica("r1", e)
		r.mustBuy(spec())
		s := spec()
		s.Identity.Sitekey = "other"
		s.ID = s.Identity.ID()
		if err := r.buy(s); err == nil {
			t.Error("two orders at once")
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		testkit.Equal(t, "turns", fmt.Sprint(r.turns), fmt.Sprint([]captcha.ID{s.ID}))
	})
}

// Reports go to the provider within its window unless it is down, and never block.
func TestReportsReachTheProviderInTime(t *testing.T) {
	bubble(t, "reports", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", f.listing())
		r.Report("main", "T1", captcha.Turnstile, 30*second, false)
		r.Report("main", "T2", captcha.Turnstile, 61*second, true)
		r.Report("gone", "T3", captcha.Turnstile, 0, true)
		for _, kind := range []string{string(pool.Busy), string(pool.Refused), pool.BrakeAccount} {
			_, err := r.pool.SetBrake(t.Context(), "main.main-key", kind, "no", time.Minute, 0)
			testkit.NoError(t, err)
			time.Sleep(2 * second)
			r.Report("main", kind, captcha.Turnstile, 0, true)
			synctest.Wait() // it is passed on before the next brake
		}
		testkit.Equal(t, "reports", fmt.Sprint(f.reports), "[T1false busytrue refusedtrue]")
		testkit.Equal(t, "outcomes", r.counted(),
			"report gone refused, report main late, report main passed, report main passed, report main passed, "+
				"report main refused")
	})
}
