// Package model_test is the random model of the core: replicas that crash and freeze, and connections that
// lose requests and replies, or execute them late, use one Redis. In the end every figure must hold.
package model_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb/redistest"
	"poold/internal/refill"
	"poold/internal/targets"
	"poold/internal/testkit"
)

var (
	length = flag.Duration("length", 12*time.Second, "how long each run takes")
	runs   = flag.Int("runs", 2, "number of runs")
	kind   = flag.String("kind", "single", "kind of Redis: single or cluster")
)

// TestModel drives three replicas with random callers and faults, which cannot be repeated. Every second run has a
// budget that is used up.
func TestModel(t *testing.T) {
	for run := range *runs {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			t.Parallel()
			newModel(t, run).run()
		})
	}
}

const (
	concurrency = 30
	lifetime    = 900 * time.Millisecond
	margin      = 20 * time.Millisecond
)

// target is an identity of the model. Depth 0 is a solve without a target: only tickets are demand.
type target struct {
	identity captcha.Identity
	id       captcha.ID
	depth    int
}

type model struct {
	*testing.T
	addrs    []string
	plain    *redis.Client // without faults, of the server that has the keys
	limit    int           // most orders of all targets: the money of a month
	targets  []target
	service  *service
	calm     atomic.Bool // no more faults
	idle     atomic.Bool // nothing more is bought
	mu       sync.Mutex
	nodes    [3]*node
	names    atomic.Int64
	crashes  atomic.Int64
	freezes  atomic.Int64
	spent    int               // most orders that the budget was seen to count
	lost     [3]atomic.Int64   // requests, replies, executed late
	got      map[string]string // token -> call
	orders   map[string]bool   // of the tokens that callers got
	starting sync.WaitGroup
	rows     map[string]redis.XMessage // of ended orders, by their places in the outbox
}

func newModel(t *testing.T, run int) *model {
	m := &model{
		rows: map[string]redis.XMessage{},
		T:    t, addrs: []string{redistest.Server(t)}, limit: []int{100000, 1500}[run%2], service: newService(),
		got: map[string]string{}, orders: map[string]bool{},
	}
	m.plain = redis.NewClient(&redis.Options{Addr: m.addrs[0]})
	if *kind == "cluster" {
		m.addrs = redistest.Cluster(t)
		cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: m.addrs})
		t.Cleanup(func() { _ = cluster.Close() })
		master, err := cluster.MasterForKey(t.Context(), "{m}")
		testkit.NoError(t, err)
		m.plain = master
	}
	t.Cleanup(func() { _ = m.plain.Close() })
	for i, depth := range []int{1, 2, 5, 10, 0, 3} {
		identity := captcha.Identity{Type: captcha.Turnstile, Sitekey: fmt.Sprint("t", i), Pageurl: "https://example.com/"}
		id := identity.ID()
		if depth == 0 {
			id = pool.Guest(id)
		}
		m.targets = append(m.targets, target{identity: identity, id: id, depth: depth})
	}
	return m
}

// run lets callers call until the time is over, then heals everything and checks the figures.
func (m *model) run() {
	for i := range m.nodes {
		m.start(i)
	}
	ctx, stop := context.WithCancel(m.Context())
	defer stop()
	var all sync.WaitGroup
	all.Go(func() {
		defer stop()
		time.Sleep(*length)
		// On a starved machine most tokens die first: the run goes on until each target has had a caller.
		for until := time.Now().Add(2 * time.Minute); time.Now().Before(until) && !m.allServed(); {
			time.Sleep(100 * time.Millisecond)
		}
	})
	for w := range 48 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				m.call(w, i)
				time.Sleep(rand.N(6 * time.Millisecond))
			}
		})
	}
	all.Go(func() { m.watch(ctx) })
	all.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(rand.N(2 * time.Second))
			m.plain.ScriptFlush(ctx)
			m.collect()
		}
	})
	all.Wait()
	m.calm.Store(true)
	m.idle.Store(true)
	m.starting.Wait()
	for _, n := range m.nodes {
		n.manager.Apply(m.set())
	}
	m.settle()
	m.check()
}

// collect takes the rows of ended orders from the outbox, as a sink does: it keeps only the newest 100,000.
func (m *model) collect() {
	const ends = "{m}:outbox:ends"
	for _, row := range m.plain.XRange(m.Context(), ends, "-", "+").Val() {
		m.rows[row.ID] = row // again, if the last XDEL had no answer
		m.plain.XDel(m.Context(), ends, row.ID)
	}
}

// call is one request of a caller.
func (m *model) call(w, i int) {
	m.mu.Lock()
	n := m.nodes[rand.IntN(len(m.nodes))]
	m.mu.Unlock()
	to := m.targets[rand.IntN(len(m.targets))]
	c := &pool.Call{
		Name: fmt.Sprintf("c%d-%d", w, i), Nonce: fmt.Sprint(w, "-", i), ID: to.id, Margin: margin, MostTickets: 1000,
		Row: "{}",
	}
	if rand.IntN(10) == 0 { // one caller in ten has the same key
		c.Name, c.Fingerprint = fmt.Sprintf("k%s-%d", to.identity.Sitekey,
			time.Now().UnixMilli()/300+int64(rand.IntN(2))*1e9), "fp"
	}
	if rand.IntN(3) > 0 || to.depth == 0 {
		c.Wait = rand.N(150 * time.Millisecond)
	}
	if c.Fingerprint == "" && rand.IntN(4) == 0 {
		c.MinTTL = rand.N(600 * time.Millisecond)
	}
	patience := 2 * time.Second
	if rand.IntN(4) == 0 {
		patience = rand.N(8 * time.Millisecond)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if to.depth == 0 && !m.idle.Load() {
		defer n.manager.Guest(purchase.Spec{
			Target: "/solve", Identity: to.identity, ID: to.id, Margin: margin, Lifetime: lifetime, Horizon: margin, Guest: true,
			Budgets: refill.Budgets(m.set(), "", targets.Budget{}, ""),
		})()
	}
	began := time.Now()
	token, err := n.pool.Take(ctx, c)
	if err != nil {
		return
	}
	// a repetition after a lost reply finds the token that it got before, which has become older
	least := max(margin, c.MinTTL) - time.Millisecond
	if life := token.TTL + time.Since(began); token.Source != pool.FromReplay && life < least {
		m.Errorf("a token that lives for %v was handed out; the margin is %v, min_ttl %v", token.TTL, margin, c.MinTTL)
	}
	if c.Fingerprint == "" && rand.IntN(10) == 0 { // the answer did not leave
		n.pool.Cancel(c)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if other, is := m.got[token.Value]; is && other != c.Name {
		m.Errorf("%s got the token of %s", c.Name, other)
	}
	if !strings.HasPrefix(token.Value, to.identity.Sitekey+".") {
		m.Errorf("the token %s for %s", token.Value, to.identity.Sitekey)
	}
	m.got[token.Value] = c.Name
	m.orders[token.Order] = true
}

// allServed reports whether each target has handed out tokens.
func (m *model) allServed() bool {
	for _, to := range m.targets {
		ledger := to.id
		if to.depth == 0 {
			ledger = pool.Guests
		}
		f := m.plain.HMGet(context.Background(), "{m}:stats:"+string(ledger), "hits", "waited", "returned").Val()
		var hits, waited, returned int
		for i, n := range []*int{&hits, &waited, &returned} {
			if len(f) > i && f[i] != nil {
				_, _ = fmt.Sscan(fmt.Sprint(f[i]), n)
			}
		}
		if hits+waited-returned < 5 {
			return false
		}
	}
	return true
}

// watch checks the limits and the money until ctx ends.
func (m *model) watch(ctx context.Context) {
	for ctx.Err() == nil {
		pipe := m.plain.TxPipeline()
		money := pipe.HVals(ctx, "{m}:money:"+pool.ScopeOverall+":"+time.Now().UTC().Format("2006-01"))
		spent, open := pipe.ZCard(ctx, "{m}:solves:"+pool.ScopeOverall), pipe.ZCard(ctx, "{m}:permits:main")
		_, err := pipe.Exec(ctx)
		if err == nil && (int(spent.Val()) > m.limit || open.Val() > concurrency) {
			m.Errorf("%d of %d spent, %d of %d in flight", spent.Val(), m.limit, open.Val(), concurrency)
			return
		}
		// each order costs 1
		if sum := fmt.Sprintf("%d000000", spent.Val()); err == nil && spent.Val() > 0 &&
			strings.Join(money.Val(), "") != sum {
			m.Errorf("%v of money spent, want %s", money.Val(), sum)
			return
		}
		m.spent = max(m.spent, int(spent.Val()))
		time.Sleep(2 * time.Millisecond)
	}
}

// settle waits until each order has ended, and stops the replicas.
func (m *model) settle() {
	deadline := time.Now().Add(20 * time.Second)
	for m.plain.ZCard(context.Background(), "{m}:deadlines").Val() > 0 {
		if time.Now().After(deadline) {
			m.Errorf("orders are left: %v", m.plain.ZRange(context.Background(), "{m}:deadlines", 0, -1).Val())
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, n := range m.nodes {
		n.stop()
	}
}

// check compares Redis, the service and what the callers got.
func (m *model) check() {
	ctx := context.Background()
	var bought, taken int64
	for _, to := range m.targets {
		f := map[string]int64{}
		ledger := to.id
		if to.depth == 0 {
			ledger = pool.Guests
		}
		for name, value := range m.plain.HGetAll(ctx, "{m}:stats:"+string(ledger)).Val() {
			var n int64
			_, _ = fmt.Sscan(value, &n)
			f[name] = n
		}
		fresh, open := m.plain.LLen(ctx, "{m}:tokens:"+string(to.id)).Val(),
			m.plain.ZCard(ctx, "{m}:inflight:"+string(to.id)).Val()
		handed := f["hits"] + f["waited"] - f["returned"]
		if sum := handed + f["expired"] + f["failed"] + f["lost"] + f["flushed"] + fresh + open; sum != f["bought"] {
			m.Errorf("%s: bought %d, accounted for %d: %v, fresh %d, in flight %d", to.id, f["bought"], sum, f, fresh, open)
		}
		if f["bought"] == 0 || handed == 0 {
			m.Errorf("%s: nothing happened: %v", to.id, f)
		}
		bought, taken = bought+f["bought"], taken+handed
	}
	ends, tasks := map[string]string{}, map[string]string{}
	m.collect()
	for _, row := range m.rows {
		order, kind := fmt.Sprint(row.Values["order"]), fmt.Sprint(row.Values["kind"])
		var p purchase.Purchase
		testkit.NoError(m, json.Unmarshal([]byte(fmt.Sprint(row.Values["row"])), &p))
		tasks[p.Task] = order
		if kind == "active" {
			continue
		}
		if was, is := ends[order]; is {
			m.Errorf("order %s ended twice: %s, %s", order, was, kind)
		}
		ends[order] = kind
	}
	s := m.service
	s.mu.Lock()
	defer s.mu.Unlock()
	for task := range s.collected {
		if ends[tasks[task]] == "" {
			m.Errorf("the order of task %s has no end", task)
		}
	}
	kinds := map[string]int{}
	for _, kind := range ends {
		kinds[kind]++
	}
	if m.spent == 0 {
		m.Error("the budget was not seen to count")
	}
	// A failed task costs nothing, so the budget counts it only while it is in flight.
	if s.most > concurrency || s.accepted-kinds["failed"] > m.limit || int64(s.accepted) > bought ||
		len(ends) < s.submits {
		m.Errorf("most open %d, accepted %d, bought %d, limit %d, %d submits, ends %v", s.most, s.accepted, bought, m.limit,
			s.submits, kinds)
	}
	// A call whose replica died after its take keeps its token: the stored reply names it.
	undelivered := 0
	for keys := m.plain.Scan(ctx, 0, "{m}:reply:*", 1000).Iterator(); keys.Next(ctx); {
		if f := strings.Split(m.plain.Get(ctx, keys.Val()).Val(), "|"); f[0] == "t" && !m.orders[f[4]] {
			m.orders[f[4]] = true
			undelivered++
		}
	}
	// Replies live as long as their tokens, so in a long run dead replicas have no replies left; there is at most one for
	// each call under way at a crash or a lost cancel.
	missing := int(taken) - len(m.got) - undelivered
	if most := int(m.crashes.Load()) * 3; missing < 0 || missing > most {
		m.Errorf("%d tokens taken, %d got by callers, %d in replies of dead replicas: %d are missing, at most %d may", taken,
			len(m.got), undelivered, missing, most)
	}
	m.Logf("%d crashes, %d freezes; lost %d requests, %d replies, %d executed late; accepted %d (most open %d), "+
		"bought %d, taken %d, got %d, undelivered %d, missing %d, ends %v",
		m.crashes.Load(), m.freezes.Load(), m.lost[0].Load(), m.lost[1].Load(), m.lost[2].Load(), s.accepted, s.most, bought,
		taken, len(m.got), undelivered, missing, kinds)
}

// node is a replica.
type node struct {
	m       *model
	index   int
	pool    *pool.Pool
	manager *refill.Manager
	client  redis.UniversalClient
	dead    atomic.Bool
	frozen  atomic.Int64 // until, Unix ns
	kill    context.CancelFunc
	work    sync.WaitGroup
}

// start starts a replica under a new name.
func (m *model) start(i int) {
	n := &node{m: m, index: i}
	ctx, kill := context.WithCancel(context.Background())
	n.kill = kill
	n.client = redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: m.addrs, IsClusterMode: *kind == "cluster", PoolSize: 30, MaxRetries: -1, MaxRedirects: -1,
		ContextTimeoutEnabled: true, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &faultyConn{Conn: c, n: n}, err
		},
	})
	log := slog.New(slog.NewTextHandler(m, &slog.HandlerOptions{Level: slog.LevelError}))
	n.pool = pool.New(pool.Config{
		Slow: n.client, Fast: n.client, Prefix: "m", Replica: fmt.Sprint("r", m.names.Add(1)), Log: log,
		Beat: 20 * time.Millisecond, Changed: func(id captcha.ID) { n.manager.Changed(id) },
	})
	buyer := purchase.New(purchase.Config{Pool: n.pool, Letters: m.TempDir(), Sink: true, Observer: m, Log: log,
		CallTime: 100 * time.Millisecond})
	n.manager = refill.New(n.pool, buyer, log)
	buyer.Turn = n.manager.Changed
	buyer.SetProviders([]purchase.Listing{
		{Provider: &door{n: n}, Fingerprint: "k", Concurrency: concurrency, Price: func(captcha.Type) float64 { return 1 }}})
	m.mu.Lock()
	m.nodes[i] = n
	set := m.set()
	m.mu.Unlock()
	n.manager.Apply(set)
	n.work.Go(func() { _ = buyer.Run(ctx) })
	n.work.Go(func() { _ = n.manager.Run(ctx) })
}

// Ended implements purchase.Observer.
func (m *model) Ended(purchase.Purchase, time.Duration) {}

// Count implements purchase.Observer.
func (m *model) Count(_, _, _ string) {}

// Write receives the log. A panic, which the replica survives, fails the model.
func (m *model) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "panic") {
		m.Errorf("%s", line)
	}
	return len(line), nil
}

// set returns the file of the model: nothing is bought when the model is idle.
func (m *model) set() *targets.Set {
	set := &targets.Set{Budget: targets.Budget{PerDay: m.limit + 1, Money: targets.Money{MoneyPerMonth: float64(m.limit)}}}
	for _, to := range m.targets {
		if to.depth > 0 && !m.idle.Load() {
			set.Targets = append(set.Targets, targets.Target{
				Name: to.identity.Sitekey, Owner: "qa", Identity: to.identity, ID: to.id, Depth: to.depth, Margin: margin,
				Lifetime: lifetime,
			})
		}
	}
	return set
}

// stop stops the replica in order. A dead one is only waited for.
func (n *node) stop() {
	n.kill()
	n.work.Wait()
	_ = n.client.Close()
}

// at is a moment at which the replica may crash or freeze.
func (n *node) at() {
	if n.m.calm.Load() || n.dead.Load() {
		return
	}
	switch x := rand.Float64(); {
	case x < 0.0007:
		if n.dead.Swap(true) {
			return
		}
		n.m.crashes.Add(1)
		n.kill()
		n.m.starting.Go(func() {
			time.Sleep(30 * time.Millisecond)
			n.m.start(n.index)
			n.stop()
		})
	case x < 0.0014:
		n.m.freezes.Add(1)
		n.frozen.Store(time.Now().Add(250 * time.Millisecond).UnixNano())
	}
	n.thaw()
}

func (n *node) thaw() {
	for time.Now().UnixNano() < n.frozen.Load() {
		time.Sleep(5 * time.Millisecond)
	}
}
