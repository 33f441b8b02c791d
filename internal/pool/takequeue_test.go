package pool

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

// size is how many queues a replica keeps.
func (s *replica) size() int { return len(s.all()) }

// A queue is forgotten when nobody used it for a minute, not while somebody waits in
// it, and the next caller finds a new one.
func TestIdleQueuesAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, s, _ *replica, id captcha.ID) {
		stock(t, s, id, 3, 0, time.Hour)
		take(t, s, Request{ID: id}, 1)
		waiting := identity("somebody waits")
		patient := parkOne(t, s, Request{ID: waiting, Wait: 10 * time.Minute, MaxWaiting: 5})
		time.Sleep(queueIdle - time.Second)
		if n := s.size(); n != 2 {
			t.Errorf("%d queues after less than a minute", n)
		}
		time.Sleep(queueIdle + 2*time.Second)
		if n := s.size(); n != 1 {
			t.Errorf("%d queues when one was idle for a minute, and somebody waits in the other", n)
		}
		take(t, s, Request{ID: id}, 1)
		if n := s.size(); n != 2 {
			t.Errorf("%d queues after another take", n)
		}
		stock(t, s, waiting, 1, 0, time.Hour)
		if got := <-patient; got.err != nil {
			t.Errorf("who waited got %v", got.err)
		}
		time.Sleep(2*queueIdle + time.Second)
		if n := s.size(); n != 0 {
			t.Errorf("%d queues are kept", n)
		}
		if got := look(t, s, id); got.Fresh != 1 || got.Figures.Hits != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// Callers that come in the moment in which their queue is forgotten are served, each
// once, and never by two calls at the same time: the older one would be refused.
func TestTakesWhileQueuesAreForgotten(t *testing.T) {
	const callers, each = 8, 100
	s, id := open(t, Options{Addresses: "redis://" + redistest.Server(t)}), identity("forgotten")
	stock(t, s, id, callers*each, 0, time.Minute)
	over, forgotten := make(chan struct{}), 0
	var forgetting, all sync.WaitGroup
	forgetting.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				s.forget(time.Now(), 0)
				if s.size() == 0 {
					forgotten++
				}
			}
		}
	})
	var mu sync.Mutex
	taken := map[string]bool{}
	for range callers {
		all.Go(func() {
			for range each {
				token, err := s.Take(t.Context(), Request{ID: id})
				mu.Lock()
				if err != nil || taken[token.Value] {
					t.Errorf("took %q, %v", token.Value, err)
				}
				taken[token.Value] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	close(over)
	forgetting.Wait()
	if len(taken) != callers*each || forgotten == 0 {
		t.Errorf("%d taken while queues were forgotten %d times", len(taken), forgotten)
	}
}

// hanging is a connection to a Redis that hangs at looks.
type hanging struct{ net.Conn }

func (d hanging) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(loadScripts(0).Get("look").Hash())) {
		return len(b), nil
	}
	return d.Conn.Write(b)
}

// Who found nothing shares a look that says when to come again. Redis hangs at it: one
// who hangs up leaves at once, and does not spoil it for the others.
func TestALookThatHangsHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := redistest.InBubble(t)
		s := open(t, Options{Addresses: "redis://bubble", Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := redis.Dial(ctx, network, addr)
			return hanging{conn}, err
		}})
		id, began := identity("hangs"), time.Now()
		ctx, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, hangUp)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				if i%2 == 0 {
					_, err := s.Take(ctx, Request{ID: id})
					if held := time.Since(began); !errors.Is(err, context.Canceled) || held != 100*time.Millisecond {
						t.Errorf("who hung up got %v after %v", err, held)
					}
					return
				}
				_, err := s.Take(t.Context(), Request{ID: id})
				if held := time.Since(began); !errors.Is(err, redisdb.ErrDown) || held != time.Second {
					t.Errorf("who stayed got %v after %v", err, held)
				}
			})
		}
		all.Wait()
	})
}
