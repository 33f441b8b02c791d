package purchase

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider"
	"poold/internal/redisdb"
)

// A report is passed on once, while the provider takes it; what it answers
// decides whether it is sent again.
func TestReports(t *testing.T) {
	fault := func(c provider.Class) error { return &provider.Error{Class: c, Code: "CODE"} }
	busy := fault(provider.Capacity)
	for name, c := range map[string]struct {
		provider, task string
		age            time.Duration
		answers        []error // nil from then on
		calls          int
		outcome        string
	}{
		"passed":              {"one", "t1", 20 * time.Second, nil, 1, ReportPassed},
		"at the last moment":  {"one", "t1", time.Minute - time.Millisecond, nil, 1, ReportPassed},
		"late":                {"one", "t1", time.Minute, nil, 0, ReportLate},
		"account":             {"one", "t1", 0, []error{fault(provider.Account)}, 1, ReportRefused},
		"parameters":          {"one", "t1", 0, []error{fault(provider.Parameters)}, 1, ReportRefused},
		"task":                {"one", "t1", 0, []error{fault(provider.Task)}, 1, ReportRefused},
		"a stray error":       {"one", "t1", 0, []error{errors.New("?")}, 1, ReportRefused},
		"busy once":           {"one", "t1", 0, []error{busy}, 2, ReportPassed},
		"busy twice":          {"one", "t1", 0, []error{busy, busy}, 3, ReportPassed},
		"busy for ever":       {"one", "t1", 0, []error{busy, busy, busy, busy}, 3, ReportRefused},
		"refused at the next": {"one", "t1", 0, []error{busy, fault(provider.Task)}, 2, ReportRefused},
		"an unknown provider": {"two", "t1", 0, nil, 0, ReportRefused},
		"an unknown task":     {"one", "", 0, nil, 0, ReportRefused},
	} {
		for _, accepted := range []bool{true, false} {
			runBubble(t, name, func(t *testing.T) {
				s := newTestBuyer(t, 1)
				calls := 0
				s.provider.report = func() error {
					if calls++; calls <= len(c.answers) {
						return c.answers[calls-1]
					}
					return nil
				}
				stop := s.running(t)
				s.forget()
				s.buyer.Report(c.provider, c.task, captcha.HCaptcha, c.age, accepted)
				time.Sleep(time.Minute)
				stop()
				var want []string
				for range c.calls {
					want = append(want, map[bool]string{true: "report t1 true", false: "report t1 false"}[accepted])
				}
				s.want(t, append(want, "report to "+c.provider+": "+c.outcome)...)
			})
		}
	}
}

// Reports wait while a few are sent, and so do not hold up whoever brings them;
// those beyond are counted at once. A token ages while its report waits.
func TestReportsNeverBlock(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.report = func() error { time.Sleep(50 * time.Second); return nil }
		began := time.Now()
		for range mostReports + 3 { // nobody passes them on yet
			s.buyer.Report("one", "t1", captcha.HCaptcha, 20*time.Second, true)
		}
		s.want(t, "report to one: refused", "report to one: refused", "report to one: refused")
		s.forget()
		stop := s.running(t)
		s.buyer.Report("one", "t2", captcha.HCaptcha, 0, true)
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		time.Sleep(51 * time.Second)
		synctest.Wait()
		got := s.all()
		for what, want := range map[string]int{"report to one: passed": reportsAtOnce, "report to one: late": mostReports - reportsAtOnce} {
			if n := strings.Count(strings.Join(got, "\n"), what); n != want {
				t.Errorf("%q was told %d times, want %d", what, n, want)
			}
		}
		if !slices.Contains(got, "report t2 true") {
			t.Error("there was room for one, and it was not sent")
		}
		stop()
	})
}

// A provider that a reload removed takes no reports.
func TestReportToAProviderThatWent(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		stop := s.running(t)
		s.buyer.SetProviders([]Entry{{Provider: newFakeProvider(s.ledger, "two"), Concurrency: 1}})
		s.buyer.Report("one", "t1", captcha.HCaptcha, 0, true)
		synctest.Wait()
		s.buyer.Report("two", "t1", captcha.HCaptcha, 0, true)
		synctest.Wait()
		s.want(t, "report to one: refused", "report t1 true", "report to two: passed")
		stop()
	})
}

// A stop does not wait for a report that is to be tried again.
func TestStopWhileReporting(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.report = func() error { return &provider.Error{Class: provider.Capacity, Code: "CODE"} }
		stop := s.running(t)
		s.buyer.Report("one", "t1", captcha.HCaptcha, 0, true)
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("the stop took %v", took)
		}
		s.want(t, "report t1 true", "report to one: refused")
	})
}

// clumsy is an observer with a fault of ours.
type clumsy struct {
	witness
	broken *atomic.Bool
}

func (c clumsy) DeadLetter(outcome string) {
	if c.broken.Load() {
		panic("a fault of ours")
	}
	c.witness.DeadLetter(outcome)
}

func (c clumsy) Report(name, outcome string) {
	if c.broken.Load() {
		panic("a fault of ours")
	}
	c.witness.Report(name, outcome)
}

// A panic ends one turn of what Run does: afterwards leases are renewed, dead letters
// replayed and reports passed on as before.
func TestRunOutlivesPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallbackBuyer(t, t.TempDir())
		var broken, faulty atomic.Bool
		s.provider.report = func() error {
			if faulty.Load() {
				panic("a fault of ours")
			}
			return nil
		}
		s.buyer.observe = clumsy{witness{s.ledger}, &broken}
		s.provider.poll = notReady(1000)
		s.stock.away("look")
		first, second, held := s.order(t), s.order(t), s.order(t)
		s.mustCall(t, callbackTo(first.address(), "code=03AFcallback"))
		ended := s.collecting(t, held)
		stop := s.running(t)
		time.Sleep(100 * time.Millisecond)

		// The stock, for two renewals and two replays, and the provider.
		var panics atomic.Int64
		s.stock.change(func() { s.stock.fault = func(string) error { panics.Add(1); panic("a fault of ours") } })
		faulty.Store(true)
		s.buyer.Report("one", "t1", captcha.HCaptcha, 0, true)
		time.Sleep(4 * time.Second)
		faulty.Store(false)
		s.stock.away("look")
		s.mustCall(t, callbackTo(second.address(), "code=03AFcallback2"))
		if n := panics.Load(); n < 4 {
			t.Errorf("%d panics, so too little was tested", n)
		}

		// The observer.
		s.stock.away()
		broken.Store(true)
		s.buyer.Report("one", "t2", captcha.HCaptcha, 0, true)
		time.Sleep(2*replayEvery + 100*time.Millisecond)
		broken.Store(false)

		s.forget()
		s.buyer.Report("one", "t3", captcha.HCaptcha, 0, true)
		synctest.Wait()
		s.want(t, "report t3 true", "report to one: passed")
		if n := len(s.stock.landed()); n != 2 || s.buyer.DeadLetterCount() != 0 {
			t.Errorf("%d tokens landed, %d letters left", n, s.buyer.DeadLetterCount())
		}
		s.stock.steal(t.Context(), held.Ref)
		if r := <-ended; r.Outcome != Elsewhere {
			t.Errorf("collect = %v, want Elsewhere by the next renewal", r.Err)
		}
		stop()
	})
}

// Nor does a panic in taking back what a Redis that hung left behind.
func TestTidyOutlivesPanics(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.stock.away("")
		slot, _, _ := mustAdmit(t, s.buyer)
		if _, err := s.buyer.placer.place(t.Context(), slot, spec()); !errors.Is(err, redisdb.ErrDown) {
			t.Fatalf("place = %v", err)
		}
		s.stock.change(func() { s.stock.fault = func(string) error { panic("a fault of ours") } })
		ctx, stop := context.WithTimeout(t.Context(), retryEvery+time.Millisecond)
		defer stop()
		if err := s.buyer.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// A report that is tried again is not sent when the window is over by then.
func TestAReportIsNotSentAfterItsWindow(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.report = func() error { return &provider.Error{Class: provider.Capacity, Code: "CODE"} }
		stop := s.running(t)
		s.buyer.Report("one", "t1", captcha.HCaptcha, time.Minute-50*time.Millisecond, true)
		time.Sleep(time.Minute)
		stop()
		s.want(t, "report t1 true", "report to one: late")
	})
}

// A service that hangs makes no report to another one late, and none is
// forgotten at a stop: each is told once.
func TestReportsToSeveralProvidersAndAtAStop(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: 1}, {Provider: newFakeProvider(s.ledger, "two"), Concurrency: 1}})
		s.provider.report = func() error {
			time.Sleep(10 * time.Second)
			return &provider.Error{Class: provider.Capacity, Code: "timeout"}
		}
		stop := s.running(t)
		s.forget()
		for range 5 {
			s.buyer.Report("one", "t1", captcha.HCaptcha, 0, false)
		}
		s.buyer.Report("two", "t2", captcha.HCaptcha, 0, false)
		time.Sleep(time.Second)
		if !slices.Contains(s.all(), "report to two: passed") {
			t.Errorf("after a second: %q", s.all())
		}
		for range reportsAtOnce {
			s.buyer.Report("one", "t1", captcha.HCaptcha, 0, false)
		}
		stop()
		s.buyer.Report("one", "t1", captcha.HCaptcha, 0, false)
		told := 0
		for _, entry := range s.all() {
			if strings.HasPrefix(entry, "report to ") {
				told++
			}
		}
		if want := 5 + 1 + reportsAtOnce + 1; told != want {
			t.Errorf("%d reports are accounted for, want %d", told, want)
		}
	})
}
