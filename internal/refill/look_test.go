package refill

import (
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/refill/policy"
)

// A replica that is alone decides every second, but looks rarely while nothing happens. If another
// replica is alive, the replica looks before each decision, because takes at the other replica do
// not wake it.
func TestLooksWhereNothingHappens(t *testing.T) {
	long(t)
	play(t, 20, func(t *testing.T, w *scenario) {
		login := learning("login", 20)
		login.Lifetime = time.Hour
		w.apply(login)
		w.demand(login, 5*time.Second, 3*time.Minute)
		w.after(15 * time.Second) // the last orders have ended
		const long = 40 * time.Second
		looks := func() (n int) {
			for _, r := range w.all {
				is, _ := r.store.lookCount(login.ID)
				n += is
			}
			return n
		}
		before, busy := looks(), w.status("login").Forecast
		w.after(long)
		if n := looks() - before; n < 2 || n > 6 {
			t.Errorf("alone, %d looks in %v", n, long)
		}
		if quiet := w.status("login").Forecast; quiet > busy*2/3 {
			t.Errorf("%.2f requests are expected, %.2f were %v before", quiet, busy, long)
		}
		// Even while looks are rare, a take causes a look immediately.
		requests := w.stock(login).Figures.Requests
		w.take(login)
		w.after(2 * coalesce)
		if n := w.manager.workers.Load().byName["login"].figures.Requests; n != requests+1 {
			t.Errorf("%d requests are known after a take, want %d", n, requests+1)
		}
		w.start(login)
		w.after(heartbeatEvery + takeOver)
		before = looks()
		w.after(long)
		if n := looks() - before; n < 30 {
			t.Errorf("beside another replica, %d looks in %v", n, long)
		}
	})
}

// A look stays valid until the stock changes without an event.
func TestValidFor(t *testing.T) {
	for name, x := range map[string]struct {
		stock pool.Stock
		want  time.Duration
	}{
		"empty":                 {pool.Stock{NextExpiry: -1, NextLook: -1}, policy.Never},
		"a token dies":          {pool.Stock{Fresh: 1, NextExpiry: 3, NextLook: -1, NextEnd: 9, Resumes: 9}, 3},
		"is about to":           {pool.Stock{Fresh: 1, NextExpiry: 0, NextLook: 2}, 0},
		"outlives no more":      {pool.Stock{Fresh: 1, NextExpiry: 4, NextLook: 2}, 2},
		"an order is forgotten": {pool.Stock{NextExpiry: -1, NextLook: -1, NextEnd: 5}, 5},
		"a pause ends":          {pool.Stock{NextExpiry: -1, NextLook: -1, Resumes: 6}, 6},
		"an order may be tried": {pool.Stock{NextExpiry: -1, NextLook: -1, Attempts: pool.Attempts{Bounded: 9, Next: 7}}, 7},
		"somebody waits":        {pool.Stock{NextExpiry: -1, NextLook: -1, Waiting: 1}, 0},
	} {
		saw := lookResult{stock: x.stock}
		if got := saw.validFor(); got != x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}
