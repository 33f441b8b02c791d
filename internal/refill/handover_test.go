package refill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/targets"
)

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
