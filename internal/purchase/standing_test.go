package purchase

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/permits"
	"poold/internal/provider"
)

// bannedFault returns an account fault that began now.
func bannedFault() provider.Fault {
	now := time.Now()
	return provider.Fault{
		Kind: provider.FaultAccount, Code: "IP_BANNED", Action: "submit", Since: now, Next: now.Add(time.Minute), Every: time.Minute,
	}
}

// reportElsewhere makes the other replica share a fault of the provider "one".
func (s *testBuyer) reportElsewhere(t *testing.T, f permits.Fault) {
	t.Helper()
	if err := s.stock.other().ReportFault(t.Context(), "one", f); err != nil {
		t.Fatal(err)
	}
}

// standing returns the shared standing of the provider "one".
func (s *testBuyer) standing(t *testing.T) permits.Standing {
	t.Helper()
	standing, err := s.stock.other().Standing(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	return standing
}

// If an answered poll changes a shared fault, the time of the next probe stays the same. Only a new
// observation of the fault delays the next probe.
func TestAnAnsweredPollDoesNotDelayTheProbe(t *testing.T) {
	withBuyer(t, 5, func(t *testing.T, s *testBuyer) {
		as, others := s.buyer.accounts, s.stock.other()
		a := as.byName("one")
		fault := bannedFault()
		s.provider.Adopt(t.Context(), &fault)
		as.shareFault(t.Context(), a)
		next := func() time.Duration {
			t.Helper()
			standing, err := others.Standing(t.Context(), "one")
			if err != nil || standing.Fault == nil {
				t.Fatal(standing, err)
			}
			return standing.Fault.Next
		}
		if n := next(); n != time.Minute {
			t.Fatalf("the next probe is in %v", n)
		}
		if _, err := others.ProbeNow(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		polled := fault
		polled.Polls = true
		s.provider.Adopt(t.Context(), &polled)
		as.shareFault(t.Context(), a)
		if n := next(); n > 0 {
			t.Errorf("after an answered poll the next probe is in %v", n)
		}
		// The probe finds that the fault continues.
		again := polled
		again.Since, again.Next = time.Now().Add(time.Second), time.Now().Add(time.Minute)
		s.provider.Adopt(t.Context(), &again)
		as.shareFault(t.Context(), a)
		if n := next(); n != time.Minute {
			t.Errorf("after the probe was refused the next one is in %v", n)
		}
	})
}

// A replica adopts another replica's fault with all its facts, and also the end of this fault. It
// ignores an outage if the provider has answered the replica since the outage began.
func TestTheFaultOfAnotherReplicaIsAdopted(t *testing.T) {
	withBuyer(t, 5, func(t *testing.T, s *testBuyer) {
		step := func() *provider.Fault {
			s.buyer.accounts.exchange(t.Context())
			return s.provider.Fault()
		}
		began := time.Now()
		s.reportElsewhere(t, permits.Fault{
			Kind: "account", Code: "IP_BANNED", Reason: "wait", Action: "poll", Next: time.Minute, Every: time.Hour, Polls: true,
		})
		time.Sleep(time.Second)
		want := provider.Fault{
			Kind: provider.FaultAccount, Code: "IP_BANNED", Reason: "wait", Action: "poll",
			Since: began, Next: began.Add(time.Minute), Every: time.Hour, Polls: true,
		}
		if got := step(); got == nil || !got.Since.Equal(want.Since) || !got.Next.Equal(want.Next) {
			t.Fatalf("adopted %+v, want %+v", got, want)
		} else if got.Since, got.Next = want.Since, want.Next; *got != want {
			t.Errorf("adopted %+v, want %+v", got, want)
		}
		s.reportElsewhere(t, permits.Fault{})
		if got := step(); got != nil {
			t.Errorf("after its end the fault is %+v", got)
		}
		for _, answered := range []bool{false, true} {
			time.Sleep(time.Second)
			s.reportElsewhere(t, permits.Fault{Kind: "outage", Code: "timeout", Action: "poll", Next: time.Minute, Every: time.Minute})
			time.Sleep(time.Second)
			if answered {
				s.provider.change(func() { s.provider.answered = time.Now() })
			}
			if got := step(); (got == nil) != answered {
				t.Errorf("answered since then: %v, adopted: %+v", answered, got)
			}
			s.reportElsewhere(t, permits.Fault{})
			step()
		}
	})
}

// After a refused order this replica waits for the provider's next turn. If the fault or the series of
// refusals ends earlier, the replica places its next order without this wait.
func TestTheEndOfAFaultEndsTheWaitForATurn(t *testing.T) {
	for name, c := range map[string]struct {
		begin, end func(t *testing.T, s *testBuyer)
		refused    error // error of the order that requests the turn; nil = the order gets the turn
	}{
		"an account fault": {
			func(t *testing.T, s *testBuyer) {
				s.reportElsewhere(t, permits.Fault{Kind: "account", Code: "IP_BANNED", Next: time.Minute, Every: time.Minute})
			},
			func(t *testing.T, s *testBuyer) { s.reportElsewhere(t, permits.Fault{}) },
			ErrBusy,
		},
		"refusals": {
			func(t *testing.T, s *testBuyer) { s.countRefusals(t, permits.MostRefusals) },
			func(t *testing.T, s *testBuyer) {
				if err := s.stock.other().ReportAccepted(t.Context(), "one"); err != nil {
					t.Fatal(err)
				}
			},
			nil,
		},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 5)
			c.begin(t, s)
			s.buyer.accounts.exchange(t.Context())
			slot, _, _ := mustAdmit(t, s.buyer)
			if _, err := s.buyer.placer.place(t.Context(), slot, spec()); !errors.Is(err, c.refused) {
				t.Fatalf("place = %v, want %v", err, c.refused)
			}
			time.Sleep(time.Second)
			began := time.Now()
			admitted := make(chan time.Duration, 1)
			go func() {
				if _, err := s.buyer.Admit(t.Context(), Bid{}); err != nil {
					t.Error(err)
				}
				admitted <- time.Since(began)
			}()
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
			c.end(t, s)
			s.buyer.accounts.exchange(t.Context())
			if took := <-admitted; took != 100*time.Millisecond {
				t.Errorf("the next order waited %v, want until the end", took)
			}
		})
	}
}

// countRefusals counts n refused submits at the provider "one".
func (s *testBuyer) countRefusals(t *testing.T, n int) {
	t.Helper()
	for range n {
		if err := s.stock.other().ReportRefusal(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
	}
}

// A refused submit adds to the provider's series of refusals, which covers all targets. A refusal
// does not count if its cause is the capacity or the account, or if no call was made. An accepted
// submit ends the series.
func TestRefusedSubmitsAreCounted(t *testing.T) {
	fault := func(c provider.Class) *provider.Error { return &provider.Error{Class: c, Code: "CODE"} }
	for name, c := range map[string]struct {
		before int
		answer error // answer to the submit
		want   int
	}{
		"accepted after one": {1, nil, 0},
		"accepted":           {0, nil, 0},
		"parameters":         {1, fault(provider.Parameters), 2},
		"task":               {1, fault(provider.Task), 2},
		"capacity":           {1, fault(provider.Capacity), 1},
		"account":            {1, fault(provider.Account), 1},
		"without an answer":  {1, &provider.Error{Class: provider.Parameters, Unknown: true}, 1},
		"without a call":     {1, &provider.Error{Class: provider.Parameters, Code: provider.NotAsked}, 1},
	} {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 5)
			s.countRefusals(t, c.before)
			s.provider.submit = func(context.Context) (string, error) { return "t1", c.answer }
			s.buyer.orders.collect(t.Context(), s.order(t))
			if got := s.standing(t).Refusals; got != c.want {
				t.Errorf("%d refusals, want %d", got, c.want)
			}
		})
	}
}

// If a provider refuses all submits, the targets take turns. A target whose order got a permit comes
// last, even if it has waited longest. A turn without a permit does not count.
func TestABoundedProviderServesTargetsInTurns(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.countRefusals(t, permits.MostRefusals)
		s.buyer.accounts.exchange(t.Context())
		began := time.Now()
		var got []string
		next := func(keeps bool) {
			t.Helper()
			type grant struct {
				of   string
				slot *Slot
			}
			grants := make(chan grant, 2)
			requests := map[string]*Request{}
			for i, target := range []string{"first", "second"} {
				bid := Bid{For: target, Since: began.Add(time.Duration(i) * time.Second)}
				requests[target] = s.buyer.Request(bid, func(slot *Slot, _ error) { grants <- grant{target, slot} })
			}
			g := <-grants
			for target, r := range requests {
				if target != g.of && !r.Withdraw() {
					t.Error("both targets got the turn")
				}
			}
			got = append(got, g.of)
			defer g.slot.Free()
			if !keeps {
				return
			}
			o, err := s.buyer.placer.place(t.Context(), g.slot, spec())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.stock.other().Release(t.Context(), "one", o.Ref); err != nil {
				t.Error(err)
			}
		}
		next(false)
		next(true)
		next(true)
		next(true)
		if want := []string{"first", "first", "second", "first"}; !slices.Equal(got, want) {
			t.Errorf("the turns went to %q, want %q", got, want)
		}
	})
}

// After an operator's probe, both this replica's state and the state in Redis allow the next order
// immediately. The probe of an unknown provider returns an error.
func TestAnOperatorsProbeAllowsTheNextOrder(t *testing.T) {
	withBuyer(t, 5, func(t *testing.T, s *testBuyer) {
		s.reportElsewhere(t, permits.Fault{Kind: "account", Code: "IP_BANNED", Next: time.Minute, Every: time.Minute})
		s.buyer.accounts.exchange(t.Context())
		if _, err := s.buyer.Probe(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		if f := s.provider.Fault(); f == nil || f.Next.After(time.Now()) {
			t.Errorf("after the probe the fault here is %+v", f)
		}
		if f := s.standing(t).Fault; f == nil || f.Next > 0 {
			t.Errorf("after the probe the fault in Redis is %+v", f)
		}
		if _, err := s.buyer.Probe(t.Context(), "two"); !errors.Is(err, ErrUnknownProvider) {
			t.Errorf("probe = %v, want %v", err, ErrUnknownProvider)
		}
	})
}

// If polls are refused because of an account fault, a task is polled after half of its remaining
// time, and then once a minute. The same applies to a second fault after an answered poll.
func TestEachAccountFaultSlowsPolls(t *testing.T) {
	withBuyer(t, 5, func(t *testing.T, s *testBuyer) {
		var at []time.Duration
		began := time.Now()
		s.provider.poll = func(_ context.Context, n int) (provider.Solution, error) {
			at = append(at, time.Since(began))
			if n == 2 {
				s.provider.Adopt(t.Context(), nil)
				return provider.Solution{}, provider.ErrNotReady
			}
			fault := bannedFault()
			s.provider.Adopt(t.Context(), &fault)
			return provider.Solution{}, &provider.Error{Class: provider.Account, Code: "IP_BANNED"}
		}
		if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Outcome != Lost {
			t.Errorf("collect = %+v, want %v", r, Lost)
		}
		// The first three times: the first poll, a poll a minute later, and a poll one interval later,
		// with jitter.
		want := []time.Duration{15 * time.Second, 75 * time.Second, 80 * time.Second}
		// The last two times: half of the remaining 100 s, and the time-out.
		want = append(want, 130*time.Second, 180*time.Second)
		if !slices.EqualFunc(at, want, func(got, want time.Duration) bool { return near(got, want, time.Second) }) {
			t.Errorf("polls after %v, want %v", at, want)
		}
	})
}
