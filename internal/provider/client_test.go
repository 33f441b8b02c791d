package provider

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// The poll times of the file hold. TestRequests has those of the services, which hold without them.
func TestPollTimesOfTheFileHold(t *testing.T) {
	first, interval := Pace(targets.Provider{Service: captchaAI, Protocol: targets.ProtocolInPHP, FirstPoll: time.Second,
		PollInterval: time.Minute}, captcha.Turnstile)
	testkit.Equal(t, "first poll and interval", fmt.Sprint(first, interval), "1s 1m0s")
	first, interval = Pace(targets.Provider{Protocol: targets.ProtocolSimulated}, captcha.Image)
	testkit.Equal(t, "first poll and interval of the simulated provider", fmt.Sprint(first, interval), "2s 1s")
}

// An answer without a balance leaves the last one, which TestReplies reads.
func TestALastBalanceStays(t *testing.T) {
	c, _, _, says := newScriptedClient(t, targets.Provider{Balance: true})
	says(http.StatusOK, "2.5")
	testkit.NoError(t, c.ReadBalance(t.Context()))
	says(http.StatusOK, "a lot")
	testkit.Equal(t, "the answer is refused", c.ReadBalance(t.Context()) != nil, true)
	testkit.Equal(t, "balance", *c.Balance(), 2.5)
}

// TestRequests has the calls of balances and reports that are made.
func TestCallsThatAreNotMade(t *testing.T) {
	c, _, w, _ := newScriptedClient(t, targets.Provider{Balance: false})
	testkit.NoError(t, c.ReadBalance(t.Context()))
	testkit.Equal(t, "a balance that is switched off is known", c.Balance() != nil, false)
	err := c.Report(t.Context(), "", captcha.Turnstile, true)
	testkit.ErrorIs(t, "a report without the id of a task", err, ErrNoReport)
	testkit.Equal(t, "calls", w.count(), 0)
}
