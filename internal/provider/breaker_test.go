package provider

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	sold     = `{"status":1,"request":"5"}`
	noSlot   = `{"status":0,"request":"ERROR_NO_SLOT_AVAILABLE"}`
	wrongKey = `{"status":0,"request":"ERROR_WRONG_USER_KEY"}`
	noMoney  = `{"status":0,"request":"ERROR_ZERO_BALANCE"}`
	pending  = `{"status":0,"request":"CAPCHA_NOT_READY"}`
	badPage  = `{"status":0,"request":"ERROR_PAGEURL"}`
	unsolved = `{"status":0,"request":"ERROR_CAPTCHA_UNSOLVABLE"}`
)

// waitReady sleeps until Ready returns true. It returns the duration of the wait.
func waitReady(t *testing.T, c *Client) time.Duration {
	t.Helper()
	began := time.Now()
	for range 1000 {
		ready, wait := c.Ready(time.Now())
		if ready {
			return time.Since(began)
		}
		if wait <= 0 {
			t.Fatalf("not ready, and nothing to wait for: %v", wait)
		}
		time.Sleep(wait)
	}
	t.Fatal("never ready")
	return 0
}

func wantState(t *testing.T, c *Client, kind StateKind, reason string) {
	t.Helper()
	s := c.State(time.Now())
	if s.Kind != kind || !strings.Contains(s.Reason, reason) || (kind == StateOK) != (s.Reason == "") || (kind == StateOK) != s.Until.IsZero() {
		t.Errorf("state %+v, want %s for %q", s, kind, reason)
	}
}

// Each further capacity fault lengthens the pause by half, up to 30 s. After an accepted submit,
// the pauses start again with the shortest one.
func TestCapacityBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, w, says := newScriptedClient(t, Config{})
		wantState(t, c, StateOK, "")
		says(http.StatusOK, noSlot)
		for i, want := range []float64{5, 7.5, 11.25, 16.875, 25.3, 30, 30} {
			e := faultOf(t, submitOne(t, c))
			wantState(t, c, StateBusy, "ERROR_NO_SLOT_AVAILABLE")
			// Tasks that were bought before the fault are still polled.
			before := w.count()
			_ = pollOne(t, c)
			if w.count() != before+1 {
				t.Error("a busy provider's tasks are not polled")
			}
			took := waitReady(t, c).Seconds()
			if took < want || took > max(30, want*1.2)+0.01 || e.Delay.Seconds() != took {
				t.Errorf("fault %d: ready after %v s, told %v, want %v", i+1, took, e.Delay, want)
			}
			wantState(t, c, StateOK, "")
		}
		says(http.StatusOK, sold)
		if err := submitOne(t, c); err != nil {
			t.Fatal(err)
		}
		says(http.StatusOK, noSlot)
		if e := faultOf(t, submitOne(t, c)); e.Delay > 6*time.Second {
			t.Errorf("after a success the first delay is %v", e.Delay)
		}
		// A later submit succeeds, so the service has capacity again.
		says(http.StatusOK, sold)
		if err := submitOne(t, c); err != nil {
			t.Fatal(err)
		}
		wantState(t, c, StateOK, "")
	})
}

// With a wrong key, many attempts within ten minutes lead to only ten calls.
func TestAWrongKeyIsProbedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j, w, says := newScriptedClient(t, Config{Balance: true})
		says(http.StatusOK, wrongKey)
		if e := faultOf(t, submitOne(t, c)); e.Class != Account || e.Unknown || e.Delay != time.Minute {
			t.Fatalf("%v after %v", e, e.Delay)
		}
		ctx := context.Background()
		granted, refused := 0, 0
		began := time.Now()
		for range 10 * 60 {
			time.Sleep(time.Second)
			wantState(t, c, StateDown, "ERROR_WRONG_USER_KEY")
			if s := c.State(time.Now()); !s.Since.Equal(began) || s.Fault != "refuses the key" {
				t.Fatalf("%q since %v, want since %v", s.Fault, s.Since, began)
			}
			ready := false
			for range 3 {
				if yes, wait := c.Ready(time.Now()); yes {
					if ready {
						t.Fatal("two probes in one turn")
					}
					ready = true
				} else if wait <= 0 || wait > time.Minute {
					t.Fatalf("not ready for %v", wait)
				}
			}
			before := w.count()
			for range 3 {
				e := faultOf(t, submitOne(t, c))
				_, _, err := c.Threads(ctx)
				b := faultOf(t, err)
				if e.Class != Account || b.Class != Account || e.Unknown {
					t.Fatalf("calls during an account fault give %v, %v", e, b)
				}
				refused += 2
				_ = c.ReadBalance(ctx)
			}
			switch calls := w.count() - before; {
			case ready && calls == 1:
				granted++
			case ready || calls != 0:
				t.Fatalf("%d calls in a second, probe granted: %v", calls, ready)
			}
		}
		// The refusal of each probe starts a new minute.
		if granted < 9 || granted > 10 || w.count() != granted+1 {
			t.Errorf("%d probes, %d calls, %d refused at the door", granted, w.count(), refused)
		}
		if n := strings.Count(j.String(), "account fault"); n != 1 {
			t.Errorf("the pause is logged %d times:\n%s", n, j.String())
		}
	})
}

// A refusal for a reason other than the account shows that the account can buy.
func TestAProperAnswerToTheSameCallEndsAPause(t *testing.T) {
	for _, row := range []struct {
		raisedBy, probeBy string
		status            int
		reply             string
		ends              bool
	}{
		{submit, submit, 200, sold, true},
		{submit, submit, 200, noSlot, true},
		{submit, submit, 200, badPage, true},
		{submit, submit, 200, unsolved, true},
		{submit, submit, 429, noSlot, true},
		{submit, submit, 429, "slow down", false},
		{submit, submit, 500, "", false},
		{submit, submit, 200, "<html>", false},
		{submit, submit, 200, noMoney, false},
		{submit, poll, 200, pending, false}, // a pending task says nothing about the balance
		{submit, poll, 200, sold, false},
		{poll, poll, 200, pending, true},
		{poll, poll, 200, unsolved, true},
		{poll, poll, 500, "", false},
		{poll, submit, 200, sold, false}, // an accepted submit does not show that polls work
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _, w, says := newScriptedClient(t, Config{Profile: twoCaptcha})
			act := map[string]func(*testing.T, *Client) error{submit: submitOne, poll: pollOne}
			says(http.StatusOK, wrongKey)
			_ = act[row.raisedBy](t, c)
			wantState(t, c, StateDown, "ERROR_WRONG_USER_KEY")
			time.Sleep(time.Minute)
			says(row.status, row.reply)
			_ = act[row.probeBy](t, c)
			if w.count() != 2 {
				t.Errorf("%+v: the probe was not let through", row)
			}
			if ended := c.State(time.Now()).Kind != StateDown; ended != row.ends {
				t.Errorf("%+v: the pause is over: %v", row, ended)
			}
		})
	}
}

// The answer to a call that was sent before a fault neither ends the pause nor shortens a ban.
func TestOldAnswersProveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(t, Config{Profile: twoCaptcha})
		replies := []string{"ERROR: 1001", sold, noMoney}
		c.wire = &scripted{reply: func(n int, _ *http.Request) (int, string, error) {
			time.Sleep(time.Duration(n) * time.Second)
			return http.StatusOK, replies[n-1], nil
		}}
		var calls sync.WaitGroup
		for range replies {
			calls.Go(func() { _, _ = c.Submit(context.Background(), Request{Identity: v2}) })
		}
		calls.Wait()
		wantState(t, c, StateDown, "ERROR: 1001")
		if wait := waitReady(t, c); wait < 9*time.Minute {
			t.Errorf("the ban ends after %v", wait)
		}
	})
}

// After a submit causes an account fault, one poll is made after 5 s, and after that one poll per
// minute. When the service answers a poll, all tasks are polled normally again, but submits stay
// stopped.
func TestPollTurnsDuringAnAccountFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, w, says := newScriptedClient(t, Config{Profile: twoCaptcha})
		turn := func(after time.Duration, want bool) {
			t.Helper()
			time.Sleep(after)
			if ok, wait := c.PollTurn(time.Now()); ok != want || ok != (wait == 0) {
				t.Errorf("a poll may be sent: %v, else in %v", ok, wait)
			}
		}
		turn(0, true)
		turn(0, true)
		says(http.StatusOK, noMoney)
		_ = submitOne(t, c)
		turn(0, false)
		turn(pollSoon, true)
		turn(0, false) // this turn is already used
		_ = pollOne(t, c)
		turn(50*time.Second, false)
		turn(10*time.Second, true)
		says(http.StatusOK, pending)
		_ = pollOne(t, c)
		turn(0, true)
		turn(0, true)
		says(http.StatusOK, noMoney)
		_ = submitOne(t, c) // the probe
		turn(0, true)
		calls := w.count()
		if e := faultOf(t, submitOne(t, c)); e.Class != Account || w.count() != calls {
			t.Errorf("a submit after an answered poll gives %v", e)
		}
		if f := c.Fault(); f == nil || !f.Polls || f.Code != "ERROR_ZERO_BALANCE" || f.Action != submit {
			t.Errorf("the fault is %+v", f)
		}
	})
}

// A probe reads the balance immediately, even during an account fault or an outage. It allows the
// next submit.
func TestAProbeIsMadeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, w, says := newScriptedClient(t, Config{Balance: true})
		says(http.StatusOK, wrongKey)
		_ = submitOne(t, c)
		if e := faultOf(t, c.Probe(context.Background())); e.Class != Account || w.count() != 2 {
			t.Errorf("a probe gives %v after %d calls", e, w.count())
		}
		says(http.StatusOK, "2.5")
		if err := c.Probe(context.Background()); err != nil {
			t.Error(err)
		}
		if ready, wait := c.Ready(time.Now()); !ready {
			t.Errorf("the next submit waits for %v", wait)
		}
		says(http.StatusOK, sold)
		if err := submitOne(t, c); err != nil {
			t.Error(err)
		}
		wantState(t, c, StateOK, "")

		says(http.StatusBadGateway, "")
		for range outageAfter {
			_ = pollOne(t, c)
		}
		time.Sleep(time.Second)
		before := w.count()
		if e := faultOf(t, c.Probe(context.Background())); e.Code != "http_502" || w.count() != before+1 {
			t.Errorf("a probe in an outage gives %v after %d calls", e, w.count()-before)
		}
		time.Sleep(time.Second)
		says(http.StatusOK, "2.5")
		if err := c.Probe(context.Background()); err != nil {
			t.Error(err)
		}
		wantState(t, c, StateOK, "")
	})
}
