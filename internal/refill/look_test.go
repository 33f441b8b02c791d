package refill

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/refill/policy"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// A replica that is alone decides every second, but looks rarely while nothing happens. If another
// replica is alive, the replica looks before each decision, because takes at the other replica do
// not wake it.
func TestLooksWhereNothingHappens(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
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

// Manager.Stock returns the stock of the last look until the target changes. While another replica is
// alive, it returns none.
func TestStockOfTheLastLook(t *testing.T) {
	play(t, 20, func(t *testing.T, w *scenario) {
		steady := lasting(1, 2, 10*time.Hour)[0]
		w.provider.lead = func() time.Duration { return 40 * time.Second }
		w.apply(steady)
		var stock pool.Stock
		is := func(when string, want bool) {
			t.Helper()
			var read time.Time
			var holds bool
			if stock, read, holds = w.manager.Stock(steady.Name, time.Now()); holds != want || holds && time.Since(read) > seenFor {
				t.Errorf("%s: %v, read %v ago", when, holds, time.Since(read))
			}
		}
		w.after(30 * time.Second)
		is("while orders are in flight", false)
		w.after(quietRound)
		for range 90 {
			w.after(time.Second)
			is("in an idle pool", true)
		}
		if stock.Fresh != 2 || len(stock.Hour(time.Now())) != 1 {
			t.Errorf("%+v", stock)
		}
		woken := &w.manager.workers.Load().byName[steady.Name].woken
		woken.Store(true)
		is("after a wake-up", false)
		woken.Store(false)
		w.take(steady)
		w.after(time.Millisecond)
		is("after a take", false)
		for range int(2 * quietRound / time.Second) {
			w.after(time.Second)
			if s, _, holds := w.manager.Stock(steady.Name, time.Now()); holds && len(s.Hour(time.Now())) == 0 {
				t.Error("a stock without the last hour")
			}
		}
		is("when the pool is full again", true)
		if stock.Figures.Hits != 1 {
			t.Errorf("%+v", stock.Figures)
		}
		if _, _, holds := w.manager.Stock("other", time.Now()); holds {
			t.Error("the stock of an unknown target")
		}
		second := w.start(steady)
		w.after(quietRound)
		is("beside another replica", false)
		w.end(second)
		w.after(2*heartbeatLife + quietRound)
		is("alone again", true)
		w.redis.SetDown(true)
		w.after(2 * quietRound)
		is("without Redis", false)
		w.redis.SetDown(false)
		w.after(10 * time.Second)
	})
}

// While looks hang, Manager.Stock returns the last look until the stock may have changed without an
// event, and for at most seenFor.
func TestStockOfAnOldLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const soon = 20 * time.Second // the first token no longer outlives the lead time
		list := lasting(batchesAtOnce+2, 1, time.Hour)
		stock := &paced{asks: map[captcha.ID][]time.Duration{}, looks: map[captcha.ID][]time.Time{}}
		for _, x := range list {
			stock.asks[x.ID] = []time.Duration{time.Hour}
		}
		stock.asks[list[0].ID] = []time.Duration{soon}
		m := NewManager(stock, alone{}, &counter{}, noOthers, slog.New(slog.DiscardHandler))
		running(t, m, func() {
			time.Sleep(2 * backstop) // the second look knows that this replica is alone
			stock.mu.Lock()
			stock.hang = make(chan struct{})
			stock.mu.Unlock()
			for _, x := range list[2:] { // each look hangs in its own exchange
				m.Wake(x.ID)
				time.Sleep(time.Millisecond)
			}
			for n, life := range []time.Duration{soon, seenFor} {
				_, read, _ := m.Stock(list[n].Name, time.Now())
				time.Sleep(time.Until(read.Add(life)) - time.Nanosecond)
				if _, _, holds := m.Stock(list[n].Name, time.Now()); !holds {
					t.Errorf("%s: a look is not reused until %v after it", list[n].Name, life)
				}
				time.Sleep(time.Nanosecond)
				if _, _, holds := m.Stock(list[n].Name, time.Now()); holds {
					t.Errorf("%s: a look is reused %v after it", list[n].Name, life)
				}
			}
			close(stock.hang)
		}, list...)
	})
}

// The only cost of an idle target in Redis is 1.5 looks a minute. Once an hour, a look extends the life of the
// target's keys. TestCosts of package pool says what a look costs.
func TestAnIdleTargetCostsOnlyLooks(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	play(t, 100, func(t *testing.T, w *scenario) {
		const many, perHour = 10, 90 * 10 // looks
		list := lasting(many, 1, 20*time.Hour)
		w.apply(list...)
		w.after(quietRound)
		var mu sync.Mutex
		commands := map[string]int{} // calls that name an identity of the targets
		w.redis.SetAnswer(func(command string, args []string) string {
			about := func(x targets.Target) bool { return strings.Contains(strings.Join(args, " "), string(x.ID)) }
			if slices.ContainsFunc(list, about) {
				mu.Lock()
				defer mu.Unlock()
				commands[command]++
			}
			return ""
		})
		keeps := func() (n int) { w.store.with(func() { n = w.store.keeps }); return n }
		before := keeps()
		w.after(time.Hour)
		w.redis.SetAnswer(nil)
		mu.Lock()
		defer mu.Unlock()
		looks := commands["EVALSHA"]
		if len(commands) != 1 || looks < perHour*97/100 || looks > perHour*103/100 {
			t.Errorf("%v in an hour", commands)
		}
		if n := keeps() - before; n != many {
			t.Errorf("%d looks extended the life of keys", n)
		}
	})
}
