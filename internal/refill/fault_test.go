package refill

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// counter is a Buyer that only counts orders, and can inject faults.
type counter struct {
	mu     sync.Mutex
	placed int
	bids   []purchase.Bid
	owners []string // owners of the placed orders
	adopts []adopting
	delay  time.Duration                                 // time until a slot is granted
	place  func(target string) error                     // nil = placing succeeds
	adopt  func(ended func(captcha.ID, purchase.Result)) // nil = there is no order to adopt
}

// adopting describes one call of Adopt.
type adopting struct {
	at     time.Time
	within time.Duration
	placed int // number of orders placed before the call
}

func (c *counter) Request(bid purchase.Bid, granted func(*purchase.Slot, error)) *purchase.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bids = append(c.bids, bid)
	time.AfterFunc(c.delay, func() { granted(&purchase.Slot{}, nil) })
	return &purchase.Request{}
}

func (c *counter) Buy(_ context.Context, _ *purchase.Slot, spec purchase.Spec, _ func(purchase.Result)) error {
	if c.place != nil {
		if err := c.place(spec.Target); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.placed++
	c.owners = append(c.owners, spec.Owner)
	return nil
}

func (c *counter) Adopt(_ context.Context, within time.Duration, ended func(captcha.ID, purchase.Result)) error {
	c.mu.Lock()
	c.adopts = append(c.adopts, adopting{time.Now(), within, c.placed})
	c.mu.Unlock()
	if c.adopt != nil {
		c.adopt(ended)
	}
	return nil
}

func (c *counter) Wait() error { return nil }

func (c *counter) Pace(captcha.Type) (time.Duration, time.Duration) { return time.Second, time.Second }

// eye is a function that serves as a stock: every look calls the function.
type eye func(ctx context.Context) (pool.Stock, error)

func (e eye) Recall(context.Context, captcha.ID) ([]byte, error)        { return nil, nil }
func (e eye) Remember(context.Context, captcha.ID, []byte) error        { return nil }
func (e eye) Patience(captcha.ID) time.Duration                         { return 0 }
func (e eye) Retry(context.Context, captcha.ID) (bool, error)           { return false, nil }
func (e eye) LastLook(context.Context, captcha.ID, time.Duration) error { return nil }

func (e eye) LookAll(ctx context.Context, queries []pool.Query) ([]pool.Stock, error) {
	stocks := make([]pool.Stock, len(queries))
	for i := range stocks {
		stocks[i], stocks[i].Err = e(ctx)
	}
	return stocks, nil
}

// alone implements Replicas with one live replica.
type alone struct{}

func (alone) Heartbeat(context.Context, time.Duration) (string, []string, error) {
	return "me", []string{"me"}, nil
}
func (alone) Leave(context.Context) error                            { return nil }
func (alone) Share(context.Context, captcha.ID, []byte) error        { return nil }
func (alone) Shared(context.Context, []captcha.ID) ([][]byte, error) { return nil, nil }

// withCounter runs a manager with a counter as its buyer, for one target.
func withCounter(t *testing.T, stock Stock, buyer *counter, x targets.Target, story func(t *testing.T, m *Manager, log *testkit.Log)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var log testkit.Log
		m := NewManager(stock, alone{}, buyer, noOthers, log.Logger())
		running(t, m, func() { story(t, m, &log) }, x)
	})
}

// running runs a manager for the targets until the story returns.
func running(t *testing.T, m *Manager, story func(), list ...targets.Target) {
	t.Helper()
	m.Apply(t.Context(), &targets.Set{Targets: list})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	story()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func empty(context.Context) (pool.Stock, error) { return pool.Stock{NextLook: -1}, nil }

// A panic ends a turn, but not the daemon. Retries after the panic have a delay.
func TestPanicsAreContained(t *testing.T) {
	looks := 0
	cases := map[string]struct {
		look  eye
		buyer *counter
		most  int // maximum number of panics in ten seconds
		seen  func(d *counter) int
	}{
		"in a look": {
			func(context.Context) (pool.Stock, error) { looks++; panic("fault of ours") }, &counter{}, 11,
			func(*counter) int { return looks },
		},
		"in placing": {
			empty, &counter{place: func(string) error { panic("fault of ours") }}, 50,
			func(*counter) int { return 1 },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withCounter(t, c.look, c.buyer, target("login", 5), func(t *testing.T, _ *Manager, log *testkit.Log) {
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if n := c.seen(c.buyer); n < 1 || n > c.most {
					t.Errorf("happened %d times in ten seconds, want 1 to %d", n, c.most)
				}
				if text := log.String(); !strings.Contains(text, "fault of ours") || !strings.Contains(text, "fault_test.go") {
					t.Errorf("panic or stack not in the log: %.300s", text)
				}
			})
		})
	}
}

// Lost orders are logged when their number grows. Losses from before the start are not logged.
func TestLostOrdersAreLogged(t *testing.T) {
	var lost atomic.Int64
	lost.Store(5)
	look := func(context.Context) (pool.Stock, error) {
		return pool.Stock{NextLook: -1, Outliving: 5, Figures: pool.Figures{Lost: lost.Load()}}, nil
	}
	withCounter(t, eye(look), &counter{}, target("login", 5), func(t *testing.T, _ *Manager, log *testkit.Log) {
		time.Sleep(time.Minute)
		synctest.Wait()
		if log.Count("level=WARN") > 0 {
			t.Errorf("told at the start: %s", log)
		}
		lost.Store(7)
		time.Sleep(time.Minute)
		synctest.Wait()
		if log.Count("orders are lost") != 1 || log.Count("orders=2") != 1 {
			t.Errorf("two more: %s", log)
		}
	})
}

// noOthers ignores the results of orders whose identity has no target.
func noOthers(captcha.ID, purchase.Result) {}

// An order has the owner that the target has at the time of the order. If a reload changes only the
// owner, the worker is not replaced.
func TestOrdersNameTheOwnerOfToday(t *testing.T) {
	buyer := &counter{}
	withCounter(t, eye(empty), buyer, target("login", 1), func(t *testing.T, m *Manager, _ *testkit.Log) {
		time.Sleep(time.Minute)
		buyer.mu.Lock()
		before := slices.Clone(buyer.owners)
		buyer.owners = nil
		buyer.mu.Unlock()
		worker := m.workers.Load().byName["login"]
		changed := target("login", 1)
		changed.Owner = "other@example.com"
		m.Apply(t.Context(), &targets.Set{Targets: []targets.Target{changed}})
		time.Sleep(time.Minute)
		buyer.mu.Lock()
		defer buyer.mu.Unlock()
		if owners := slices.Compact(before); !slices.Equal(owners, []string{"qa@example.com"}) {
			t.Errorf("placed for %q", owners)
		}
		if owners := slices.Compact(buyer.owners); !slices.Equal(owners, []string{"other@example.com"}) {
			t.Errorf("placed for %q after the reload", owners)
		}
		if m.workers.Load().byName["login"] != worker {
			t.Error("another owner replaced the worker")
		}
	})
}
