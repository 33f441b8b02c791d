package provider

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/simulated"
)

// TestAgainstAWholeService buys every kind of token in both protocols from the
// simulated service, which reads what it is asked strictly.
func TestAgainstAWholeService(t *testing.T) {
	ids := everyKind()
	for _, api := range []string{APILegacy, APITasks} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			o := simulated.Options{
				Key: canary, Median: time.Hour, Threads: 100, Ledger: true,
				NumericIDs: true, EnterpriseInResult: true, UserAgent: "a browser",
			}
			busy := simulated.New(o)
			o.Median = time.Millisecond
			service := simulated.New(o)
			waiting, _ := serve(t, Config{API: api}, busy.ServeHTTP)
			c, _ := serve(t, Config{API: api, Balance: true}, service.ServeHTTP)
			ctx := context.Background()
			for i, id := range ids {
				task, err := waiting.Submit(ctx, id, "")
				if err != nil {
					t.Fatalf("%+v: %v", id, err)
				}
				if _, err := waiting.Poll(ctx, task, id); !errors.Is(err, ErrNotReady) {
					t.Errorf("%+v: polled an hour before its end: %v", id, err)
				}
				task, err = c.Submit(ctx, id, "")
				if err != nil {
					t.Fatalf("%+v: %v", id, err)
				}
				solution, err := c.Poll(ctx, task, id)
				for errors.Is(err, ErrNotReady) {
					time.Sleep(time.Millisecond)
					solution, err = c.Poll(ctx, task, id)
				}
				if err != nil || solution.UserAgent == "" {
					t.Fatalf("%+v: %+v, %v", id, solution, err)
				}
				sale := service.Sold()[i]
				if sale.Task != task || sale.Identity != id || sale.Token != solution.Token {
					t.Errorf("ordered %+v, sold %+v", id, sale.Identity)
				}
			}
			if total, ok, err := c.Threads(ctx); err != nil || ok != (api == APILegacy) || ok && total != 100 {
				t.Errorf("threads: %d %v %v", total, ok, err)
			}
			if err := c.ReadBalance(ctx); err != nil || c.State(time.Now()).Balance == nil {
				t.Errorf("balance: %v", err)
			}
			_, err := c.Poll(ctx, "123", ids[0])
			if e := faultOf(t, err); e.Class != Task {
				t.Errorf("an unknown task: %v", e)
			}
			_, err = c.Submit(ctx, captcha.Identity{Type: captcha.Turnstile, Sitekey: "k"}, "")
			if e := faultOf(t, err); e.Class != Parameters {
				t.Errorf("no page: %v", e)
			}
		})
	}
	service := simulated.New(simulated.Options{Key: "another"})
	c, _ := serve(t, Config{}, http.HandlerFunc(service.ServeHTTP))
	if e := faultOf(t, submitOne(t, c)); e.Class != Account {
		t.Errorf("a wrong key: %v", e)
	}
}

// everyKind is each type, once with little and once with all that it takes.
func everyKind() []captcha.Identity {
	var ids []captcha.Identity
	for _, kind := range captcha.Types() {
		id := captcha.Identity{Type: kind, Sitekey: "a-sitekey", Pageurl: "https://example.com/?a=b&c=d"}
		ids = append(ids, id)
		id.UserAgent, id.Proxy, id.ProxyType = "Mozilla/5.0 (X11)", "user:p@ss@192.0.2.1:8080", "socks5"
		switch kind {
		case captcha.RecaptchaV2:
			id.Invisible, id.Enterprise = true, true
		case captcha.RecaptchaV3:
			id.Enterprise, id.Action, id.MinScore = true, "homepage", 0.7
		case captcha.HCaptcha:
			id.Invisible = true
		case captcha.Turnstile:
			id.Action, id.Data = "login", "c&d=e"
		}
		ids = append(ids, id)
	}
	return ids
}
