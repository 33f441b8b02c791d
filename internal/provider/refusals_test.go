//go:build !race

package provider_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/provider"
	"poold/internal/provider/simulatedtest"
	"poold/internal/provider/wire"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// maxPerMinute is the maximum number of submits of a target per minute while all submits fail. The
// first three submits do not count.
const maxPerMinute = 12

// While each call of one kind fails, the submits of a target are limited. The tested faults are one
// code of each class (TestEveryCode has the class of each code), unknown codes, and invalid answers.
func TestNoFaultMakesPooldHammer(t *testing.T) {
	t.Parallel()
	for _, code := range []string{busyCode, "ERROR_OF_TOMORROW", "https://example.com/help"} {
		checkBound(t, targets.ProtocolInPHP, "captchaai", code, simulatedtest.Fault{Kind: simulatedtest.Code, Code: code}, 1,
			false)
	}
	for _, s := range []struct {
		api     targets.Protocol
		profile string
	}{
		{targets.ProtocolInPHP, "captchaai"}, {targets.ProtocolCreateTask, "2captcha"},
	} {
		for _, n := range []int{1, 3} {
			for _, adaptive := range []bool{false, true} {
				if testing.Short() && (adaptive != (n == 3) || adaptive != (s.api == targets.ProtocolCreateTask)) {
					continue
				}
				for name, fault := range map[string]simulatedtest.Fault{
					"a refusal":    {Kind: simulatedtest.Code, Code: "ERROR_CAPTCHA_UNSOLVABLE"},
					"unknown code": {Kind: simulatedtest.Code, Code: "ERROR_OF_TOMORROW"},
					"parameters":   {Kind: simulatedtest.Code, Code: "ERROR_WRONG_GOOGLEKEY"},
					"account":      {Kind: simulatedtest.Code, Code: "IP_BANNED"}, "html": {Kind: simulatedtest.HTML}, "empty": {},
					"4xx": {Kind: simulatedtest.Status, Status: http.StatusNotFound},
					"5xx": {Kind: simulatedtest.Status, Status: http.StatusBadGateway},
				} {
					checkBound(t, s.api, s.profile, name, fault, n, adaptive)
				}
			}
		}
	}
}

// checkBound tests one fault, first at submits and then at polls. A fault without a kind is an
// empty answer.
func checkBound(t *testing.T, api targets.Protocol, profile, name string, fault simulatedtest.Fault, replicas int,
	adaptive bool) {
	for _, on := range []wire.Action{simulatedtest.Submit, simulatedtest.Poll} {
		t.Run(fmt.Sprintf("%s/%s/%s/%d/adaptive=%v", api, strings.ReplaceAll(name, "/", "_"), on, replicas, adaptive),
			func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					login := siteTarget("site-a", 5)
					options := simulatedtest.Setup{}
					if fault.On = on; fault.Kind != "" {
						options.Faults = []simulatedtest.Fault{fault}
					}
					if adaptive {
						login.Refill, login.Min, login.HitRate, login.MissCost = targets.RefillAdaptive, 2, 0.98, 3
					}
					f := newFleet(t, replicas, api, profile, options)
					defer f.close()
					if fault.Kind == "" {
						f.empty = on
					}
					for _, r := range f.all {
						r.manager.Apply(&targets.Set{Targets: []targets.Target{login}})
					}
					f.advance(80 * time.Second)
					if fault.Code == busyCode && on == simulatedtest.Submit {
						return // the target gets no slot, because the provider is busy
					}
					made := f.submitTimes("site-a")
					testkit.AtLeast(t, "submits", len(made), 1)
					for i := 3; i < len(made); i++ {
						in := 0
						for _, at := range made[i:] {
							if at.Sub(made[i]) < time.Minute {
								in++
							}
						}
						if in > maxPerMinute {
							t.Errorf("%d submits in the minute after %v, of %d", in, made[i].Sub(made[0]), len(made))
							break
						}
					}
				})
			})
	}
}

// busyCode means a capacity fault.
const busyCode = "ERROR_NO_SLOT_AVAILABLE"

// A refused target is probed after 1, 2, 4 … minutes. It recovers when the service accepts the
// target again. A resume at any replica starts a probe immediately.
func TestARefusedTargetRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := siteTarget("site-a", 3)
		refuse := simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code, Code: "ERROR_WRONG_GOOGLEKEY"}
		f := newFleet(t, 3, targets.ProtocolInPHP, "2captcha", simulatedtest.Setup{Faults: []simulatedtest.Fault{refuse}},
			login)
		defer f.close()
		f.advance(30 * time.Second)
		for n, r := range f.all {
			if s := f.status(r, login); s.State != "refused" || !strings.Contains(s.Reason, "ERROR_WRONG_GOOGLEKEY") ||
				s.Until.IsZero() {
				t.Errorf("replica %d says %+v", n, s)
			}
		}
		before := len(f.submitTimes("site-a"))
		testkit.AtMost(t, "submits before it was known", before, 3)
		f.advance(10 * time.Minute)
		testkit.Equal(t, "probes in 10 minutes", len(f.submitTimes("site-a"))-before, 3)
		// The limit of the target's orders survives a restart.
		f.stop(f.all[0])
		f.start(login)
		f.advance(5 * time.Second)
		if s := f.status(f.all[2], login); s.State != "refused" || len(f.submitTimes("site-a")) != before+3 {
			t.Errorf("after a restart: %+v, %d submits", s, len(f.submitTimes("site-a")))
		}
		// An operator probes twice: the first probe is refused, and the second probe succeeds.
		try := func() {
			t.Helper()
			if tried, err := f.all[1].pool.Resume(t.Context(), login.ID); !tried || err != nil {
				t.Fatal(tried, err)
			}
			f.advance(2 * time.Second)
		}
		try()
		testkit.Equal(t, "submits after the first try", len(f.submitTimes("site-a"))-before, 4)
		f.service.SetFaults()
		try()
		f.advance(30 * time.Second)
		if s := f.status(f.all[1], login); s.State != "ok" || f.fresh(login) != 3 {
			t.Errorf("after the second try: %+v, %d tokens", s, f.fresh(login))
		}
		// Without an operator, the target also recovers after a minute.
		f.service.SetFaults(refuse)
		f.advance(100 * time.Second)
		f.service.SetFaults()
		f.advance(3 * time.Minute)
		if s := f.status(f.all[0], login); s.State != "ok" || f.fresh(login) == 0 {
			t.Errorf("it did not recover: %+v", s)
		}
	})
}

// All replicas share an account fault that one replica observed. All replicas together make one
// probe at a time. The fault survives a restart.
func TestReplicasShareAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := siteTarget("site-a", 2), siteTarget("site-b", 2)
		f := newFleet(t, 3, targets.ProtocolInPHP, "2captcha", simulatedtest.Setup{}, a, b)
		defer f.close()
		f.advance(30 * time.Second)
		f.service.SetFaults(simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code,
			Code: "ERROR_ZERO_BALANCE"})
		f.advance(2 * time.Minute) // the tokens expire, so the target wants orders
		began := time.Now()
		first := f.state(f.all[0]).State
		for n, r := range f.all {
			s := f.state(r).State
			if s.Kind != provider.StateDown || s.Code != "ERROR_ZERO_BALANCE" || !strings.Contains(s.Remedy, "top up") ||
				s.Since.Sub(first.Since).Abs() > time.Second || s.Until.Sub(first.Until).Abs() > time.Second {
				t.Errorf("replica %d says %+v, the first one %+v", n, s, first)
			}
		}
		f.advance(5 * time.Minute)
		if n := f.count(simulatedtest.Submit, began); n < 4 || n > 6 {
			t.Errorf("%d submits of three replicas in 5 minutes, want one a minute", n)
		}
		f.stop(f.all[0])
		came := f.start(a, b)
		f.advance(1500 * time.Millisecond)
		if s := f.state(came).State; s.Kind != provider.StateDown || s.Since.After(began) {
			t.Errorf("after a restart: %+v", s)
		}
		// After topping up the account, an operator probes the provider.
		f.service.SetFaults()
		testkit.NoError(t, f.all[1].buyer.Probe(t.Context(), "main"))
		f.advance(30 * time.Second)
		for n, r := range f.all {
			testkit.Equal(t, fmt.Sprint("the state at replica ", n), f.state(r).State.Kind, provider.StateOK)
		}
		testkit.Equal(t, "tokens 30 s after the probe", f.fresh(a)+f.fresh(b), 4)
	})
}

// If a service refuses only submits, every solved task is collected. If the service also refuses
// polls, polls become rare, and tasks that cannot be collected count as lost and spent.
func TestOrdersInFlightSurviveAnAccountFault(t *testing.T) {
	for _, c := range []struct {
		name string
		on   []wire.Action
		code string
	}{
		{"submits, no money", []wire.Action{simulatedtest.Submit}, "ERROR_ZERO_BALANCE"},
		{"submits, ban", []wire.Action{simulatedtest.Submit}, "IP_BANNED"},
		{"polls", []wire.Action{simulatedtest.Poll}, "IP_BANNED"},
		{"both", []wire.Action{simulatedtest.Submit, simulatedtest.Poll}, "IP_BANNED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := siteTarget("site-a", 8), siteTarget("site-b", 1)
				f := newFleet(t, 1, targets.ProtocolInPHP, "2captcha",
					simulatedtest.Setup{Median: 40 * time.Second}, a)
				defer f.close()
				f.advance(7 * time.Second)
				bought := f.service.Totals().Submitted
				testkit.Equal(t, "orders that are under way", bought, 8)
				var faults []simulatedtest.Fault
				for _, on := range c.on {
					faults = append(faults, simulatedtest.Fault{On: on, Kind: simulatedtest.Code, Code: c.code})
				}
				f.service.SetFaults(faults...)
				began := time.Now()
				f.all[0].manager.Apply(&targets.Set{Targets: []targets.Target{a, b}}) // the submit for target b meets the fault
				f.advance(3*time.Minute + 30*time.Second)
				sold, books := f.service.Sold(), f.counts(f.all[0], a).Counters
				collected := 0
				for _, s := range sold[:bought] {
					if s.Collected > 0 {
						collected++
					}
				}
				if books.Bought < int64(bought) || books.Solved+books.Failed+books.Lost < int64(bought) {
					t.Errorf("the books: %+v", books)
				}
				polls := f.count(simulatedtest.Poll, began)
				if c.on[0] == simulatedtest.Submit && len(c.on) == 1 {
					if collected != bought || books.Lost != 0 || books.Failed != 0 {
						t.Errorf("%d of %d solved tasks were collected: %+v", collected, bought, books)
					}
					return
				}
				if collected != 0 || books.Failed != 0 || books.Lost < int64(bought) || books.Spent != books.Lost*1e6 {
					t.Errorf("%d collected; want all lost, and their prices spent: %+v", collected, books)
				}
				// There are at least two polls per bought task, and at most four polls per order.
				if orders := f.service.Totals().Submitted; polls < 2*bought || polls > 4*orders {
					t.Errorf("%d polls for %d orders", polls, orders)
				}
				testkit.Equal(t, "the state", f.state(f.all[0]).State.Kind, provider.StateDown)
			})
		})
	}
}

// While the service refuses the submits of all targets, all replicas together make one submit every
// 5 s. When the service accepts submits again, all targets fill their stock.
func TestAnAccountThatRefusesEverythingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := siteTarget("site-a", 20), siteTarget("site-b", 20), siteTarget("site-c", 20)
		refuse := simulatedtest.Fault{On: simulatedtest.Submit, Kind: simulatedtest.Code, Code: "ERROR_OF_TOMORROW"}
		f := newFleet(t, 3, targets.ProtocolCreateTask, "other", simulatedtest.Setup{Faults: []simulatedtest.Fault{refuse}},
			a, b, c)
		defer f.close()
		f.advance(time.Minute)
		began := time.Now()
		f.advance(3 * time.Minute)
		if n := f.count(simulatedtest.Submit, began); n < 24 || n > 37 {
			t.Errorf("%d submits in 3 minutes, want one in 5 s", n)
		}
		for _, t1 := range []targets.Target{a, b, c} {
			testkit.AtLeast(t, "submits of "+t1.Name, len(f.submitTimes(t1.Name)), 4) // about 16 are expected
		}
		if s := f.state(f.all[1]); s.Brake.FailedInARow < 20 || s.State.Kind != provider.StateBusy {
			t.Errorf("%+v", s)
		}
		f.service.SetFaults()
		f.advance(90 * time.Second)
		// not all 60, because some tokens are being replaced at this moment
		if n := f.fresh(a) + f.fresh(b) + f.fresh(c); n < 50 {
			t.Errorf("%d tokens after it was well again", n)
		}
	})
}
