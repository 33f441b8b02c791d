package refill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/targets"
)

// lateBuyer delays the responses to requests for slots.
type lateBuyer struct {
	*purchase.Buyer

	mu      sync.Mutex
	holds   bool
	answers []func()
}

func (b *lateBuyer) Request(bid purchase.Bid, granted func(*purchase.Slot, error)) *purchase.Request {
	return b.Buyer.Request(bid, func(slot *purchase.Slot, err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.holds {
			b.answers = append(b.answers, func() { granted(slot, err) })
			return
		}
		go granted(slot, err)
	})
}

// release delivers the delayed and all later responses.
func (b *lateBuyer) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holds = false
	for _, answer := range b.answers {
		go answer()
	}
}

// A target no longer wants a slot, and gets it before, during or after the turn that withdraws the
// bid. The slot then goes to another target.
func TestUnwantedSlotsAreFreed(t *testing.T) {
	for name, leave := range map[string]func(w *scenario, late *lateBuyer, login, other targets.Target){
		"removed": func(w *scenario, late *lateBuyer, _, other targets.Target) {
			w.apply(other)
			w.after(time.Second)
			late.release()
		},
		"paused, and then granted": func(w *scenario, late *lateBuyer, login, other targets.Target) {
			w.pause(login)
			w.apply(login, other)
			w.after(time.Second)
			late.release()
		},
		"granted while a look says that it is paused": func(w *scenario, late *lateBuyer, login, other targets.Target) {
			looks := make(chan struct{})
			w.store.with(func() { w.store.strangle = looks })
			w.pause(login)
			w.after(time.Second)
			late.release()
			w.after(time.Second)
			w.store.with(func() { w.store.strangle = nil })
			close(looks)
			w.apply(login, other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newScenario(t, 1)
				w.replica = w.newReplica()
				late := &lateBuyer{Buyer: w.buyer, holds: true}
				w.manager = NewManager(w.store, w.store, late, noOthers, slog.New(slog.NewTextHandler(w.log, nil)))
				w.store.with(func() { w.store.changed = w.manager.Wake })
				w.run(w.replica)
				login, other := target("login", 1), target("other", 1)
				w.apply(login)
				w.after(time.Second)
				leave(w, late, login, other)
				w.after(40 * time.Second)
				if l, o := w.held(login), w.held(other); l != 0 || o != 1 {
					t.Errorf("%d held for the target that left, %d for the other one", l, o)
				}
				w.close()
				if w.log.Count("panic") > 0 {
					t.Error(w.log)
				}
			})
		})
	}
}

// pause pauses a target through another replica's API.
func (w *scenario) pause(t targets.Target) {
	w.t.Helper()
	if err := w.elsewhere.Pause(w.t.Context(), t.ID, pool.Pause{}); err != nil {
		w.t.Fatal(err)
	}
}

// If a target is paused while it waits for a slot, it withdraws its bid.
func TestPausedTargetsWithdrawTheirBids(t *testing.T) {
	play(t, 1, func(t *testing.T, w *scenario) {
		w.provider.lead = func() time.Duration { return 20 * time.Second }
		first, login, other := target("first", 1), target("login", 1), target("other", 1)
		w.apply(first)
		w.after(time.Second)
		w.apply(first, login)
		w.after(time.Second) // login waits for the only slot
		w.pause(login)
		w.after(time.Second)
		w.apply(first, login, other)
		w.after(45 * time.Second)
		if f, l, o := w.held(first), w.held(login), w.held(other); f != 1 || l != 0 || o != 1 {
			t.Errorf("%d, %d and %d held", f, l, o)
		}
	})
}

// The orders of dead replicas are adopted before anything is bought, and then every two seconds.
// The end of an adopted order counts for its target. If the order has no target, the manager passes
// the result to the callback `others`.
func TestOrdersOfDeadReplicasAreAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := target("login", 1)
		failed := purchase.Result{Outcome: purchase.Failed, Err: errors.New("UNSOLVABLE")}
		var strangers []captcha.ID
		others := func(id captcha.ID, r purchase.Result) {
			if strangers = append(strangers, id); !reflect.DeepEqual(r, failed) {
				t.Errorf("%+v", r)
			}
		}
		buyer := &counter{}
		buyer.adopt = func(ended func(captcha.ID, purchase.Result)) {
			if len(buyer.adopts) == 3 {
				ended(login.ID, failed)
				ended("guest", failed)
			}
		}
		m := NewManager(eye(empty), alone{}, buyer, others, slog.New(slog.DiscardHandler))
		running(t, m, func() {
			time.Sleep(time.Minute)
			if n, _ := m.Status("login"); len(n.Failures) != 1 || n.Failures[0].Reason != "UNSOLVABLE" {
				t.Errorf("%+v", n)
			}
		}, login)
		if !slices.Equal(strangers, []captcha.ID{"guest"}) {
			t.Errorf("%v have no target", strangers)
		}
		for n, a := range buyer.adopts {
			if n == 0 {
				if a.within != firstAdopt || a.placed != 0 {
					t.Errorf("the first search: %+v", a)
				}
				continue
			}
			if wait := a.at.Sub(buyer.adopts[n-1].at); wait < adoptEvery || wait > adoptEvery*5/4 || a.within != 0 {
				t.Errorf("search %d: %+v, after %v", n, a, wait)
			}
		}
		if len(buyer.adopts) < 20 || buyer.placed == 0 {
			t.Errorf("%d searches, %d orders", len(buyer.adopts), buyer.placed)
		}
	})
}

// failing returns a stock in which the target's orders fail. The stock counts the calls of Retry.
type failing struct {
	eye
	retries atomic.Int64
}

func (f *failing) Retry(context.Context, captcha.ID) (bool, error) {
	f.retries.Add(1)
	return true, nil
}

// A change that can end the failures lets a failing target place its next order immediately. Other
// changes do not.
func TestRetryAfterChangesThatCanHelp(t *testing.T) {
	provider := targets.Provider{Name: "one", URL: "https://a.example.com", Timeout: time.Minute}
	for name, x := range map[string]struct {
		change func(t *targets.Target, p *targets.Provider)
		helps  bool
	}{
		"lines":                {func(t *targets.Target, p *targets.Provider) { t.Line, p.Line = 7, 8 }, false},
		"owner":                {func(t *targets.Target, _ *targets.Provider) { t.Owner = "other@example.com" }, false},
		"on_empty and rate":    {func(t *targets.Target, _ *targets.Provider) { t.OnEmpty, t.Rate.Count = "wait", 3 }, false},
		"concurrency":          {func(_ *targets.Target, p *targets.Provider) { p.Concurrency = 7 }, false},
		"price":                {func(_ *targets.Target, p *targets.Provider) { p.Price.RecaptchaV2 = targets.Costs(3) }, false},
		"times of callbacks":   {func(_ *targets.Target, p *targets.Provider) { p.FallbackAfter, p.CallbackDelay = 1, 2 }, false},
		"depth":                {func(t *targets.Target, _ *targets.Provider) { t.Depth++ }, true},
		"address":              {func(_ *targets.Target, p *targets.Provider) { p.URL = "https://b.example.com" }, true},
		"name of the provider": {func(_ *targets.Target, p *targets.Provider) { p.Name = "two" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stock := &failing{eye: func(context.Context) (pool.Stock, error) {
					return pool.Stock{NextLook: -1, Attempts: pool.Attempts{Failed: 8, Bounded: time.Minute, Next: time.Minute}}, nil
				}}
				m := NewManager(stock, alone{}, &counter{}, noOthers, slog.New(slog.DiscardHandler))
				login, p := target("login", 1), provider
				running(t, m, func() {
					apply := func() {
						m.Apply(t.Context(), &targets.Set{Targets: []targets.Target{login}, Providers: []targets.Provider{p}})
						time.Sleep(time.Second)
					}
					apply()
					worker, before := m.workers.Load().byName["login"], stock.retries.Load()
					x.change(&login, &p)
					apply()
					if n := stock.retries.Load() - before; (n == 1) != x.helps || n > 1 {
						t.Errorf("%d retries", n)
					}
					if changed := m.workers.Load().byName["login"] != worker; changed && !x.helps {
						t.Error("the target got a new worker")
					}
				}, login)
			})
		})
	}
}

// filled sets every exported field of a struct to a different value.
func filled[T any]() (v T) {
	n := 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		n++
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Field(i).CanSet() {
					fill(v.Field(i))
				}
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0))
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(n))
		case reflect.Float64:
			v.SetFloat(float64(n))
		case reflect.String:
			v.SetString(fmt.Sprint(n))
		case reflect.Bool:
			v.SetBool(true)
		default:
		}
	}
	fill(reflect.ValueOf(&v).Elem())
	return v
}

// same compares each field of got with the field of want that has the same name, and
// reports the differences. It skips the names in except.
func same(t *testing.T, got, want any, except ...string) {
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		name := g.Type().Field(i).Name
		if slices.Contains(except, name) {
			continue
		}
		from := w.FieldByName(name)
		if !from.IsValid() || from.IsZero() || fmt.Sprint(g.Field(i)) != fmt.Sprint(from) {
			t.Errorf("%T: %s is %v", got, name, g.Field(i))
		}
	}
}

// Each value of the stock and of the file reaches the policy and the order, in the field with the
// same name.
func TestPolicyAndOrdersSeeEveryField(t *testing.T) {
	stock := filled[pool.Stock]()
	got := seen(&stock)
	same(t, *got, stock, "Figures")
	same(t, got.Figures, stock.Figures)

	x := filled[targets.Target]()
	x.Refill = targets.RefillAdaptive
	params := Params(x, 17, 4)
	same(t, params, x, "Adaptive", "Usable", "FirstPoll", "PollInterval")
	if !params.Adaptive || params.Usable != x.Lifetime-x.Margin || params.FirstPoll != 17 || params.PollInterval != 4 {
		t.Errorf("%+v", params)
	}
	if x.Refill = targets.RefillFixed; Params(x, 17, 4).Adaptive {
		t.Error("a fixed target is adaptive")
	}

	w := &worker{target: x}
	w.owner.Store(&x.Owner)
	spec := w.spec(terms{depth: 3, lead: 5, shortest: 2})
	same(t, spec, x, "Target", "Depth", "Lead", "Shortest", "PerHour", "PerDay", "Guests", "Image")
	if spec.Target != x.Name || spec.Depth != 3 || spec.Lead != 5 || spec.Shortest != 2 || spec.PerHour != x.Budget.PerHour || spec.PerDay != x.Budget.PerDay {
		t.Errorf("%+v", spec)
	}
}
