package delivery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/status"
	"poold/internal/targets"
)

// market contains the data that a Supply reads: the refill status, the providers and the stock.
type market struct {
	status.File
	status.Purchases

	note  refill.Status
	down  bool         // all providers are down
	looks []pool.Stock // results of Look; the last result repeats
	errs  []error      // errors of Look; nil = the look succeeds
	n     int          // number of looks so far
}

func (m *market) Current(context.Context, string) (refill.Status, bool) { return m.note, true }

func (m *market) Look(context.Context, captcha.ID, time.Duration, time.Duration) (pool.Stock, error) {
	m.n++
	if m.n <= len(m.errs) && m.errs[m.n-1] != nil {
		return pool.Stock{}, m.errs[m.n-1]
	}
	return m.looks[min(m.n, len(m.looks))-1], nil
}

func (m *market) Providers(context.Context, time.Time) []purchase.Status {
	kind := provider.StateOK
	if m.down {
		kind = provider.StateDown
	}
	return []purchase.Status{{Name: "solver", State: provider.State{Kind: kind, Reason: "it is down"}}}
}

// file has the method Current that returns a Set, because market already has another
// method Current.
type file struct{ status.File }

func (file) Current() *targets.Set { return &targets.Set{} }

// TestWaitEndsAfterTwoEmptyLooks: the wait ends when the stock has neither token nor order in two
// consecutive checks and nothing can be bought. An outage has an effect only after it has lasted
// for outagePatience.
func TestWaitEndsAfterTwoEmptyLooks(t *testing.T) {
	empty, order, token := pool.Stock{}, pool.Stock{Orders: 1}, pool.Stock{Fresh: 1}
	barred := func(length time.Duration) refill.Status {
		return refill.Status{State: refill.Budget, Until: time.Now().Add(length)}
	}
	for name, c := range map[string]struct {
		barred time.Duration // how long the budget allows no order; 0 = the budget is not used up
		down   bool
		looks  []pool.Stock
		errs   []error
		want   time.Duration // length of the wait; 0 = the wait does not end
	}{
		"barred":                         {barred: time.Hour, looks: []pool.Stock{empty}, want: 2 * supplyEvery},
		"barred, with an order":          {barred: time.Hour, looks: []pool.Stock{order}},
		"barred, with a token":           {barred: time.Hour, looks: []pool.Stock{token}},
		"barred, one look finds nothing": {barred: time.Hour, looks: []pool.Stock{empty, order, empty, token, empty, order}},
		"barred, the order ends":         {barred: time.Hour, looks: []pool.Stock{empty, order, empty, empty}, want: 4 * supplyEvery},
		"barred, a look fails":           {barred: time.Hour, looks: []pool.Stock{empty}, errs: []error{nil, errors.New("away")}, want: 4 * supplyEvery},
		"barred for a moment":            {barred: supplyEvery + time.Millisecond, looks: []pool.Stock{empty}},
		"an outage":                      {down: true, looks: []pool.Stock{empty}, want: outagePatience + supplyEvery},
		"an outage, with an order":       {down: true, looks: []pool.Stock{order}},
		"tokens can be bought":           {looks: []pool.Stock{empty}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &market{note: barred(c.barred), down: c.down, looks: c.looks, errs: c.errs}
				if c.barred == 0 {
					m.note = refill.Status{State: refill.OK}
				}
				s := Supply{Refill: m, Stock: m, Status: status.NewCollector(status.Sources{File: file{}, Purchases: m})}
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				request := pool.Request{Wait: time.Minute}
				began := time.Now()
				s.Attend(ctx, &kernel.Target{Target: &targets.Target{Name: "t"}}, &request)
				if request.Wait != time.Minute {
					t.Errorf("the wait is %s", request.Wait)
				}
				got := time.Duration(0)
				select {
				case <-request.Over:
					got = time.Since(began)
				case <-time.After(30 * time.Second):
				}
				if got != c.want {
					t.Errorf("the wait ends after %s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestCallersDoNotWaitForATargetThatNeedsAnOperator: a new caller does not wait while an operator
// must act first, not even if an order is in flight.
func TestCallersDoNotWaitForATargetThatNeedsAnOperator(t *testing.T) {
	for name, c := range map[string]struct {
		target targets.Target
		note   refill.Status
		waits  bool
	}{
		"paused in the file": {targets.Target{Paused: true}, refill.Status{State: refill.OK}, false},
		"paused":             {targets.Target{}, refill.Status{State: refill.Paused}, false},
		"refused":            {targets.Target{}, refill.Status{State: refill.Refused}, false},
		"starved":            {targets.Target{}, refill.Status{State: refill.Starved}, true},
		"budget":             {targets.Target{}, refill.Status{State: refill.Budget, Until: time.Now().Add(time.Hour)}, true},
	} {
		ctx, leave := context.WithCancel(t.Context())
		s := Supply{Refill: &market{note: c.note}, Stock: &market{looks: []pool.Stock{{Orders: 1}}}}
		request := pool.Request{Wait: time.Minute}
		s.Attend(ctx, &kernel.Target{Target: &c.target}, &request)
		if (request.Wait == time.Minute) != c.waits {
			t.Errorf("%s: the wait is %s", name, request.Wait)
		}
		leave()
	}
}
