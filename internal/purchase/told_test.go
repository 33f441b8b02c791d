package purchase

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/pool/pooltest"
	"poold/internal/provider"
	"poold/internal/redisdb/redistest"
	"poold/internal/spool"
)

// Where an order of a guest failed a caller is told why, with the words that its buyer
// has; where it did not, and where a target's failed, the caller waits for another one.
func TestWhatACallerIsToldOfAFailure(t *testing.T) {
	task := &provider.Error{Class: provider.Task, Code: "ERROR_CAPTCHA_UNSOLVABLE"}
	parameters := &provider.Error{Class: provider.Parameters, Code: "ERROR_SITEKEY"}
	for name, c := range map[string]struct {
		submit, poll error
		target       bool
		called       bool   // the order ends by a callback, as failed
		token        string // that the poll brings
		want         string // "" = the caller is not told
		refused      bool
	}{
		"a task that failed":               {poll: task, want: "one: the task brought no token: task fault ERROR_CAPTCHA_UNSOLVABLE"},
		"a target's":                       {poll: task, target: true},
		"a callback":                       {called: true, want: "one: the task brought no token: ERROR_CAPTCHA_UNSOLVABLE"},
		"a fault of the parameters, later": {poll: parameters, want: "one: the task brought no token: the provider rejects the parameters: parameters fault ERROR_SITEKEY", refused: true},
		"a fault of the parameters":        {submit: parameters},
		"a submit that failed":             {submit: task, want: "one: the task brought no token: task fault ERROR_CAPTCHA_UNSOLVABLE"},
		"a provider without room":          {submit: &provider.Error{Class: provider.Capacity, Code: "ERROR_NO_SLOT_AVAILABLE"}},
		"a text that came before":          {token: "known", want: "one: the task brought no token: " + pool.RepeatedText},
		"a text of a target's":             {token: "known", target: true},
	} {
		runBubble(t, name, func(t *testing.T) {
			l := &ledger{}
			fake := newFakeProvider(l, "one")
			stock, err := pooltest.Open(pool.Options{Addresses: "redis://bubble", Dial: redistest.InBubble(t).Dial, Prefix: "told", Log: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			d := NewBuyer(stock, "no letters", witness{l}, quiet())
			d.SetProviders([]Entry{{Provider: fake, Concurrency: 5}})
			fake.poll = func(context.Context, int) (provider.Solution, error) { return provider.Solution{Token: "known"}, nil }
			tasks := 0
			fake.submit = func(context.Context) (string, error) {
				tasks++
				return "t" + string(rune('0'+tasks)), nil
			}
			if r := d.orders.collect(t.Context(), mustPlace(t, d, spec())); r.Err != nil {
				t.Fatal(r.Err)
			}
			// Its token is there, and too old for a caller.
			time.Sleep(spec().Lifetime - spec().Margin)
			ask := pool.Request{ID: spec().ID, MinTTL: spec().Lifetime, Wait: 20 * time.Second, MaxWaiting: 5, EndOnFailure: true}
			told := make(chan error, 1)
			go func() {
				_, err := stock.Take(t.Context(), ask)
				told <- err
			}()
			synctest.Wait()
			fake.poll = func(context.Context, int) (provider.Solution, error) {
				return provider.Solution{Token: c.token}, c.poll
			}
			if c.submit != nil {
				fake.submit = func(context.Context) (string, error) { return "", c.submit }
			}
			what := guest(pool.Caps{})
			if c.target {
				what = spec()
			}
			o := mustPlace(t, d, what)
			ended := make(chan Result, 1)
			go func() { ended <- d.orders.collect(t.Context(), o) }()
			if c.called {
				time.Sleep(2 * time.Second) // before the first poll
				how, err := d.callbacks.deliver(t.Context(), spool.Letter{Order: o.String(), Provider: "one", Task: "t2", Code: task.Code}, time.Now())
				if err != nil || how != CallbackFailed {
					t.Errorf("the callback: %v, %v", how, err)
				}
			}
			result := <-ended
			err = <-told
			_ = stock.Close()
			var failed *pool.FailedError
			switch is := errors.As(err, &failed); {
			case is != (c.want != ""):
				t.Errorf("the caller was told %v", err)
			case is && (failed.Reason != c.want || failed.Refused != c.refused || result.Err.Error() != c.want || result.Hopeless != c.refused):
				t.Errorf("the caller was told %q, refused %v; the order ended with %q", failed.Reason, failed.Refused, result.Err)
			}
		})
	}
}
