package purchase_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/next/pool"
	"poold/internal/next/purchase"
	"poold/internal/provider"
	"poold/internal/redisdb/redistest"
)

// A replica dies at each step of an order. Another one goes on within 10 s as the table of ends says, and
// buys nothing again.
func TestADeadReplicasOrders(t *testing.T) {
	for _, c := range []struct {
		at                       string
		kinds                    string // after 10 s
		later                    string // at the end
		submits, inFlight, spend int64  // after 10 s
		token                    string
	}{
		{at: "placed", submits: 0},
		{at: "begun", kinds: "open", later: "open lost", submits: 1, inFlight: 1, spend: 1},
		{at: "submitted", kinds: "open", later: "open lost", submits: 1, inFlight: 1, spend: 1},
		{at: "bought", kinds: "open", later: "open solved", submits: 1, inFlight: 1, spend: 1, token: "token-of-main1"},
		{at: "polled", kinds: "open solved", later: "open solved", submits: 1, spend: 1, token: "token-of-main1"},
	} {
		bubble(t, c.at, func(t *testing.T, w *world) {
			f := newFake("main")
			var one *replica
			die := func(at string) {
				if at == c.at {
					one.kill()
				}
			}
			hold := make(chan struct{})
			f.submit = func(n int, _ provider.Request) (string, error) {
				die("submitted")
				if c.at == "begun" {
					die("begun")
					<-hold
				}
				return "main1", nil
			}
			f.poll = func(n int, task string) (provider.Solution, error) {
				if n == 1 && c.at == "polled" {
					die("polled")
				}
				return provider.Solution{Token: "token-of-" + task}, nil
			}
			one = w.replica("r1", nil, f.entry())
			time.Sleep(2 * second)
			two := w.replica("r2", nil, f.entry())
			one.buys.Go(func() {
				one.Buy(context.Background(), spec(), func(captcha.ID, error) { die("placed") })
			})
			synctest.Wait()
			die("bought")
			if c.at == "polled" {
				time.Sleep(10 * second) // until the first poll
			}
			time.Sleep(9900 * time.Millisecond)
			if c.at == "bought" {
				same(t, "owner", w.db.SCard(t.Context(), "{p}:owned:r2").Val(), 1)
			}
			submits, _ := f.counts()
			same(t, "submits", int64(submits), c.submits)
			same(t, "kinds", w.kinds(), c.kinds)
			same(t, "in flight", w.inFlight("main"), c.inFlight)
			same(t, "spend", w.spend(), c.spend)
			time.Sleep(160 * second)
			close(hold)
			same(t, "kinds at the end", w.kinds(), c.later)
			submits, _ = f.counts()
			same(t, "submits at the end", int64(submits), c.submits)
			if value, born := w.take(two); c.token != "" && (value != c.token || time.Since(born) > 200*second) {
				t.Errorf("token %q, born %v", value, born)
			}
			same(t, "owned", w.db.SCard(t.Context(), "{p}:owned:r2").Val(), 0)
			one.stop()
		})
	}
}

// An order whose submit had no answer ends at its deadline, also if every replica that knew it is gone; its
// callback may still end it before.
func TestLateOrders(t *testing.T) {
	bubble(t, "late", func(t *testing.T, w *world) {
		f := newFake("main")
		f.submit = func(int, provider.Request) (string, error) { return "", unheard("timeout") }
		one := w.replica("r1", nil, f.entry())
		one.mustBuy(spec())
		one.stop()
		time.Sleep(150 * second)
		same(t, "kinds", w.kinds(), "open")
		two := w.replica("r2", nil) // its file has no provider
		w.db.ZAdd(t.Context(), "{p}:deadlines", zero("forgotten"))
		time.Sleep(15 * second)
		same(t, "kinds", w.kinds(), "open lost")
		same(t, "observed", two.outcomes(), "lost by deadline")
		same(t, "deadlines", w.db.ZCard(t.Context(), "{p}:deadlines").Val(), 0)
	})
}

// A stop ends an order that is not submitted, finishes a submit in flight and stores its task, and leaves a
// bought order to the other replicas at once.
func TestStops(t *testing.T) {
	bubble(t, "before the submit", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", nil, f.entry())
		ctx, cancel := context.WithCancel(t.Context())
		r.Buy(ctx, spec(), func(captcha.ID, error) { cancel() })
		submits, _ := f.counts()
		same(t, "submits", submits, 0)
		same(t, "in flight", w.inFlight("main"), 0)
		same(t, "spend", w.spend(), 0)
		same(t, "kinds", w.kinds(), "")
		r.stop()
		if err := r.buy(spec()); err == nil {
			t.Error("an order was placed after the stop")
		}
	})
	bubble(t, "in flight", func(t *testing.T, w *world) {
		f := newFake("main")
		f.submit = func(n int, _ provider.Request) (string, error) {
			if n == 2 {
				time.Sleep(9 * second)
			}
			return "T" + string(rune('0'+n)), nil
		}
		f.poll = func(n int, task string) (provider.Solution, error) {
			return provider.Solution{Token: "token-of-" + task}, nil
		}
		one := w.replica("r1", nil, f.entry())
		two := w.replica("r2", nil, f.entry())
		one.mustBuy(spec())
		time.Sleep(4 * second)
		one.mustBuy(spec())
		began := time.Now()
		one.stop()
		same(t, "the stop takes", time.Since(began).Round(second), 9*second)
		same(t, "kinds", w.kinds(), "open open")
		time.Sleep(4 * second)
		same(t, "owned", w.db.SCard(t.Context(), "{p}:owned:r2").Val()+int64(strings.Count(two.outcomes(), "solved")), 2)
		time.Sleep(10 * second)
		same(t, "kinds", w.kinds(), "open open solved solved")
		same(t, "observed", two.outcomes(), "solved by poll, solved by poll")
		same(t, "observed by the first", one.outcomes(), "")
	})
}

// A panic in one order ends nothing else: the order is resumed, and the others go on.
func TestPanics(t *testing.T) {
	bubble(t, "a panic", func(t *testing.T, w *world) {
		f := newFake("main")
		f.submit = func(n int, _ provider.Request) (string, error) {
			if n == 1 {
				panic("of a submit")
			}
			return "T2", nil
		}
		f.poll = func(n int, task string) (provider.Solution, error) {
			if n == 1 {
				panic("of a poll")
			}
			return provider.Solution{Token: "token-of-" + task}, nil
		}
		r := w.replica("r1", nil, f.entry())
		r.mustBuy(spec()) // unknown: the submit may have left
		r.mustBuy(spec())
		time.Sleep(20 * second)
		same(t, "kinds", w.kinds(), "open open solved")
		same(t, "in flight", w.inFlight("main"), 1)
		same(t, "logged", r.log.Count("panic while buying"), 2)
	})
	bubble(t, "a chooser", func(t *testing.T, w *world) {
		r := w.replica("r1", panicking{}, newFake("main").entry())
		if err := r.buy(panicking{}.spec()); err == nil {
			t.Error("an order was placed by a chooser that panics")
		}
	})
}

type panicking struct{}

func (panicking) Choose(*purchase.Spec, []purchase.Offer) (int, string) { panic("of a chooser") }

func (panicking) spec() purchase.Spec {
	s := spec()
	s.Policy = "best"
	return s
}

// While Redis does not answer, nothing is submitted; a task that was bought meanwhile is stored when it
// answers again.
func TestRedisAway(t *testing.T) {
	bubble(t, "placing", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", nil, f.entry())
		w.server.SetDown(true)
		began := time.Now()
		if err := r.buy(spec()); !isDown(err) || time.Since(began) > 3100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		w.server.SetDown(false)
		time.Sleep(5 * second)
		r.mustBuy(spec())
	})
	bubble(t, "a lost answer of the placing", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", nil, f.entry())
		p := pool.New(pool.Config{DB: w.db, Prefix: "p", Replica: "r1", Log: r.log.Logger()})
		s := spec()
		_, _, err := p.Place(t.Context(), &pool.Order{
			Name: "lost", ID: s.ID, Account: "main", Life: time.Hour, Concurrency: 9, Depth: 9, Budgets: s.Budgets,
			Facts: `{"provider":"main","budgets":[{"Scope":"all"}]}`,
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * second)
		same(t, "in flight", w.inFlight("main"), 0)
		same(t, "spend", w.spend(), 0)
	})
	bubble(t, "between the steps", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", nil, f.entry())
		f.submit = func(int, provider.Request) (string, error) {
			w.server.SetDown(true)
			time.AfterFunc(30*second, func() { w.server.SetDown(false) })
			return "T1", nil
		}
		f.poll = func(n int, task string) (provider.Solution, error) {
			if n == 1 {
				w.server.SetDown(true)
				time.AfterFunc(30*second, func() { w.server.SetDown(false) })
			}
			return provider.Solution{Token: "token-of-" + task}, nil
		}
		r.buys.Go(func() { r.Buy(t.Context(), spec(), func(captcha.ID, error) {}) })
		time.Sleep(75 * second)
		same(t, "kinds", w.kinds(), "open solved")
		submits, _ := f.counts()
		same(t, "submits", submits, 1)
	})
	bubble(t, "before the submit", func(t *testing.T, w *world) {
		f := newFake("main")
		r := w.replica("r1", nil, f.entry())
		r.buys.Go(func() { r.Buy(t.Context(), spec(), func(captcha.ID, error) { w.server.SetDown(true) }) })
		time.Sleep(20 * second)
		w.server.SetDown(false)
		time.Sleep(5 * second)
		submits, _ := f.counts()
		same(t, "submits", submits, 0)
		same(t, "in flight", w.inFlight("main"), 0)
	})
}

// If the process was frozen while it began a submit, it asks again whether the order is still its own.
func TestASlowBegin(t *testing.T) {
	for name, want := range map[string]int{"r2": 0, "r1": 1} {
		bubble(t, "the owner is "+name, func(t *testing.T, w *world) {
			f := newFake("main")
			r := w.replica("r1", nil, f.entry())
			var freeze redistest.Answer
			freeze = func(command string, args []string) string {
				if !strings.HasPrefix(command, "EVAL") || args[1] != "1" || !strings.Contains(args[2], "order:") {
					return ""
				}
				w.server.SetAnswer(nil)
				reply := w.db.Do(context.Background(), append([]any{command}, words(args)...)...).Val()
				if fmt.Sprint(reply) != "[1]" {
					w.server.SetAnswer(freeze) // the script is not known yet
					return ""
				}
				w.db.HSet(context.Background(), args[2], "owner", name)
				time.Sleep(2100 * time.Millisecond)
				return "*1\r\n:1\r\n"
			}
			r.buys.Go(func() { r.Buy(t.Context(), spec(), func(captcha.ID, error) { w.server.SetAnswer(freeze) }) })
			time.Sleep(5 * second)
			submits, _ := f.counts()
			same(t, "submits", submits, want)
			if want == 1 && f.submits[0].Before(time.Now().Add(-3*second)) {
				t.Error("the process was not frozen")
			}
		})
	}
}

func words(args []string) (list []any) {
	for _, arg := range args {
		list = append(list, arg)
	}
	return list
}
