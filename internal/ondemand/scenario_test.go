package ondemand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"poold/internal/backoff"
	"poold/internal/captcha"
	"poold/internal/ondemand/redisclaims"
	"poold/internal/permits"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m)
}

// silent is a logger that discards go-redis' messages, because these tests cut its connections.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

type noObserver struct{}

func (noObserver) Ended(purchase.Event)             {}
func (noObserver) Callback(string)                  {}
func (noObserver) BudgetUsedUp(pool.Budget, string) {}
func (noObserver) DeadLetter(string)                {}
func (noObserver) Report(string, string)            {}

// service is a simulated solving service.
type service struct {
	interval time.Duration // interval between polls

	mu     sync.Mutex
	lead   time.Duration // time from a submit to the answer
	spread time.Duration // upper limit of the random time that is added to each lead
	refuse error         // error of each submit; nil = none
	fail   bool          // the next tasks fail
	share  float64       // share of the tasks that fail while the field fail is false
	cause  error         // error of failed tasks; nil = unsolvable
	down   bool          // the service is down
	until  time.Time     // end of the outage while the service is down
	tasks  map[string]task

	refusals []error     // errors of the next submits
	submits  []time.Time // times of all submits
	pages    []string    // pages of the tasks
}

type task struct {
	due  time.Time
	dead bool
}

func (s *service) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// sold returns the number of tasks.
func (s *service) sold() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks)
}

// dead returns the number of failed tasks.
func (s *service) dead() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		if t.dead {
			n++
		}
	}
	return n
}

func (s *service) Name() string                                             { return "service" }
func (s *service) Timeout() time.Duration                                   { return 2 * time.Minute }
func (s *service) Threads(context.Context) (int, bool, error)               { return 0, false, nil }
func (s *service) ReadBalance(context.Context) error                        { return nil }
func (s *service) Report(context.Context, string, captcha.Type, bool) error { return nil }
func (s *service) ReportWindow() time.Duration                              { return time.Minute }
func (s *service) Pace(captcha.Type) (first, interval time.Duration) {
	return s.interval, s.interval
}

func (s *service) Submit(_ context.Context, r provider.Request) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.submits = append(s.submits, time.Now())
	if len(s.refusals) > 0 {
		err := s.refusals[0]
		s.refusals = s.refusals[1:]
		return "", err
	}
	if s.refuse != nil {
		return "", s.refuse
	}
	name := fmt.Sprint("task-", len(s.tasks)+1)
	s.pages = append(s.pages, path.Base(r.Identity.Pageurl))
	lead := s.lead + time.Duration(rand.Float64()*float64(s.spread))
	s.tasks[name] = task{due: time.Now().Add(lead), dead: s.fail || rand.Float64() < s.share}
	return name, nil
}

func (s *service) Poll(_ context.Context, name string, _ captcha.Identity) (provider.Solution, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t := s.tasks[name]; {
	case time.Now().Before(t.due):
		return provider.Solution{}, provider.ErrNotReady
	case t.dead && s.cause != nil:
		return provider.Solution{}, s.cause
	case t.dead:
		return provider.Solution{}, &provider.Error{Class: provider.Task, Code: "ERROR_CAPTCHA_UNSOLVABLE"}
	}
	return provider.Solution{Token: "answer of " + name}, nil
}

func (s *service) Ready(time.Time) (bool, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.down, time.Second
}

func (s *service) State(time.Time) provider.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return provider.State{Kind: provider.StateDown, Reason: "ERROR_ZERO_BALANCE", Until: s.until}
	}
	return provider.State{Kind: provider.StateOK}
}

// scenario has a Redis, a solving service and replicas, in a bubble.
type scenario struct {
	t        *testing.T
	redis    *redistest.Bubble
	ahead    atomic.Int64 // by how many ns Redis' clock is ahead of the replicas' clock
	service  *service
	replicas []*replica
}

type replica struct {
	*Service

	store  *pool.Store
	claims *redisclaims.Claims
	buyer  *purchase.Buyer
	stop   context.CancelFunc
	done   chan struct{}
	ended  bool
}

// play runs a story with replicas in a bubble. The bubble has virtual time, and a goroutine that
// outlives the story fails the test.
func play(t *testing.T, replicas int, story func(t *testing.T, w *scenario)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &scenario{t: t, redis: redistest.InBubble(t), service: &service{lead: 10 * time.Second, interval: time.Second, tasks: map[string]task{}}}
		for range replicas {
			w.start(doubles{})
		}
		story(t, w)
		for _, r := range w.replicas {
			w.end(r)
		}
	})
}

func (w *scenario) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := w.redis.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return clockedConn{conn, w}, nil
}

// clockedConn sets Redis' clock before each command of a connection.
type clockedConn struct {
	net.Conn
	w *scenario
}

func (c clockedConn) Write(b []byte) (int, error) {
	if ahead := time.Duration(c.w.ahead.Load()); ahead != 0 {
		c.w.redis.SetTime(time.Now().Add(ahead))
	}
	return c.Conn.Write(b)
}

// doubles has functions that wrap parts of a replica; nil = not wrapped.
type doubles struct {
	claims  func(Claims) Claims
	savings func(Savings) Savings
	tokens  func(Tokens) Tokens
	orders  func(purchase.Orders) purchase.Orders
	ends    int          // maximum number of ended orders that wait for the history; 0 = none
	log     *slog.Logger // of the service; nil = discarded
}

func (w *scenario) start(with doubles) *replica {
	r := &replica{done: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	var err error
	r.store, err = pool.Open(pool.Options{
		Addresses: "redis://bubble:6379", Prefix: "story", Log: log, Dial: w.dial, Probe: time.Minute, Endings: with.ends,
		OnChange: func(id captcha.ID) { r.Wake(id) },
		OnEnded:  func(order pool.Ref, how string) { r.buyer.Ended(order, how) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	r.claims = redisclaims.New(r.store.DB, redisclaims.Options{Wake: func(key captcha.ID) { r.Wake(key) }})
	orders := purchase.Orders(struct {
		*pool.Orders
		*permits.Permits
	}{r.store.Orders, permits.New(r.store.DB)})
	if with.orders != nil {
		orders = with.orders(orders)
	}
	r.buyer = purchase.NewBuyer(orders, "no letters", noObserver{}, log)
	r.buyer.SetProviders([]purchase.Entry{{Provider: w.service, Concurrency: 50}})
	parts := Parts{Tokens: r.store.Tokens, Guests: r.store.Guests, Buyer: r.buyer, Claims: r.claims, Savings: r.claims, HasTarget: func(captcha.ID) bool { return false }, Log: cmp.Or(with.log, log)}
	if with.claims != nil {
		parts.Claims = with.claims(parts.Claims)
	}
	if with.savings != nil {
		parts.Savings = with.savings(parts.Savings)
	}
	if with.tokens != nil {
		parts.Tokens = with.tokens(parts.Tokens)
	}
	r.Service = New(parts)
	lasting, end := context.WithCancel(w.t.Context())
	ctx, stop := context.WithCancel(w.t.Context())
	r.stop = stop
	var support, work sync.WaitGroup
	support.Go(func() { _ = r.store.Run(lasting) })
	support.Go(func() { _ = r.buyer.Run(lasting) })
	support.Go(func() { _ = r.KeepCounts(lasting) })
	work.Go(func() { _ = r.Run(ctx) })
	work.Go(func() {
		for ctx.Err() == nil {
			_ = r.buyer.Adopt(ctx, 0, r.Ended)
			_ = backoff.Sleep(ctx, 2*time.Second)
		}
	})
	go func() {
		work.Wait()
		_ = r.buyer.Wait()
		time.Sleep(time.Second) // so that the counts include the callers whose waits the stop ends
		end()
		support.Wait()
		close(r.done)
	}()
	w.replicas = append(w.replicas, r)
	synctest.Wait()
	return r
}

// end stops a replica as SIGTERM does.
func (w *scenario) end(r *replica) {
	if r.ended {
		return
	}
	r.ended = true
	r.stop()
	r.store.EndWaits()
	<-r.done
	if err := r.store.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		w.t.Errorf("closing: %v", err)
	}
}

// kill stops a replica as SIGKILL does: no call of the replica reaches Redis any more.
func (w *scenario) kill(r *replica) {
	_ = r.store.Close()
	w.end(r)
}

// request returns a request for a guest with the given page.
func request(page string) Request {
	id := captcha.Identity{Type: captcha.Turnstile, Sitekey: "1x00000000000000000000AA", Pageurl: "https://example.com/" + page}
	return requestFor(id)
}

func requestFor(id captcha.Identity) Request {
	return Request{
		Take: pool.Request{ID: id.ID(), Margin: 40 * time.Second, Wait: 2 * time.Minute, Caller: "caller", MaxWaiting: MostWaiting},
		Guest: &Guest{Spec: purchase.Spec{
			Target: purchase.GuestTarget, Owner: "qa@example.com", Identity: id, ID: id.ID(), Margin: 40 * time.Second, Lifetime: 120 * time.Second,
		}},
	}
}

// behind returns a request that uses the given proxy and that may share a solve.
func behind(proxy captcha.Secret) Request {
	id := request("x").Guest.Spec.Identity
	id.Proxy, id.ProxyType = proxy, "http"
	return sharing(requestFor(id))
}

func sharing(r Request) Request {
	id := r.Guest.Spec.Identity
	id.Proxy, id.ProxyType = "", ""
	r.Share = &Share{Key: id.ID(), Sitekey: id.Sitekey, Pageurl: id.Pageurl}
	return r
}

// answers collects the answers to callers.
type answers struct {
	calls   sync.WaitGroup
	mu      sync.Mutex
	sources map[pool.Source]int
	tokens  map[string]int
	errs    []error
	at      []time.Time // times of the answers
}

func (a *answers) call(ctx context.Context, r *replica, n int, ask Request) *answers {
	for range n {
		a.calls.Go(func() {
			token, err := r.Solve(ctx, ask)
			a.mu.Lock()
			defer a.mu.Unlock()
			a.at = append(a.at, time.Now())
			if err != nil {
				a.errs = append(a.errs, err)
				return
			}
			if a.sources == nil {
				a.sources, a.tokens = map[pool.Source]int{}, map[string]int{}
			}
			a.sources[token.Source]++
			a.tokens[token.Value]++
		})
	}
	return a
}

// failed returns the number of errors of a type.
func failed[E error](a *answers) (n int) {
	for _, err := range a.errs {
		var kind E
		if errors.As(err, &kind) {
			n++
		}
	}
	return n
}

// The other methods of provider.Provider return constant values.
func (*service) Fault() *provider.Fault                   { return nil }
func (*service) Adopt(context.Context, *provider.Fault)   {}
func (*service) Answered() time.Time                      { return time.Time{} }
func (*service) PollTurn(time.Time) (bool, time.Duration) { return true, 0 }
func (*service) Probe(context.Context) error              { return nil }
