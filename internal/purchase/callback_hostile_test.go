package purchase

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase/signature"
	"poold/internal/redisdb"
	"poold/internal/spool"
)

// An invalid callback gets the same response as a valid callback. It is counted and changes nothing
// in Redis. The order is still polled.
func TestInvalidCallbacksChangeNothing(t *testing.T) {
	const good = "id=t1&code=03AFcallback"
	query := func(text string) func(*Callback, *Order) {
		return func(c *Callback, _ *Order) { c.Query, _ = url.ParseQuery(text) }
	}
	body := func(kind, text string) func(*Callback, *Order) {
		return func(c *Callback, _ *Order) { c.Query, c.ContentType, c.Body = nil, kind, []byte(text) }
	}
	cases := map[string]struct {
		change  func(c *Callback, o *Order)
		outcome string
	}{
		"no secret":         {func(c *Callback, _ *Order) { c.Secret = "" }, CallbackForged},
		"a wrong secret":    {func(c *Callback, _ *Order) { c.Secret = strings.Repeat("0", 32) }, CallbackForged},
		"half a secret":     {func(c *Callback, _ *Order) { c.Secret = c.Secret[:16] }, CallbackForged},
		"in capitals":       {func(c *Callback, _ *Order) { c.Secret = "\x00" + strings.ToUpper(c.Secret) }, CallbackForged},
		"an unknown signer": {func(c *Callback, o *Order) { c.Secret = signature.Of("third", "one", o.String()) }, CallbackForged},
		"an empty signer":   {func(c *Callback, o *Order) { c.Secret = signature.Of("", "one", o.String()) }, CallbackForged},
		"of another order":  {func(c *Callback, o *Order) { c.Secret = signature.Of("first", "one", o.String()+"0") }, CallbackForged},
		"another provider":  {func(c *Callback, _ *Order) { c.Provider = "two" }, CallbackForged},
		"its own signature": {func(c *Callback, o *Order) { c.Provider, c.Secret = "two", signature.Of("first", "two", o.String()) }, CallbackForged},
		"no provider":       {func(c *Callback, o *Order) { c.Provider, c.Secret = "", signature.Of("first", "", o.String()) }, CallbackForged},
		"no order":          {func(c *Callback, _ *Order) { c.Order, c.Secret = "", signature.Of("first", "one", "") }, CallbackForged},
		"order alone":       {func(c *Callback, o *Order) { c.Order, c.Secret = o.Order, signature.Of("first", "one", o.Order) }, CallbackForged},
		"a path":            {func(c *Callback, _ *Order) { c.Order, c.Secret = "../x", signature.Of("first", "one", "../x") }, CallbackForged},
		"a control in order": {func(c *Callback, o *Order) {
			c.Order = o.String() + "\n"
			c.Secret = signature.Of("first", "one", c.Order)
		}, CallbackForged},
		"a huge order":      {func(c *Callback, _ *Order) { c.Order = strings.Repeat("A", 1<<20) }, CallbackForged},
		"nothing at all":    {func(c *Callback, _ *Order) { *c = Callback{} }, CallbackForged},
		"oversized, forged": {func(c *Callback, _ *Order) { c.Secret, c.Oversized = "x", true }, CallbackForged},

		"oversized":          {func(c *Callback, _ *Order) { c.Oversized = true }, CallbackMalformed},
		"oversized body":     {body(formType, good+strings.Repeat("x", 1<<20)), CallbackMalformed},
		"empty":              {query(""), CallbackMalformed},
		"a task alone":       {query("id=t1"), CallbackMalformed},
		"control characters": {query("id=t1&code=03AF%00%1b"), CallbackMalformed},
		"a picture's text":   {query("id=t1&code=two+words"), CallbackMalformed},
		"a control in task":  {query("id=t%0a1&code=03AFcallback"), CallbackMalformed},
		"not ready":          {query("id=t1&code=CAPCHA_NOT_READY"), CallbackMalformed},
		"processing":         {body(jsonType, `{"errorId":0,"status":"processing","taskId":"t1"}`), CallbackMalformed},
		"rubbish":            {body(jsonType, `{"id":"t1","code":`), CallbackMalformed},
		"deep rubbish":       {body(jsonType, strings.Repeat(`{"solution":`, 1000)), CallbackMalformed},
		"another kind":       {body("text/html", good), CallbackMalformed},
		"two tokens":         {query(good + "&code=another"), CallbackMalformed},
		"another task":       {query("id=t2&code=03AFcallback"), CallbackMalformed},
		"another's failure":  {query("id=t2&code=ERROR_CAPTCHA_UNSOLVABLE"), CallbackMalformed},

		"an unknown order": {func(c *Callback, o *Order) {
			c.Order = pool.Ref{Order: "NEVERPLACED", Identity: o.Identity}.String()
			c.Secret = signature.Of("first", "one", c.Order)
		}, CallbackUnknown},
		"another identity": {func(c *Callback, o *Order) {
			c.Order = pool.Ref{Order: o.Order, Identity: "0123456789abcdef0123456789abcdef"}.String()
			c.Secret = signature.Of("first", "one", c.Order)
		}, CallbackUnknown},
	}
	for name, c := range cases {
		runBubble(t, name, func(t *testing.T) {
			s := newCallbackBuyer(t, "no letters")
			o := s.order(t)
			ended := s.startCollecting(t, o)
			before := s.stock.dump()
			s.forget()
			told := callbackTo(s.provider.submitted.Pingback, good)
			c.change(&told, o)
			s.mustCall(t, told)
			s.want(t, "callback "+c.outcome)
			if after := s.stock.dump(); after != before {
				t.Errorf("redis was changed:\n%s\nto:\n%s", before, after)
			}
			synctest.Wait()
			if len(ended) != 0 {
				t.Error("the waiting ended")
			}
			if r := <-ended; r.Err != nil || s.stock.tokens() != 1 || s.provider.polls != 1 {
				t.Errorf("collect = %v, %d tokens, %d polls; want polling to land it", r.Err, s.stock.tokens(), s.provider.polls)
			}
		})
	}
}

// A callback with the task of another order does not end this order, even if the task id of this
// order is unknown.
func TestACallbackWithAnotherOrdersTaskIsIgnored(t *testing.T) {
	for _, text := range []string{"id=t9&code=03AFcallback", "id=t9&code=ERROR_CAPTCHA_UNSOLVABLE"} {
		withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
			s.provider.submit = func(context.Context) (string, error) { return "t9", nil }
			ended := s.startCollecting(t, s.order(t))
			s.provider.submit = func(context.Context) (string, error) {
				return "", &provider.Error{Class: provider.Capacity, Code: "EOF", Unknown: true}
			}
			if r := s.buyer.orders.collect(t.Context(), s.order(t)); r.Outcome != Lost {
				t.Fatalf("collect = %v, want Lost", r.Err)
			}
			before := s.stock.dump()
			s.forget()
			s.mustCall(t, callbackTo(s.provider.submitted.Pingback, text))
			s.want(t, "claim t9", "callback malformed")
			if after := s.stock.dump(); after != before {
				t.Errorf("redis was changed:\n%s\nto:\n%s", before, after)
			}
			s.mustCall(t, callbackTo(s.provider.submitted.Pingback, "id=t10&code=03AFcallback"))
			if r := <-ended; r.Err != nil || s.stock.tokens() != 2 {
				t.Errorf("collect = %v, %d tokens, want both orders landed", r.Err, s.stock.tokens())
			}
		})
	}
}

// The log never contains a token or a secret, whatever the outcome of a callback.
func TestCallbacksLogNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const canary = "03AFcanary"
		var logged bytes.Buffer
		s := newCallbackBuyer(t, t.TempDir())
		s.buyer.log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o := s.order(t)
		genuine := callbackTo(o.address(), "id=t1&code="+canary)
		forged := genuine
		forged.Secret = "guess-4711"
		s.stock.fault = func(string) error { return redisdb.ErrDown }
		s.mustCall(t, genuine)
		s.buyer.callbacks.kept = spool.New("")
		if err := s.buyer.Callback(t.Context(), genuine); !errors.Is(err, ErrNotKept) {
			t.Errorf("callback = %v, want ErrNotKept", err)
		}
		s.stock.fault = nil
		s.mustCall(t, forged)
		s.mustCall(t, genuine)
		s.want(t, "callback kept", "callback refused", "callback forged", "claim t1", "settle", "release", "login at one: solved", "callback settled")
		text := logged.String()
		for _, secret := range []string{canary, genuine.Secret, forged.Secret, "first", o.String()} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in the log:\n%s", secret, text)
			}
		}
		if text == "" {
			t.Error("nothing was logged, so nothing was tested")
		}
	})
}

// A callback is handled even if its sender disconnects at once.
func TestACallbackOutlivesItsSender(t *testing.T) {
	withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
		ended := s.startCollecting(t, s.order(t))
		gone, hangUp := context.WithTimeout(t.Context(), time.Second)
		hangUp()
		if err := s.buyer.Callback(gone, callbackTo(s.provider.submitted.Pingback, "id=t1&code=03AFcallback")); err != nil {
			t.Error(err)
		}
		if r := <-ended; r.Err != nil || s.provider.polls != 0 {
			t.Errorf("collect = %v after %d polls", r.Err, s.provider.polls)
		}
	})
}

// A callback address stays valid for as long as the order can be in flight, even after reloads that
// change the secrets or the providers.
func TestFormerSecretsVerify(t *testing.T) {
	for name, change := range map[string]func(s *testBuyer){
		"nothing":              func(*testBuyer) {},
		"another first secret": func(s *testBuyer) { s.reload(callbackSettings("second", "first")) },
		"other secrets":        func(s *testBuyer) { s.reload(callbackSettings("third")) },
		"no callbacks":         func(s *testBuyer) { s.reload(Callbacks{}) },
		"another provider": func(s *testBuyer) {
			s.buyer.SetProviders([]Entry{{Provider: newFakeProvider(s.ledger, "two"), Concurrency: 1}})
		},
		"no provider": func(s *testBuyer) { s.buyer.SetProviders(nil) },
		"and back": func(s *testBuyer) {
			s.buyer.SetProviders(nil)
			s.reload(callbackSettings("fourth"))
		},
	} {
		for _, signer := range []captcha.Secret{"first", "second"} {
			withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
				o := s.order(t)
				ended := s.startCollecting(t, o)
				change(s)
				address := callbackSettings(signer).address("one", o.Ref)
				s.mustCall(t, callbackTo(address, "id=t1&code=03AFcallback"))
				if r := <-ended; r.Err != nil || s.stock.tokens() != 1 || s.provider.polls != 0 {
					t.Errorf("%s, signed by the %s: collect = %v, %q", name, cmp.Or(signer.Reveal(), "none"), r.Err, s.all())
				}
			})
		}
	}
}

// If two callbacks arrive concurrently, the slower one finds the order but cannot end it. It counts
// as unknown, like a repeated callback.
func TestTheSlowerOfTwoCallbacksIsUnknown(t *testing.T) {
	for _, text := range []string{"code=03AFcallback", "code=ERROR_X"} {
		withCallbackBuyer(t, func(t *testing.T, s *testBuyer) {
			o := s.order(t)
			s.stock.fault = func(step string) error {
				if step == "settle" || strings.HasPrefix(step, "fail") {
					s.stock.landElsewhere(t.Context(), o.Ref) // the faster callback
				}
				return nil
			}
			s.mustCall(t, callbackTo(o.address(), text))
			if got := s.all(); len(got) != 3 || got[2] != "callback unknown" {
				t.Errorf("what happened: %q", got)
			}
			if s.stock.tokens() != 1 || s.stock.failures() != 0 {
				t.Errorf("%d tokens, %d failed", s.stock.tokens(), s.stock.failures())
			}
		})
	}
}
