package provider

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"poold/internal/targets"
	"poold/internal/testkit"
)

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
