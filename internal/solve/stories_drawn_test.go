//go:build !race

package solve_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/claims"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/refill"
	"poold/internal/solve"
	. "poold/internal/solve/solvetest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// drawnStories is the number of random stories, and firstStory is the seed of the first one. Example:
// go test ./internal/solve -run TestDrawnStories -stories 500
var (
	drawnStories = flag.Int("stories", 4, "random stories to play")
	firstStory   = flag.Uint64("first-story", 1, "seed of the first story")
)

// mostAhead is the largest difference between Redis' clock and the replicas' clock, in both directions.
const mostAhead = 4500 * time.Millisecond

// In the random stories callers hang up, replicas stop or die, tasks fail, and Redis' clock makes steps. Redis,
// the claim store and the service have outages. Each sold task has one end, and the counters account for it.
// Each token goes to one caller, to the callers with one Idempotency-Key or to the sharers of one claim, of whom
// at most one has bought it. The name of a failing story has its seed.
func TestDrawnStories(t *testing.T) {
	for seed := *firstStory; seed < *firstStory+uint64(*drawnStories); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &drawnStory{
					t: t, redis: redistest.InBubble(t), random: rand.New(rand.NewPCG(seed, 0)),
					tasks: map[string]task{}, holders: map[string]string{}, buyers: map[string]int{}, byKey: map[string]pool.Token{},
				}
				for range 3 {
					s.start()
				}
				for range 40 {
					s.step()
				}
				s.settle()
				s.check()
				for _, r := range s.living {
					r.end()
				}
			})
		})
	}
}

// drawnStory is one random story. It is also the solving service.
type drawnStory struct {
	t      *testing.T
	redis  *redistest.Bubble
	ahead  atomic.Int64 // by how many ns Redis' clock is ahead of the replicas' clock
	random *rand.Rand
	outage outage
	living []*drawnReplica
	calls  sync.WaitGroup

	mu      sync.Mutex
	share   float64 // of the tasks that fail
	down    bool    // the service refuses the account
	tasks   map[string]task
	holders map[string]string     // token -> the caller, key or claim that got it
	buyers  map[string]int        // token -> the sharers that got it as bought
	byKey   map[string]pool.Token // the last token of each Idempotency-Key
	served  int                   // callers that got a token
	shared  int                   // that shared it
}

// task is a task of the service.
type task struct {
	due  time.Time
	fail bool
}

func (s *drawnStory) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// Dial connects to Redis, and sets its clock before each command.
func (s *drawnStory) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.redis.Dial(ctx, network, address)
	return clockedConn{conn, s}, err
}

type clockedConn struct {
	net.Conn
	s *drawnStory
}

func (c clockedConn) Write(b []byte) (int, error) {
	if ahead := time.Duration(c.s.ahead.Load()); ahead != 0 {
		c.s.redis.SetTime(time.Now().Add(ahead))
	}
	return c.Conn.Write(b)
}

// drawnReplica is a replica with all parts but the HTTP server.
type drawnReplica struct {
	s       *drawnStory
	db      *redisdb.DB
	pool    *pool.Pool
	buyer   *purchase.Buyer
	service *solve.Solver
	dead    atomic.Bool
	buying  context.CancelFunc
	support context.CancelFunc
	orders  sync.WaitGroup
	parts   sync.WaitGroup
}

func (s *drawnStory) start() {
	log := slog.New(slog.DiscardHandler)
	r := &drawnReplica{s: s}
	var err error
	r.db, err = redisdb.Open(redisdb.Options{Addresses: redistest.BubbleAddress, Prefix: "p", Log: log, Dial: s.Dial,
		Probe: time.Minute})
	testkit.NoError(s.t, err)
	var manager *refill.Manager
	r.pool = pool.New(pool.Config{Slow: r.db.Fast, Fast: r.db.Fast, Prefix: "p", Replica: fmt.Sprintf("%p", r), Log: log,
		Changed: func(id captcha.ID) { manager.Changed(id) }})
	r.buyer = purchase.New(purchase.Config{Pool: r.pool, Letters: "none", Sink: true, Observer: nobody{}, Log: log})
	manager = refill.New(r.pool, r.buyer, log)
	r.buyer.Turn = manager.Changed
	price := func(captcha.Type) float64 { return 1 }
	r.buyer.SetProviders([]purchase.Listing{{Provider: door{r}, Fingerprint: "k", Concurrency: 50, Price: price}})
	r.service = solve.New(solve.Config{
		Pool: r.pool, Buy: r.buyer.Buy, Refiller: manager, Log: log,
		Claims: &claims.Claims{Store: &breakable{&s.outage, claims.InRedis(r.db)}},
	})
	buying, stopBuying := context.WithCancel(context.Background())
	support, stop := context.WithCancel(context.Background())
	r.buying, r.support = stopBuying, stop
	r.parts.Go(func() { _ = r.buyer.Run(support) })
	r.orders.Go(func() { manager.Apply(&targets.Set{}); _ = manager.Run(buying) })
	r.orders.Go(func() { _ = r.service.Run(buying) })
	s.living = append(s.living, r)
	synctest.Wait()
}

// end stops the replica as SIGTERM does.
func (r *drawnReplica) end() {
	r.buying()
	r.pool.EndWaits()
	r.orders.Wait()
	r.support()
	r.parts.Wait()
	_ = r.db.Close()
}

// kill stops the replica as SIGKILL does: none of its calls reaches Redis or the service any more.
func (r *drawnReplica) kill() {
	r.dead.Store(true)
	_ = r.db.Close()
	r.end()
}

// replace ends a replica and starts another one.
func (s *drawnStory) replace(end func(*drawnReplica)) {
	i := s.random.IntN(len(s.living))
	r := s.living[i]
	s.living = slices.Delete(s.living, i, i+1)
	end(r)
	s.start()
}

func (s *drawnStory) draw(limit time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(limit)))
}

// step plays one event, and waits until the next one is due.
func (s *drawnStory) step() {
	switch n := s.random.IntN(24); {
	case n < 12:
		s.call(n)
	case n == 12:
		s.replace((*drawnReplica).kill)
	case n == 13:
		s.replace((*drawnReplica).end)
	case n == 14:
		s.redis.SetDown(true)
		time.Sleep(s.draw(8 * time.Second))
		s.redis.SetDown(false)
	case n == 15:
		s.outage.on.Store(true)
		time.Sleep(s.draw(8 * time.Second))
		s.outage.on.Store(false)
	case n == 16:
		share := s.random.Float64() / 2
		s.with(func() { s.share = share })
	case n == 17:
		down := s.random.IntN(2) == 0
		s.with(func() { s.down = down })
	case n == 18:
		s.ahead.Store(int64(s.draw(2*mostAhead) - mostAhead))
	}
	time.Sleep(s.draw(6 * time.Second))
}

// call starts callers with equal requests at random replicas. Some share a solve or have an Idempotency-Key, and
// some hang up.
func (s *drawnStory) call(kind int) {
	spec := GuestSpec(fmt.Sprint("page-", s.random.IntN(3)))
	if kind < 5 {
		spec = GuestSpec("shared-" + spec.Identity.Pageurl)
	}
	spec.Budgets = nil
	key := ""
	if 5 <= kind && kind < 8 {
		key = fmt.Sprint(spec.Identity.Pageurl, " key ", s.random.IntN(3))
	}
	hangUp := s.random.IntN(3) == 0
	for range 1 + s.random.IntN(4) {
		r, patience := s.living[s.random.IntN(len(s.living))], 10*time.Minute
		if hangUp {
			patience = s.draw(20 * time.Second)
		}
		ask := Request(spec, 2*time.Minute, key)
		if kind < 5 {
			ask = shared(spec, 2*time.Minute)
		}
		s.calls.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if token, err := r.service.Solve(ctx, ask); err == nil {
				s.serve(token, ask, key)
			}
		})
	}
}

// serve records who got a token. No two callers, keys or claims get the same one, and a key gets no second one
// before the first has expired.
func (s *drawnStory) serve(token pool.Token, ask solve.Request, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served++
	holder := fmt.Sprint("caller ", s.served)
	switch {
	case ask.Share != nil:
		holder = "claim " + string(ask.Share.Key)
		s.shared++
		if token.Source != solve.FromShared {
			s.buyers[token.Value]++
		}
		testkit.AtMost(s.t, "times that "+token.Value+" was bought", s.buyers[token.Value], 1)
	case key != "":
		holder = "key " + key
		if before := s.byKey[key]; before.Value != token.Value && time.Until(before.Dies) > 2*mostAhead {
			s.t.Errorf("%s got %+v and %+v", holder, before, token)
		}
		s.byKey[key] = token
	}
	if before, is := s.holders[token.Value]; is && before != holder {
		s.t.Errorf("%s went to %s and to %s", token.Value, before, holder)
	}
	s.holders[token.Value] = holder
}

// settle waits until each call has its answer, each order its end, and each token has expired.
func (s *drawnStory) settle() {
	s.with(func() { s.down, s.share = false, 0 })
	s.calls.Wait()
	time.Sleep(5 * time.Minute)
}

// check compares the tasks of the service with the counters, and with the rows of the ends.
func (s *drawnStory) check() {
	ctx := context.Background()
	totals, err := s.living[0].pool.Totals(ctx)
	testkit.NoError(s.t, err)
	stock := totals.Guests
	f, sold := stock.Counters, len(s.tasks)
	out := f.Hits + f.Waited - f.Returned + f.Expired + f.Failed + f.Lost + f.Flushed
	// A lost order may or may not have been sold.
	if int(f.Bought) < sold || int(f.Bought-f.Lost) > sold || out+int64(stock.Fresh) != f.Bought ||
		stock.Orders+stock.Waiting != 0 {
		s.t.Errorf("%d tasks; %d bought and %d ways out, %d orders and %d tickets: %+v", sold, f.Bought, out, stock.Orders,
			stock.Waiting, f)
	}
	rows, err := s.living[0].db.Slow.XRange(ctx, "{p}:outbox:ends", "-", "+").Result()
	testkit.NoError(s.t, err)
	solved, ends, orders := map[string]bool{}, map[string]int64{}, map[string]string{}
	for _, row := range rows {
		var p purchase.Purchase
		testkit.NoError(s.t, json.Unmarshal([]byte(fmt.Sprint(row.Values["row"])), &p))
		kind := fmt.Sprint(row.Values["kind"])
		for _, name := range []string{"order " + p.Order, "task " + p.Task} {
			if before, twice := orders[name]; twice && name != "task " {
				s.t.Errorf("%s ended twice: %s and %s", name, before, kind)
			}
			orders[name] = kind
		}
		ends[kind]++
		solved["answer of "+p.Task] = kind == string(pool.Solved)
	}
	if n := ends["solved"] + ends["expired"]; n != f.Solved || ends["failed"]+ends["repeated"] != f.Failed ||
		ends["lost"] != f.Lost || n+f.Failed+f.Lost != f.Bought {
		s.t.Errorf("the rows have %v, the counters are %+v", ends, f)
	}
	for value, holder := range s.holders {
		if !solved[value] {
			s.t.Errorf("%s went to %s, and its order has not solved", value, holder)
		}
	}
	s.t.Logf("%d tasks, %d callers served, %d of them shared: %v, %+v", sold, s.served, s.shared, ends, f)
}

// door is a replica's way to the solving service; it implements purchase.Seller.
type door struct{ r *drawnReplica }

var errDead = errors.New("the replica is dead")

func (d door) SolvedAtOnce(string) (s provider.Solution, is bool) { return s, false }

func (d door) Submit(context.Context, provider.Submission) (string, error) {
	if d.r.dead.Load() {
		return "", errDead
	}
	s := d.r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return "", &provider.Error{Class: provider.Account, Code: "ERROR_ZERO_BALANCE"}
	}
	name := fmt.Sprint("task-", len(s.tasks)+1)
	s.tasks[name] = task{time.Now().Add(10*time.Second + rand.N(10*time.Second)), rand.Float64() < s.share}
	return name, nil
}

func (d door) Poll(_ context.Context, name string, _ captcha.Identity) (provider.Solution, error) {
	if d.r.dead.Load() {
		return provider.Solution{}, errDead
	}
	s := d.r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t := s.tasks[name]; {
	case time.Now().Before(t.due):
		return provider.Solution{}, provider.ErrNotReady
	case t.fail:
		return provider.Solution{}, &provider.Error{Class: provider.Task, Code: "ERROR_CAPTCHA_UNSOLVABLE"}
	}
	return provider.Solution{Token: "answer of " + name}, nil
}

func (d door) Name() string                                             { return "main" }
func (d door) Timeout() time.Duration                                   { return 2 * time.Minute }
func (d door) Pace(captcha.Type) (first, interval time.Duration)        { return time.Second, time.Second }
func (d door) Report(context.Context, string, captcha.Type, bool) error { return nil }
func (d door) ReportWindow() time.Duration                              { return time.Minute }
func (d door) Threads(context.Context) (int, bool, error)               { return 0, false, nil }
func (d door) ReadBalance(context.Context) error                        { return nil }
func (d door) Balance() *float64                                        { return nil }
func (d door) Advice(string) (does, remedy string)                      { return "", "" }

// nobody observes the purchases.
type nobody struct{}

func (nobody) Ended(purchase.Purchase, time.Duration) {}
func (nobody) Count(_, _, _ string)                   {}
