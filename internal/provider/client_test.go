package provider

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// Each protocol of the file has an implementation, and a dialect, with which the tests of replies and secrets try it.
func TestCompleteProtocols(t *testing.T) {
	field, _ := reflect.TypeFor[targets.Provider]().FieldByName("Protocol")
	for _, name := range strings.Fields(field.Tag.Get("oneof")) {
		protocol := targets.Protocol(name)
		if protocolOf(targets.Provider{Protocol: protocol}) == nil {
			t.Errorf("%s has no row in protocolOf (client.go)", name)
		}
		has := slices.ContainsFunc(dialects(), func(d dialect) bool { return d.api == protocol })
		if !has && protocol != targets.ProtocolSimulated { // which speaks in_php
			t.Errorf("%s has no row in dialects (hostile_test.go)", name)
		}
	}
}

// The file's poll times hold. Without them the service, the protocol and the type decide.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		provider targets.Provider
		kind     captcha.Type
		want     string // first poll and interval
	}{
		{targets.Provider{Service: twoCaptcha, Protocol: targets.ProtocolInPHP}, captcha.RecaptchaV2, "15s 5s"},
		{targets.Provider{Service: twoCaptcha, Protocol: targets.ProtocolCreateTask}, captcha.Turnstile, "5s 5s"},
		{targets.Provider{Service: captchaAI, Protocol: targets.ProtocolInPHP}, captcha.Turnstile, "15s 5s"},
		{targets.Provider{Service: other, Protocol: targets.ProtocolCreateTask}, captcha.RecaptchaV2, "10s 3s"},
		{targets.Provider{Service: other, Protocol: targets.ProtocolCreateTask}, captcha.Image, "5s 5s"},
		{targets.Provider{Protocol: targets.ProtocolSimulated}, captcha.Image, "2s 1s"},
		{targets.Provider{Service: captchaAI, Protocol: targets.ProtocolInPHP, FirstPoll: time.Second,
			PollInterval: time.Minute}, captcha.Turnstile, "1s 1m0s"},
	} {
		first, interval := Pace(c.provider, c.kind)
		testkit.Equal(t, fmt.Sprint(c), fmt.Sprint(first, interval), c.want)
	}
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
