package purchase

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider"
)

// A report is passed on once, within the provider's report window. It is sent again only if the
// first call had no valid answer.
func TestReportsArePassedOn(t *testing.T) {
	fault := func(c provider.Class) error { return &provider.Error{Class: c, Code: "CODE"} }
	busy := fault(provider.Capacity)
	for name, c := range map[string]struct {
		provider, task string
		age            time.Duration
		answers        []error // errors of the first calls; later calls succeed
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
				stop := s.startRunning(t)
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

// Pending reports never block the caller. If the queue is full, further reports are counted
// immediately. A token ages while its report is pending.
func TestReportsNeverBlock(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.report = func() error { time.Sleep(50 * time.Second); return nil }
		began := time.Now()
		for range maxReports + 3 { // no sender runs yet
			s.buyer.Report("one", "t1", captcha.HCaptcha, 20*time.Second, true)
		}
		s.want(t, "report to one: refused", "report to one: refused", "report to one: refused")
		s.forget()
		stop := s.startRunning(t)
		s.buyer.Report("one", "t2", captcha.HCaptcha, 0, true)
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		time.Sleep(51 * time.Second)
		synctest.Wait()
		got := s.all()
		for what, want := range map[string]int{"report to one: passed": reportsAtOnce, "report to one: late": maxReports - reportsAtOnce} {
			if n := strings.Count(strings.Join(got, "\n"), what); n != want {
				t.Errorf("%q was reported %d times, want %d", what, n, want)
			}
		}
		if !slices.Contains(got, "report t2 true") {
			t.Error("there was room for one, and it was not sent")
		}
		stop()
	})
}

// A stop does not wait for a report that is waiting for its retry.
func TestAStopDoesNotWaitForAReport(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.provider.report = func() error { return &provider.Error{Class: provider.Capacity, Code: "CODE"} }
		stop := s.startRunning(t)
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

// A service that hangs does not delay reports to other services. When the buyer stops, each
// pending report is counted once.
func TestAHangingServiceDelaysNoOtherReport(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		s.buyer.SetProviders([]Entry{{Provider: s.provider, Concurrency: 1}, {Provider: newFakeProvider(s.ledger, "two"), Concurrency: 1}})
		s.provider.report = func() error {
			time.Sleep(10 * time.Second)
			return &provider.Error{Class: provider.Capacity, Code: "timeout"}
		}
		stop := s.startRunning(t)
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
