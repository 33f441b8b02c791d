package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// parkOne starts a take with a wait and returns when the take holds a ticket.
func parkOne(t testing.TB, s *replica, r Request) <-chan answer {
	t.Helper()
	time.Sleep(time.Millisecond) // arrivals must differ, and a bubble's clock does not move by itself
	before := look(t, s, r.ID).Waiting
	result := make(chan answer, 1)
	go func() {
		token, err := s.Take(t.Context(), r)
		result <- answer{token: token, err: err}
	}()
	testkit.Within(t, 10*time.Second, "a ticket", func() bool { return look(t, s, r.ID).Waiting == before+1 })
	return result
}

// If Request.Over ends a wait, the result is the same as at the end of Request.Wait.
func testOverEndsAWait(t *testing.T, o Options) {
	s, id := open(t, o), identity("over")
	place(t, s, id, "under way")
	over := make(chan struct{})
	result := parkOne(t, s, Request{ID: id, Wait: time.Minute, MaxWaiting: 1, Over: over})
	must(t, s.Pause(t.Context(), id, Pause{}))
	close(over)
	var empty *EmptyError
	if got := <-result; !errors.As(got.err, &empty) || !empty.Paused || empty.Full || empty.Orders != 1 {
		t.Errorf("%+v", got)
	}
	testkit.Within(t, 20*time.Second, "the ticket to go", func() bool { return look(t, s, id).Waiting == 0 })
	if f := look(t, s, id).Figures; f.Requests != 1 || f.Misses != 1 {
		t.Errorf("%+v", f)
	}
	// A token in stock is still handed out.
	land(t, s, id, "under way", 0, time.Minute)
	token, err := s.Take(t.Context(), Request{ID: id, MaxWaiting: 1, Over: over})
	if err != nil || token.Source != FromPool {
		t.Error(token, err)
	}
}

// Callers that wait at two replicas are served in the order of arrival. A caller without a ticket
// cannot overtake them. A caller that needs a longer life than the token has is skipped.
func testWaitersAreServedInOrder(t *testing.T, o Options) {
	one, two, id := open(t, o), open(t, o), identity("order")
	long := Request{ID: id, MinTTL: 50 * time.Second, Wait: 20 * time.Second, MaxWaiting: 10}
	short := Request{ID: id, Wait: 20 * time.Second, MaxWaiting: 10}

	picky := parkOne(t, one, long)
	first := parkOne(t, two, short)
	second := parkOne(t, one, short)

	// The token is too old for the first caller and goes to the next one.
	stock(t, one, id, 1, 30*time.Second, time.Minute)
	if got := <-first; got.err != nil || got.token.Source != FromWait {
		t.Fatalf("first: %+v", got)
	}
	// Two tokens land for the pending callers. A new caller must not get them.
	stock(t, two, id, 2, 0, time.Minute)
	if token, err := two.Take(t.Context(), Request{ID: id}); !isEmpty(err) {
		t.Fatalf("a caller overtook two tickets: %+v, %v", token, err)
	}
	for _, waiter := range []<-chan answer{picky, second} {
		if got := <-waiter; got.err != nil {
			t.Fatalf("a waiter got %v", got.err)
		}
	}
	if got := look(t, one, id); got.Waiting != 0 || got.Figures.Waited != 3 || got.Figures.Requests != 4 || got.Figures.Misses != 1 {
		t.Fatalf("at the end: %+v", got)
	}
}

func testTheQueueIsLimited(t *testing.T, o Options) {
	s, id := open(t, o), identity("full")
	request := Request{ID: id, Wait: 300 * time.Millisecond, MaxWaiting: 1}
	waiter := parkOne(t, s, request)
	_, err := s.Take(t.Context(), request)
	var empty *EmptyError
	if !errors.As(err, &empty) || !empty.Full || empty.Waiting != 1 {
		t.Fatalf("one too many: %v", err)
	}
	if got := <-waiter; !isEmpty(got.err) {
		t.Fatalf("after its wait: %+v", got)
	}
	testkit.Within(t, 20*time.Second, "no ticket", func() bool {
		got := look(t, s, id)
		return got.Waiting == 0 && got.Figures.Misses == 2
	})
}

// A replica dies while its caller is in the queue. The caller's ticket delays other callers by at
// most two seconds.
func testTicketsOfDeadReplicasAreSkipped(t *testing.T, o Options) {
	s, id := open(t, o), identity("dead")
	now := time.Now()
	k := s.keys(id)
	ctx := t.Context()
	s.db.Slow.ZAdd(ctx, k.tickets, redis.Z{Score: float64(now.UnixMicro()), Member: "0:dead:1"})
	s.db.Slow.ZAdd(ctx, k.seen, redis.Z{Score: float64(now.UnixMilli()), Member: "0:dead:1"})
	stock(t, s, id, 1, 0, time.Minute)
	if _, err := s.Take(ctx, Request{ID: id}); !isEmpty(err) {
		t.Fatalf("the ticket was overtaken: %v", err)
	}
	token, err := s.Take(ctx, Request{ID: id, Wait: 10 * time.Second, MaxWaiting: 10})
	if err != nil {
		t.Fatalf("behind a dead replica: %v", err)
	}
	if took := time.Since(now); took < 1900*time.Millisecond || took > 4*time.Second {
		t.Fatalf("%s came after %v", token.ID, took)
	}
}

func testEndWaitsEndsWaits(t *testing.T, o Options) {
	s, id := open(t, o), identity("away")
	waiter := parkOne(t, s, Request{ID: id, Wait: 20 * time.Second, MaxWaiting: 10})
	s.EndWaits()
	if got := <-waiter; !errors.Is(got.err, ErrClosed) {
		t.Fatalf("sent away: %+v", got)
	}
	if _, err := s.Take(t.Context(), Request{ID: id, Wait: time.Second}); !errors.Is(err, ErrClosed) {
		t.Fatalf("a new wait: %v", err)
	}
	testkit.Within(t, 20*time.Second, "no ticket", func() bool { return look(t, s, id).Waiting == 0 })
	stock(t, s, id, 1, 0, time.Minute)
	if _, err := s.Take(t.Context(), Request{ID: id}); err != nil {
		t.Fatalf("a take without a wait: %v", err)
	}
}

// 200 callers hang up while they wait, many of them while tokens land. Afterwards every token is with
// a caller or in the stock.
func testHangUpsLoseNoToken(t *testing.T, o Options) {
	const callers, tokens = 200, 120
	s, id := open(t, o), identity("hang")
	random := rand.New(rand.NewPCG(3, 4))
	var mu sync.Mutex
	taken := map[string]bool{}
	var all sync.WaitGroup
	for range callers {
		delay := time.Duration(random.IntN(600)) * time.Millisecond
		all.Go(func() {
			ctx, hangUp := context.WithTimeout(t.Context(), delay)
			defer hangUp()
			token, err := s.Take(ctx, Request{ID: id, Wait: 20 * time.Second, MaxWaiting: 1000})
			if err == nil && ctx.Err() != nil {
				err = s.Return(token) // as the HTTP handler does
				if err != nil {
					t.Errorf("returning: %v", err)
				}
				return
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				if taken[token.ID] {
					t.Errorf("%s was handed out twice", token.ID)
				}
				taken[token.ID] = true
			}
		})
	}
	for i := range tokens {
		order := fmt.Sprintf("o%d", i)
		place(t, s, id, order)
		land(t, s, id, order, 0, time.Minute)
		time.Sleep(4 * time.Millisecond)
	}
	all.Wait()
	testkit.Within(t, 20*time.Second, "no ticket", func() bool { return look(t, s, id).Waiting == 0 })
	testkit.Within(t, 20*time.Second, "every token to be somewhere", func() bool { return len(taken)+look(t, s, id).Fresh == tokens })
	got := look(t, s, id)
	if n := got.Figures.Hits + got.Figures.Waited - got.Figures.Returned; n != int64(len(taken)) {
		t.Fatalf("%d are with callers, counted %d: %+v", len(taken), n, got.Figures)
	}
}

// A fifth of all replies to takes are lost. Afterwards every token is in exactly one place: taken +
// left + expired = pushed.
func testTakesSurviveLostReplies(t *testing.T, o Options) {
	const callers, each, pushed = 16, 60, 700
	s, id := open(t, o), identity("lost")
	thief := thiefOfTakes(s)
	o.Dial = thief.Over(o.Dial)
	o.Prefix = s.prefix
	robbed := open(t, o)

	stock(t, s, id, pushed-20, 0, time.Minute)
	stock(t, s, id, 20, 59500*time.Millisecond, time.Minute) // some of these tokens die during the test
	var mu sync.Mutex
	taken := map[string]int{}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for n := range each {
				request := Request{ID: id}
				switch {
				case n%5 == 0:
					// A token with an Idempotency-Key is kept for the key. The caller must get this
					// token before it dies, or else the figures do not balance. So the caller
					// repeats its request.
					request.Idempotency, request.MinTTL = fmt.Sprintf("%d-%d", caller, n), 5*time.Second
				case n%7 == 0:
					request.Wait, request.MaxWaiting = 50*time.Millisecond, 100
				}
				token, err := robbed.Take(t.Context(), request)
				for errors.Is(err, redisdb.ErrDown) { // a caller should try again
					time.Sleep(20 * time.Millisecond)
					token, err = robbed.Take(t.Context(), request)
				}
				if err == nil {
					mu.Lock()
					taken[token.ID]++
					mu.Unlock()
				} else if !isEmpty(err) {
					t.Errorf("take: %v", err)
				}
			}
		})
	}
	all.Wait()
	for token, times := range taken {
		if times != 1 {
			t.Errorf("%s was handed out %d times", token, times)
		}
	}
	if thief.Stolen() == 0 {
		t.Fatal("no reply was lost: the test shows nothing")
	}
	testkit.Within(t, 20*time.Second, "taken + left + expired = pushed", func() bool {
		left := look(t, s, id)
		return len(taken)+left.Fresh+int(left.Figures.Expired) == pushed
	})
	balanced(t, look(t, s, id))
	t.Logf("%d replies lost, %d tokens taken of %d", thief.Stolen(), len(taken), pushed)
}

// Redis hangs for longer than redisdb.CallTimeout. The callers get ErrDown in about a second, the
// tokens come back, and no restart is needed.
func TestRedisHangsAndHeals(t *testing.T) {
	options := Options{Addresses: "redis://" + redistest.Server(t)}
	s, id := open(t, options), identity("hung")
	stock(t, s, id, 3, 0, time.Minute)
	if _, err := s.Take(t.Context(), Request{ID: id}); err != nil {
		t.Fatal(err)
	}
	must(t, s.db.Slow.Do(t.Context(), "client", "pause", "2500", "all").Err())
	began := time.Now()
	if _, err := s.Take(t.Context(), Request{ID: id}); !errors.Is(err, redisdb.ErrDown) {
		t.Fatalf("while it hangs: %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Fatalf("the error came after %v", took)
	}
	began = time.Now()
	if _, err := s.Take(t.Context(), Request{ID: id}); !errors.Is(err, redisdb.ErrDown) || time.Since(began) > 400*time.Millisecond {
		t.Fatalf("the next caller: %v after %v", err, time.Since(began))
	}
	// Two fresh tokens alone prove nothing, because Redis may execute the look before the take.
	testkit.Within(t, 20*time.Second, "both tokens to be back", func() bool {
		got, err := s.Look(t.Context(), id, 0, 0)
		return err == nil && got.Fresh == 2 && got.Figures.Returned == 1
	})
	testkit.Within(t, 20*time.Second, "callers to be told so", func() bool { return s.DB.Health().Up }) // by the next probe of Redis' health
	if _, err := s.Take(t.Context(), Request{ID: id}); err != nil {
		t.Fatalf("after it healed: %v", err)
	}
	if got := look(t, s, id); got.Fresh != 1 {
		t.Fatalf("left: %+v", got)
	}
}

// Redis hangs while a landing is in its socket, and executes the landing later. The token still has
// its true age (promise 2 in docs/operating.md).
func TestLateLandingsAreNoYounger(t *testing.T) {
	address, process := redistest.Process(t)
	s, id := open(t, Options{Addresses: "redis://" + address}), identity("late")
	place(t, s, id, "late")
	signal(t, process, syscall.SIGSTOP)
	landed := make(chan error, 1)
	go func() {
		for {
			_, err := s.Settle(t.Context(), Landing{Ref: Ref{id, "late"}, Value: "v", Lifetime: 10 * time.Second})
			if err == nil || t.Context().Err() != nil {
				landed <- err
				return
			}
		}
	}()
	time.Sleep(3 * time.Second)
	signal(t, process, syscall.SIGCONT)
	must(t, <-landed)
	if got := look(t, s, id); got.Fresh != 1 || got.NextExpiry > 7100*time.Millisecond {
		t.Fatalf("a token of 10 s that landed 3 s late lives for another %v: %+v", got.NextExpiry, got)
	}
}

// If several waits end while Redis hangs, all callers get their answers together, not one caller
// per second.
func TestWaitsThatEndInAHangAreAnsweredTogether(t *testing.T) {
	address, process := redistest.Process(t)
	s, id := open(t, Options{Addresses: "redis://" + address}), identity("together")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if token, err := s.Take(t.Context(), Request{ID: id, Wait: 700 * time.Millisecond, MaxWaiting: 50}); err == nil {
				t.Errorf("took %+v", token)
			}
		})
	}
	testkit.Within(t, 20*time.Second, "20 tickets", func() bool { return look(t, s, id).Waiting == 20 })
	signal(t, process, syscall.SIGSTOP)
	defer signal(t, process, syscall.SIGCONT)
	began := time.Now()
	all.Wait()
	if took := time.Since(began); took > 4*time.Second {
		t.Fatalf("20 callers were answered after %v", took)
	}
}

func signal(t testing.TB, process *os.Process, s syscall.Signal) {
	t.Helper()
	must(t, process.Signal(s))
}
