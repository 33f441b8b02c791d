//go:build !race

package purchase_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/testkit"
)

// calledBack is a provider that sends callbacks, and whose polls are answered "not ready".
func calledBack(secrets ...captcha.Secret) (*fake, purchase.Listing) {
	f := newFake("main")
	f.pollErr = provider.ErrNotReady
	e := f.listing()
	e.Callbacks = purchase.Callbacks{URL: "https://poold", Secrets: secrets, Fallback: 60 * second, Delay: 10 * second}
	return f, e
}

type back = purchase.Callback

// request returns the callback to an address with the values of a query.
func request(address, query string) purchase.Callback {
	parts := strings.Split(strings.TrimPrefix(address, "https://poold/callback/"), "/")
	values, _ := url.ParseQuery(query)
	return purchase.Callback{Provider: parts[0], Order: parts[1], Secret: parts[2], Query: values, At: time.Now()}
}

// A callback ends its order at any replica, once. Whatever is not about the order changes nothing.
func TestCallbacks(t *testing.T) {
	for _, c := range []struct {
		name, query string
		change      func(*back)
		want        string // the outcome
		kinds       string // of the rows afterwards
	}{
		{name: "a token with the task", query: "id=main1&code=03AFtoken", want: "settled", kinds: "active solved"},
		{name: "a token without the task", query: "code=03AFtoken", want: "settled", kinds: "active solved"},
		{name: "a failed task", query: "id=main1&code=ERROR_CAPTCHA_UNSOLVABLE", want: "failed", kinds: "active failed"},
		{name: "rejected parameters", query: "id=main1&code=ERROR_PAGEURL", want: "failed", kinds: "active bad_parameters"},
		{name: "a token of another task", query: "id=main7&code=03AFtoken", want: "malformed", kinds: "active"},
		{name: "a task without a token", query: "id=main1", want: "malformed", kinds: "active"},
		{name: "a text that is no token", query: "id=main1&code=a+b", want: "malformed", kinds: "active"},
		{name: "a body too large", query: "code=03AF", change: func(c *back) { c.Oversized = true }, want: "malformed",
			kinds: "active"},
		{name: "a forgery", query: "code=03AF", change: func(c *back) { c.Secret += "0" }, want: "forged", kinds: "active"},
		{name: "another order", query: "code=03AF", change: func(c *back) { c.Order = "X" }, want: "forged", kinds: "active"},
	} {
		bubble(t, c.name, func(t *testing.T, w *world) {
			f, e := calledBack("new", "old")
			one := w.replica("r1", e)
			e.Callbacks.Secrets = []captcha.Secret{"newest", "new"} // after a reload that only the second replica has
			two := w.replica("r2", e)
			one.mustBuy(spec())
			time.Sleep(20 * second)
			back := request(f.requests[0].CallbackURL, c.query)
			if c.change != nil {
				c.change(&back)
			}
			for range 2 {
				testkit.NoError(t, two.Callback(t.Context(), back))
			}
			again := map[bool]string{true: "unknown", false: c.want}[strings.Contains(c.kinds, " ")]
			want := []string{"callback main " + c.want, "callback main " + again}
			slices.Sort(want)
			testkit.Equal(t, "outcomes", two.counted(), strings.Join(want, ", "))
			testkit.Equal(t, "rows in the outbox", w.kinds(), c.kinds)
			polls := f.polled()
			time.Sleep(50 * second)
			testkit.Equal(t, "polled later", f.polled() > polls, !strings.Contains(c.kinds, " "))
		})
	}
}

// A callback proves the purchase of an order whose submit had no answer, and may be faster than the answer of
// the submit.
func TestACallbackOfAnUnansweredSubmit(t *testing.T) {
	bubble(t, "a callback comes after a submit without an answer", func(t *testing.T, w *world) {
		f, e := calledBack("s")
		f.submitErr = unheard("timeout")
		r := w.replica("r1", e)
		r.mustBuy(spec())
		r.mustBuy(spec())
		time.Sleep(20 * second)
		_ = r.Callback(t.Context(), request(f.requests[0].CallbackURL, "id=T1&code=03AF1"))
		_ = r.Callback(t.Context(), request(f.requests[1].CallbackURL, "id=T1&code=03AF2")) // the task of another order
		testkit.Equal(t, "outcomes", r.counted(), "callback main malformed, callback main settled")
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active active active solved") // the third one has the task
		testkit.Equal(t, "bought", w.number("stats:"+string(identity.ID()), "bought"), "2")
		testkit.Equal(t, "lead time, to the arrival", w.number("stats:"+string(identity.ID()), "leads"), "20000")
		testkit.Equal(t, "a task", r.ended[0].Task, "T1")
	})
	bubble(t, "a callback comes before the answer to the submit", func(t *testing.T, w *world) {
		f, e := calledBack("s")
		r := w.replica("r1", e)
		f.submit = func(_ int, q provider.Submission) (string, error) {
			_ = r.Callback(context.Background(), request(q.CallbackURL, "id=T1&code=03AF"))
			return "T1", nil
		}
		r.mustBuy(spec())
		time.Sleep(20 * second)
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active solved")
	})
}

// A callback that has the token alone is completed by one poll, if sites want more than the token of the type.
func TestACallbackIsCompleted(t *testing.T) {
	for name, c := range map[string]struct{ query, token, extra string }{
		"the token alone": {"id=main1&code=03AF", "03AF", `{"respKey":"r"}`},
		"with the agent":  {"id=main1&code=03AF&useragent=U", "03AF", `{"userAgent":"U"}`},
		"no answer":       {"id=main1&code=03AF-silent", "03AF-silent", ""},
	} {
		bubble(t, name, func(t *testing.T, w *world) {
			f, e := calledBack("s")
			f.poll = func(int, string) (provider.Solution, error) {
				if c.extra == "" {
					return provider.Solution{}, unheard("timeout")
				}
				return provider.Solution{Token: "03AF", Extra: `{"respKey":"r"}`}, nil
			}
			r := w.replica("r1", e)
			r.mustBuy(spec())
			time.Sleep(5 * second)
			_ = r.Callback(t.Context(), request(f.requests[0].CallbackURL, c.query))
			call := pool.Call{Name: "call", ID: identity.ID()}
			token, err := r.pool.Take(t.Context(), &call)
			testkit.NoError(t, err)
			testkit.Equal(t, "token", token.Value+" "+string(token.Extra), c.token+" "+c.extra)
		})
	}
}

// The age of a token counts from callback_delay before the callback arrived, but not from before the submit.
func TestTheAgeOfATokenOfACallback(t *testing.T) {
	for name, c := range map[string]struct{ arrived, delay, born time.Duration }{
		"the delay before":       {30 * second, 10 * second, 20 * second},
		"no delay":               {30 * second, 0, 30 * second},
		"not before the submit":  {6 * second, 10 * second, 0},
		"a clock that went back": {-time.Hour, 10 * second, 0},
		"a clock that is ahead":  {time.Hour, 10 * second, 30 * second}, // the callback is handled at 40 s
	} {
		bubble(t, name, func(t *testing.T, w *world) {
			f, e := calledBack("s")
			e.Callbacks.Delay = c.delay
			r := w.replica("r1", e)
			at := time.Now()
			r.mustBuy(spec())
			time.Sleep(40 * second)
			back := request(f.requests[0].CallbackURL, "id=main1&code=03AF")
			back.At = at.Add(c.arrived)
			_ = r.Callback(t.Context(), back)
			_, born := w.take(r)
			testkit.Equal(t, "born after", born.Sub(at).Round(second), c.born)
		})
	}
}

// A callback that arrives while Redis is away is kept on the disk, and delivered later; its token's age counts
// from its first arrival. If the disk fails too, the service must repeat it.
func TestDeadLetters(t *testing.T) {
	bubble(t, "a letter is kept and replayed", func(t *testing.T, w *world) {
		f, e := calledBack("s")
		r := w.replica("r1", e)
		at := time.Now()
		r.mustBuy(spec())
		time.Sleep(20 * second)
		w.setDown(true)
		back := request(f.requests[0].CallbackURL, "id=main1&code=03AF")
		for range 2 {
			testkit.NoError(t, r.Callback(t.Context(), back))
		}
		testkit.Equal(t, "outcomes", r.counted(), "callback main kept, callback main kept")
		list, err := r.DeadLetters()
		if err != nil || len(list) != 1 || list[0].Task != "main1" || list[0].Until.Sub(back.At) != 200*second {
			t.Errorf("%+v %v", list, err)
		}
		if _, err := r.Replay(t.Context()); !isDown(err) {
			t.Error(err)
		}
		time.Sleep(20 * second)
		w.setDown(false)
		time.Sleep(4 * second)
		testkit.Equal(t, "outcomes", r.counted(), "callback main kept, callback main kept, dead_letter main replayed")
		testkit.Equal(t, "rows in the outbox", w.kinds(), "active solved")
		_, born := w.take(r)
		testkit.Equal(t, "born after", born.Sub(at).Round(second), 10*second)
		testkit.Equal(t, "letters", r.DeadLetterCount(), 0)
	})
	bubble(t, "a letter of a dead process is replayed", func(t *testing.T, w *world) {
		f, e := calledBack("s")
		one := w.replica("r1", e)
		at := time.Now()
		one.mustBuy(spec())
		one.mustBuy(spec())
		time.Sleep(20 * second)
		dead := w.replica("dead", e)
		dead.kill()
		for i := range 2 {
			back := request(f.requests[i].CallbackURL, fmt.Sprintf("id=main%d&code=03AF%d", i+1, i))
			testkit.NoError(t, dead.Callback(t.Context(), back))
		}
		_ = one.Callback(t.Context(), request(f.requests[1].CallbackURL, "id=main2&code=ERROR_CAPTCHA_UNSOLVABLE"))
		next := purchase.New(purchase.Config{Pool: one.pool, Letters: dead.folder, Observer: one, Log: one.log.Logger()})
		testkit.NoError(t, next.OpenDeadLetters())
		done, err := next.Replay(t.Context())
		if err != nil || fmt.Sprint(done) != "map[dropped:1 replayed:1]" {
			t.Errorf("%+v %v", done, err)
		}
		_, born := w.take(one)
		testkit.Equal(t, "born after", born.Sub(at).Round(second), 0) // only the time of the submit is known
	})
	bubble(t, "a letter that has expired is dropped", func(t *testing.T, w *world) {
		f, e := calledBack("s")
		r := w.replica("r1", e)
		r.mustBuy(spec())
		w.setDown(true)
		testkit.NoError(t, r.Callback(t.Context(), request(f.requests[0].CallbackURL, "id=main1&code=03AF")))
		time.Sleep(201 * second)
		done, err := r.Replay(t.Context())
		if err != nil || r.DeadLetterCount() != 0 || !strings.Contains(r.counted(), "dead_letter main expired") {
			t.Errorf("%+v %v %s", done, err, r.counted())
		}
		w.setDown(false)
	})
	bubble(t, "a callback is refused if the disk fails", func(t *testing.T, w *world) {
		f, e := calledBack("s")
		one := w.replica("r1", e)
		one.mustBuy(spec())
		dead := w.replica("dead", e)
		dead.kill()
		_ = os.RemoveAll(dead.folder)
		_ = os.WriteFile(dead.folder, nil, 0o600)
		err := dead.Callback(t.Context(), request(f.requests[0].CallbackURL, "id=main1&code=03AF"))
		testkit.ErrorIs(t, "a callback", err, purchase.ErrNotKept)
		testkit.Equal(t, "outcomes", dead.counted(), "callback main refused")
	})
}

// If callbacks do not arrive, tasks are polled from the start, until a callback arrives again.
func TestSilentCallbacks(t *testing.T) {
	bubble(t, "callbacks that never come are silent", func(t *testing.T, w *world) {
		f, e := calledBack("s")
		f.pollErr = nil
		r := w.replica("r1", e)
		for range 3 {
			r.mustBuy(spec())
			time.Sleep(61 * second)
		}
		testkit.Equal(t, "polls", f.pollTimes(), "60 121 182")
		r.SetProviders([]purchase.Listing{e}) // a reload
		if s := r.Providers(t.Context()); !s[0].Silent || r.log.Count("callbacks do not arrive") != 1 {
			t.Errorf("silent callbacks are not shown and logged once: %+v", s)
		}
		r.mustBuy(spec())
		time.Sleep(11 * second)
		testkit.Equal(t, "polls", f.pollTimes(), "60 121 182 193")
		r.mustBuy(spec())
		_ = r.Callback(t.Context(), request(f.requests[4].CallbackURL, "id=main5&code=03AF&useragent=U"))
		r.mustBuy(spec())
		time.Sleep(61 * second)
		testkit.Equal(t, "polls", f.pollTimes(), "60 121 182 193 254")
		testkit.Equal(t, "logged", r.log.Count("callbacks arrive again"), 1)
	})
	bubble(t, "callbacks that come to another replica are not silent", func(t *testing.T, w *world) {
		f, e := calledBack("s")
		f.pollErr = nil
		one, two := w.replica("r1", e), w.replica("r2", e)
		for i := range 4 {
			one.mustBuy(spec())
			time.Sleep(5 * second)
			_ = two.Callback(t.Context(), request(f.requests[i].CallbackURL,
				fmt.Sprintf("id=main%d&code=03AF%d&useragent=U", i+1, i)))
			time.Sleep(60 * second)
		}
		testkit.Equal(t, "polls", f.polled(), 0)
		testkit.Equal(t, "silent", one.Providers(t.Context())[0].Silent, false)
	})
}
