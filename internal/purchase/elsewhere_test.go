package purchase

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/redisdb/redistest"
)

// stall simulates the network between one replica and Redis. While the network hangs,
// calls are neither refused nor answered.
type stall struct {
	redis *redistest.Bubble

	mu    sync.Mutex
	hangs bool
	ways  []net.Conn // the replica's ends of the connections
	holes []net.Conn // the other ends of the hanging connections
}

func (s *stall) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hangs {
		ours, hole := net.Pipe()
		s.holes = append(s.holes, hole)
		return ours, nil
	}
	conn, err := s.redis.Dial(ctx, network, addr)
	if err == nil {
		s.ways = append(s.ways, conn)
	}
	return conn, err
}

// hang makes the network hang until the test calls the returned function.
func (s *stall) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = true
	for _, conn := range s.ways {
		_ = conn.Close()
	}
	s.ways = nil
}

func (s *stall) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = false
	for _, hole := range s.holes {
		_ = hole.Close()
	}
	s.holes = nil
}

// If another replica ends an order while the order's own replica stalls, the order is not lost
// and is not reported as lost.
func TestAnOrderThatEndedElsewhereIsNotLost(t *testing.T) {
	unsolvable := func(context.Context, int) (provider.Solution, error) {
		return provider.Solution{}, &provider.Error{Class: provider.Task, Code: "ERROR_CAPTCHA_UNSOLVABLE"}
	}
	for name, c := range map[string]struct {
		limit  time.Duration // the provider's time-out
		hang   time.Duration
		own    func(context.Context, int) (provider.Solution, error) // polls of the stalling replica
		others func(context.Context, int) (provider.Solution, error)
		tokens int // number of tokens in the stock at the end
	}{
		"it was landed":                         {limit: 3 * time.Minute, hang: 15 * time.Second, own: notReady(2), tokens: 1},
		"it was landed, and is asked for long":  {limit: 3 * time.Minute, hang: time.Minute, own: notReady(20), tokens: 1},
		"it was landed, and landing it hung":    {limit: 3 * time.Minute, hang: time.Minute, tokens: 1},
		"it was landed, and its time is over":   {limit: 8 * time.Second, hang: time.Minute, tokens: 1},
		"it was landed, and gave up":            {limit: 3 * time.Minute, hang: 16 * time.Second, own: unsolvable, tokens: 1},
		"it was landed, and gave up in time":    {limit: 8 * time.Second, hang: time.Minute, own: unsolvable, tokens: 1},
		"it failed":                             {limit: 3 * time.Minute, hang: 15 * time.Second, own: notReady(2), others: unsolvable},
		"it failed, and the time here was over": {limit: 8 * time.Second, hang: time.Minute, others: unsolvable},
		"it failed, and failed here":            {limit: 3 * time.Minute, hang: 16 * time.Second, own: unsolvable, others: unsolvable},
		"it was landed, and the token has died": {limit: 3 * time.Minute, hang: 10 * time.Minute},
	} {
		runBubble(t, name, func(t *testing.T) {
			redis := redistest.InBubble(t)
			way := &stall{redis: redis}
			stalls, other := newReplica(t, pool.Options{Dial: way.Dial}), newReplica(t, pool.Options{Dial: redis.Dial})
			for r, poll := range map[*replica]func(context.Context, int) (provider.Solution, error){stalls: c.own, other: c.others} {
				fake := newFakeProvider(r.ledger, "one")
				fake.limit = c.limit
				if poll != nil {
					fake.poll = poll
				}
				r.buyer.SetProviders([]Entry{{Provider: fake, Concurrency: 9}})
			}
			o := mustPlace(t, stalls.buyer, spec())
			ended := make(chan Result, 1)
			go func() { ended <- stalls.buyer.orders.collect(t.Context(), o) }()
			synctest.Wait()
			way.hang()
			time.AfterFunc(c.hang, way.goOn)

			time.Sleep(pool.Lease + time.Second)
			adopted, err := other.buyer.recovery.adopt(t.Context())
			if err != nil || len(adopted) != 1 {
				t.Fatalf("the other one adopted %d, %v", len(adopted), err)
			}
			if r := other.buyer.orders.collect(t.Context(), adopted[0]); (r.Err == nil) != (c.others == nil) {
				t.Errorf("collect at the other = %v", r.Err)
			}
			if r := <-ended; r.Outcome != Elsewhere {
				t.Errorf("collect = %v, want Elsewhere", r.Err)
			}
			if got := stalls.all(); slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "login") }) {
				t.Errorf("the events are %q", got)
			}
			if strings.Contains(stalls.logged.String(), "WARN") {
				t.Errorf("logged:\n%s", stalls.logged.String())
			}
			other.wantLeft(t, 0, 0, c.tokens, "one")
			if slots := stalls.buyer.slots(); slots[0] != 0 {
				t.Errorf("%v slots are taken", slots)
			}
		})
	}
}

// An order is lost if Redis no longer remembers how it ended, or if an outage of Redis lasts
// longer than Redis remembers the end.
func TestAnOrderWithoutAKnownEndIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		hang   time.Duration
		forget bool
		told   time.Duration // time from the placing to the report
	}{
		"redis stays away":       {24 * time.Hour, false, 3*time.Minute + 40*time.Second + fateKept},
		"redis knows of nothing": {10 * time.Minute, true, 10 * time.Minute},
	} {
		runBubble(t, name, func(t *testing.T) {
			redis := redistest.InBubble(t)
			way := &stall{redis: redis}
			r := newReplica(t, pool.Options{Dial: way.Dial})
			r.buyer.SetProviders([]Entry{r.entryAt("one", "")})
			o := mustPlace(t, r.buyer, spec())
			began := time.Now()
			ended := make(chan Result, 1)
			go func() { ended <- r.buyer.orders.collect(t.Context(), o) }()
			synctest.Wait()
			way.hang()
			if c.forget {
				redis.FlushAll()
			}
			time.AfterFunc(c.hang, way.goOn)
			if r := <-ended; r.Outcome != Lost {
				t.Errorf("collect = %v, want Lost", r.Err)
			}
			if took := time.Since(began); !near(took, c.told, 10*time.Second) {
				t.Errorf("ended after %v, want %v", took, c.told)
			}
			if got := r.all(); got[len(got)-1] != "login at one: lost" || strings.Count(r.logged.String(), "a paid task is lost") != 1 {
				t.Errorf("the events are %q, logged:\n%s", got, r.logged.String())
			}
			way.goOn()
		})
	}
}
