package provider

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// The poll times of the file hold. TestRequests has those of the services, which hold without them.
func TestPace(t *testing.T) {
	first, interval := Pace(targets.Provider{Service: captchaAI, Protocol: targets.ProtocolInPHP, FirstPoll: time.Second,
		PollInterval: time.Minute}, captcha.Turnstile)
	testkit.Equal(t, "first poll and interval", fmt.Sprint(first, interval), "1s 1m0s")
	first, interval = Pace(targets.Provider{Protocol: targets.ProtocolSimulated}, captcha.Image)
	testkit.Equal(t, "first poll and interval of the simulated provider", fmt.Sprint(first, interval), "2s 1s")
}

func TestABalanceIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c, _, _, says := newScriptedClient(t, targets.Provider{Balance: true})
		says(http.StatusOK, "2.5")
		testkit.NoError(t, c.ReadBalance(ctx))
		if b := c.Balance(); b == nil || *b != 2.5 {
			t.Errorf("balance %v", b)
		}
		says(http.StatusOK, `{"status":1,"request":"a lot"}`)
		if err := c.ReadBalance(ctx); err == nil {
			t.Error("a balance that is not a number is accepted")
		}
		if b := c.Balance(); b == nil || *b != 2.5 {
			t.Errorf("the last good balance is gone: %v", b)
		}

		off, _, w, _ := newScriptedClient(t, targets.Provider{})
		if err := off.ReadBalance(ctx); err != nil || w.count() != 0 || off.Balance() != nil {
			t.Errorf("a balance that is switched off is read: %v", err)
		}
	})
}
