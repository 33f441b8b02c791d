package refill

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/targets"
)

// paced is a stock of full targets. The result of each look determines the time of the next look.
type paced struct {
	eye // no state is saved

	mu    sync.Mutex
	asks  map[captcha.ID][]time.Duration // time from each look to the next; the last element repeats; empty = an empty pool
	looks map[captcha.ID][]time.Time
	hang  chan struct{} // looks wait for this channel; nil = looks do not wait
}

func (p *paced) LookAll(_ context.Context, queries []pool.Query) ([]pool.Stock, error) {
	p.mu.Lock()
	stocks := make([]pool.Stock, len(queries))
	for i, q := range queries {
		asks, n := p.asks[q.ID], len(p.looks[q.ID])
		p.looks[q.ID] = append(p.looks[q.ID], time.Now())
		if stocks[i].NextLook = -1; len(asks) > 0 {
			next := asks[min(n, len(asks)-1)]
			stocks[i] = pool.Stock{Fresh: 1, Outliving: 1, NextLook: next, NextExpiry: next + time.Hour}
		}
	}
	hang := p.hang
	p.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return stocks, nil
}

// at returns the times of all looks at a target so far.
func (p *paced) at(x targets.Target) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.looks[x.ID])
}

// A look comes exactly at the time that the last look determined. There is one exception: if the
// wait is longer than gatherTime, the look may come up to gatherTime/20 late. No wait exceeds the
// backstop. Looks at other targets do not change these times.
func TestLooksComeWhenAsked(t *testing.T) {
	asks := []time.Duration{0, 30 * time.Millisecond, time.Second, 4900 * time.Millisecond, gatherTime, 7 * time.Second, 25 * time.Second, 2 * time.Hour}
	other := target("other", 1)
	for name, beside := range map[string]struct {
		asks     []time.Duration // field paced.asks of the other target
		kick     time.Duration   // interval of wake-ups of the other target; 0 = none
		replicas Replicas        // nil = this replica is alone
	}{
		"a target that is looked at seldom":     {asks: []time.Duration{time.Hour}},
		"a target that is looked at often":      {asks: []time.Duration{37 * time.Millisecond}},
		"a target whose budget is used up":      {},
		"the same, and callers ask for a token": {kick: 70 * time.Millisecond},
		"another replica":                       {asks: []time.Duration{time.Hour}, replicas: &shares{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				login := named("me", 1)[0]
				if beside.replicas == nil {
					beside.replicas = alone{}
				}
				stock := &paced{asks: map[captcha.ID][]time.Duration{login.ID: asks, other.ID: beside.asks}, looks: map[captcha.ID][]time.Time{}}
				buyer := &counter{place: func(string) error { return &purchase.BudgetError{RetryAfter: time.Hour} }}
				m := NewManager(stock, beside.replicas, buyer, noOthers, slog.New(slog.DiscardHandler))
				running(t, m, func() {
					for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(max(beside.kick, 10*time.Millisecond)) {
						if beside.kick > 0 {
							m.Wake(other.ID)
						}
					}
				}, login, other)
				looks := stock.at(login)
				if len(looks) <= len(asks) {
					t.Fatalf("%d looks", len(looks))
				}
				for n, asked := range asks {
					least := max(asked, coalesce)
					most := least
					if asked > gatherTime {
						most += gatherTime / 20
					}
					if asked > 3*backstop {
						least, most = 3*backstop, 3*(backstop+backstopSpread)+gatherTime/20
					}
					if wait := looks[n+1].Sub(looks[n]); wait < least || wait > most {
						t.Errorf("look %d came after %v, asked was %v", n+1, wait, asked)
					}
				}
			})
		})
	}
}

// A wake-up causes an immediate look. But if the last look is less than coalesce ago, the new look
// comes when this time has passed. A wake-up during a look causes another look afterwards.
func TestWakeUpsCauseLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := target("login", 1)
		stock := &paced{asks: map[captcha.ID][]time.Duration{login.ID: {9 * time.Second}}, looks: map[captcha.ID][]time.Time{}}
		m := NewManager(stock, alone{}, &counter{}, noOthers, slog.New(slog.DiscardHandler))
		running(t, m, func() {
			time.Sleep(time.Second)
			m.Wake(login.ID)
			first := time.Now()
			time.Sleep(5 * time.Millisecond)
			m.Wake(login.ID)
			time.Sleep(time.Second)

			hang := make(chan struct{})
			stock.mu.Lock()
			stock.hang = hang
			stock.mu.Unlock()
			m.Wake(login.ID)
			third := time.Now()
			time.Sleep(300 * time.Millisecond)
			m.Wake(login.ID)
			time.Sleep(300 * time.Millisecond)
			stock.mu.Lock()
			stock.hang = nil
			stock.mu.Unlock()
			close(hang)
			ended := time.Now()
			time.Sleep(5 * time.Second)
			want := []time.Time{first, first.Add(coalesce), third, ended.Add(coalesce)}
			if looks := stock.at(login)[1:]; !slices.EqualFunc(looks, want, time.Time.Equal) {
				t.Errorf("looks at %v, want %v", looks, want)
			}
		}, login)
	})
}

// The time until the next look is measured from the last look, even if an order waited long for its
// slot.
func TestSlotsDoNotDelayLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asked = 3 * time.Second
		login := target("login", 2) // one of its two tokens is missing
		stock := &paced{asks: map[captcha.ID][]time.Duration{login.ID: {asked}}, looks: map[captcha.ID][]time.Time{}}
		buyer := &counter{delay: starvedAfter * 3 / 4}
		m := NewManager(stock, alone{}, buyer, noOthers, slog.New(slog.DiscardHandler))
		running(t, m, func() { time.Sleep(4 * asked) }, login)
		looks := stock.at(login)
		for n := range len(looks) - 1 {
			if wait := looks[n+1].Sub(looks[n]); wait != asked {
				t.Errorf("look %d came after %v, asked was %v", n+1, wait, asked)
			}
		}
		if buyer.placed < 4 {
			t.Errorf("%d orders", buyer.placed)
		}
	})
}

// If an order is refused because another replica has ordered, the worker looks again within bidFor.
// The landing of the other replica's order does not wake this worker.
func TestRefusedByTheDepthLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := target("login", 1)
		stock := &paced{looks: map[captcha.ID][]time.Time{}}
		buyer := &counter{place: func(string) error { return purchase.ErrDepth }}
		m := NewManager(stock, alone{}, buyer, noOthers, slog.New(slog.DiscardHandler))
		running(t, m, func() { time.Sleep(10*bidFor + bidFor/2) }, login)
		if n := len(stock.at(login)); n != 11 {
			t.Errorf("%d looks in %v, want one each %v", n, 10*bidFor, bidFor)
		}
	})
}
