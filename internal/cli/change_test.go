package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/httpapi"
	"poold/internal/refill"
	"poold/internal/status"
)

// runChange runs a command that changes a target. Until the change, the daemon answers each status
// request with the first of the given states. After the change, it answers with the other states,
// one by one, and repeats the last state.
func runChange(t *testing.T, command func(*Console) *cobra.Command, args []string, before status.Target, after ...status.Target) (printed string, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		changed := false
		withTransport(t, func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				changed = true
				return answer(http.StatusNoContent, http.NoBody), nil
			}
			shown := before
			if changed {
				shown = after[0]
				after = after[min(1, len(after)-1):]
			}
			text, err := json.Marshal(status.TargetDetail{Target: shown, Currency: "USD"})
			return answer(http.StatusOK, io.NopCloser(strings.NewReader(string(text)))), err
		})
		began := time.Now()
		var err error
		if printed, err = runOn(t.Context(), command, args...); err != nil {
			t.Error(err)
		}
		took = time.Since(began)
	})
	return printed, took
}

// For a refused target, `poold resume` waits for the outcome of an order.
func TestResumeReportsTheOutcome(t *testing.T) {
	refused := status.Target{State: refill.Refused, FailedInARow: 2, BoughtInFlight: 1, Reason: "ERROR_OLD"}
	again, accepted, recovered := refused, refused, refused
	again.FailedInARow, again.Reason = 3, "ERROR_NEW"
	accepted.BoughtInFlight = 2
	recovered.State = refill.OK
	fine := status.Target{State: refill.OK, Fresh: 1, InFlight: 2, Depth: 5}
	const step = outcomeTime / 50
	for name, c := range map[string]struct {
		before status.Target
		after  []status.Target
		want   string
		took   time.Duration
	}{
		"refused again": {refused, []status.Target{refused, refused, again}, "tried at once, and refused again: ERROR_NEW", 2 * step},
		"accepted":      {refused, []status.Target{refused, accepted}, "tried at once, and the provider accepted the order; the refusal ends when this order is solved", step},
		"recovered":     {refused, []status.Target{recovered}, "the provider takes orders for it again; its state is ok", 0},
		"no outcome":    {refused, []status.Target{refused}, "the next order is placed at once; no order is wanted now, or none was answered yet", outcomeTime},
		"not refused":   {fine, []status.Target{fine}, "buying continues; 1 token ready, 2 on order, depth 5", 0},
	} {
		printed, took := runChange(t, newResume, []string{"login"}, c.before, c.after...)
		if printed != "login: "+c.want+"\n" || took < c.took || took > c.took+2*step {
			t.Errorf("%s, after %v:\n%swant %s after %v", name, took, printed, c.want, c.took)
		}
	}
}

// `poold flush` counts the discarded tokens, unless the status is too old to show them.
func TestFlushCountsTheDiscardedTokens(t *testing.T) {
	target := func(fresh int, discarded int64) status.Target {
		return status.Target{Fresh: fresh, InFlight: 2, Counters: status.Counters{Discarded: discarded}}
	}
	for name, c := range map[string]struct {
		before, after status.Target
		want          string
	}{
		"some":          {target(3, 7), target(0, 10), "3 tokens discarded; 2 on order still land"},
		"one":           {target(1, 7), target(0, 8), "1 token discarded; 2 on order still land"},
		"none":          {target(0, 7), target(0, 7), "0 tokens discarded; 2 on order still land"},
		"an old status": {target(3, 7), target(3, 7), "its ready tokens were discarded"},
		"with prices": {status.Target{Fresh: 2, Counters: status.Counters{Counts: status.Counts{Solved: 50}}, Spent: 0.1}, target(0, 2),
			"2 tokens discarded, worth about 0.0040 USD at the mean cost so far; 2 on order still land"},
		"new counters": {target(3, 7), target(0, 0), "its ready tokens were discarded"},
	} {
		if printed, _ := runChange(t, newFlush, []string{"login"}, c.before, c.after); printed != "login: "+c.want+"\n" {
			t.Errorf("%s: %swant %s", name, printed, c.want)
		}
	}
}

// `poold pause` prints the end of the pause.
func TestChangesNameTheirTimes(t *testing.T) {
	now := func(in time.Duration) string { // the start of a synctest bubble, plus the duration in
		return moment(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).Add(in))
	}
	target := status.Target{Fresh: 3, InFlight: 2}
	for _, c := range []struct {
		command func(*Console) *cobra.Command
		args    string
		want    string
	}{
		{newPause, "login --for 30s", "paused until " + now(30*time.Second) + "; 3 tokens ready and 2 on order are still handed out"},
		{newPause, "login", "paused until it is resumed; 3 tokens ready and 2 on order are still handed out"},
	} {
		if printed, _ := runChange(t, c.command, strings.Fields(c.args), target, target); printed != "login: "+c.want+"\n" {
			t.Errorf("%s: %swant %s", c.args, printed, c.want)
		}
	}
}

// `poold probe` prints the state, and also the reason, the remedy and the next step if they are known.
func TestProbeNamesReasonAndRemedy(t *testing.T) {
	var asked string
	var found httpapi.Probe
	withTransport(t, func(r *http.Request) (*http.Response, error) {
		asked = r.Method + " " + r.URL.EscapedPath()
		text, err := json.Marshal(found)
		return answer(http.StatusOK, io.NopCloser(strings.NewReader(string(text)))), err
	})
	for want, probe := range map[string]httpapi.Probe{
		"acme is ok": {State: "ok"},
		"acme is down: no money; top it up; the next order is the probe": {State: "down", Reason: "no money", Remedy: "top it up"},
		"acme is busy: no slot": {State: "busy", Reason: "no slot"},
	} {
		found = probe
		found.Name = "acme"
		printed, err := runOn(context.Background(), newProbe, "ac/me")
		if err != nil || printed != want+"\n" || asked != "POST /providers/ac%2Fme/probe" {
			t.Errorf("%s: %v, %swant %s", asked, err, printed, want)
		}
	}
}
