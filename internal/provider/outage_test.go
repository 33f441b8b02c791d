package provider

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestFiveFailuresBeginAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, w, says := newScriptedClient(t, Config{})
		fail := func(n int) {
			for range n {
				if e := faultOf(t, pollOne(t, c)); e.Class != Capacity || e.Delay < 5*time.Second {
					t.Fatalf("a poll gives %v after %v", e, e.Delay)
				}
			}
		}
		says(http.StatusBadGateway, "<html>")
		fail(outageAfter - 1)
		says(http.StatusOK, pending)
		_ = pollOne(t, c) // ends the series of failed calls
		says(http.StatusBadGateway, "<html>")
		fail(outageAfter - 1)
		wantState(t, c, StateOK, "")
		if ready, _ := c.Ready(time.Now()); !ready {
			t.Error("not ready after four failures of polls")
		}
		fail(1)
		wantState(t, c, StateDown, "http_502")

		before := w.count()
		for range 10 {
			if e := faultOf(t, submitOne(t, c)); e.Class != Capacity || e.Unknown || e.Code != "outage" || e.Delay <= 0 {
				t.Fatalf("a submit gives %v", e)
			}
			if e := faultOf(t, pollOne(t, c)); e.Code != "outage" {
				t.Fatalf("a poll gives %v", e)
			}
			if ready, wait := c.Ready(time.Now()); ready || wait > outageFor {
				t.Fatalf("ready %v, wait %v", ready, wait)
			}
			time.Sleep(time.Second - time.Millisecond)
		}
		if w.count() != before {
			t.Errorf("%d calls during the outage", w.count()-before)
		}
	})
}

// Ten seconds after an outage began, one call is made. Its result ends or prolongs the outage.
func TestATrialEndsOrProlongsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j, w, says := newScriptedClient(t, Config{})
		says(http.StatusBadGateway, "<html>")
		for range outageAfter {
			_ = pollOne(t, c)
		}
		before := w.count()
		waitReady(t, c)
		if ready, wait := c.Ready(time.Now()); ready || wait != regrantAfter {
			t.Errorf("a second trial is granted: %v, %v", ready, wait)
		}
		if e := faultOf(t, submitOne(t, c)); !e.Unknown {
			t.Errorf("the trial gives %v", e)
		}
		_ = submitOne(t, c)
		if w.count() != before+1 {
			t.Errorf("%d calls, want one trial", w.count()-before)
		}
		wantState(t, c, StateDown, "http_502")

		says(http.StatusOK, pending)
		waitReady(t, c)
		if err := pollOne(t, c); !errors.Is(err, ErrNotReady) {
			t.Errorf("the second trial gives %v", err)
		}
		wantState(t, c, StateOK, "")
		for _, line := range []string{"no proper answers", "called again"} {
			if n := strings.Count(j.String(), line); n != 1 {
				t.Errorf("%q is logged %d times:\n%s", line, n, j.String())
			}
		}
	})
}

// An outage begins after five failed calls. After that, one call is made every 10 s until a call
// gets a proper answer. The docs state the same numbers.
func TestAnOutageIsProbedEachTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(t, Config{})
		var made []time.Duration
		began := time.Now()
		c.wire = &scripted{reply: func(int, *http.Request) (int, string, error) {
			made = append(made, time.Since(began))
			return http.StatusBadGateway, "", nil
		}}
		for range 36 * 4 {
			_ = pollOne(t, c)
			time.Sleep(250 * time.Millisecond)
		}
		want := []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond, time.Second}
		for after := 11 * time.Second; after < 36*time.Second; after += 10 * time.Second {
			want = append(want, after)
		}
		if !slices.Equal(made, want) {
			t.Errorf("calls after %v, want %v", made, want)
		}
	})
}

// While a trial call is in flight, every other call fails with an error that contains a delay.
func TestOnlyOneTrialIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(t, Config{})
		w := &scripted{reply: func(n int, _ *http.Request) (int, string, error) {
			if n > outageAfter {
				time.Sleep(9 * time.Second)
			}
			return http.StatusBadGateway, "", nil
		}}
		c.wire = w
		for range outageAfter {
			_ = pollOne(t, c)
		}
		time.Sleep(outageFor)
		var trials sync.WaitGroup
		for range 5 {
			trials.Go(func() {
				_, err := c.Poll(context.Background(), "1", v2)
				var e *Error
				if !errors.As(err, &e) || e.Class != Capacity || e.Delay < time.Second {
					t.Errorf("%v", err)
				}
			})
		}
		trials.Wait()
		if w.count() != outageAfter+1 {
			t.Errorf("%d trials", w.count()-outageAfter)
		}
	})
}

// Refusals that follow the protocol never begin an outage.
func TestRefusalsAreNoOutage(t *testing.T) {
	for _, reply := range []struct {
		status int
		body   string
	}{{200, pending}, {200, badPage}, {200, unsolved}, {200, noSlot}, {400, badPage}, {429, ""}} {
		synctest.Test(t, func(t *testing.T) {
			c, _, w, says := newScriptedClient(t, Config{})
			says(reply.status, reply.body)
			for range 3 * outageAfter {
				_ = pollOne(t, c)
			}
			if w.count() != 3*outageAfter || c.State(time.Now()).Kind == StateDown {
				t.Errorf("%d %s: %d calls, state %+v", reply.status, reply.body, w.count(), c.State(time.Now()))
			}
		})
	}
}

// After a lost submit, further orders are slowed down, because each of them may cost a task.
func TestALostSubmitSlowsOrdersDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _, says := newScriptedClient(t, Config{})
		says(http.StatusInternalServerError, "")
		if e := faultOf(t, submitOne(t, c)); !e.Unknown || e.Delay < hiccup {
			t.Errorf("%v after %v", e, e.Delay)
		}
		wantState(t, c, StateBusy, "http_500")
		if took := waitReady(t, c); took < hiccup {
			t.Errorf("ready after %v", took)
		}
	})
}
