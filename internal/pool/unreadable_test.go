package pool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/redisdb"
)

func (r *replica) key(kind string) string { return prefix + ":" + kind + ":{" + string(r.id) + "}" }

// replyToScript makes Redis reply with a list of texts to the n-th call of a script.
func (r *replica) replyToScript(n int, texts ...string) (replied func() bool) {
	reply := fmt.Sprintf("*%d\r\n", len(texts))
	for _, text := range texts {
		reply += fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	var mu sync.Mutex
	seen := 0
	r.redis.SetAnswer(func(command string, _ []string) string {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(command, "EVAL") {
			return ""
		}
		if seen++; seen != n+1 {
			return ""
		}
		return reply
	})
	return func() bool {
		r.redis.SetAnswer(nil)
		mu.Lock()
		defer mu.Unlock()
		return seen > n
	}
}

// If a reply does not match the script's header, the call returns an error. Take returns
// redisdb.ErrDown; other calls return a different error. Such a reply deletes no figures of a
// guest. Heartbeat accepts any texts as names of replicas, and LastLook ignores its reply.
func TestUnreadableRepliesAreErrors(t *testing.T) {
	for name, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			r := newReplica(t)
			before, err := r.Guests.Survey(t.Context())
			must(t, err)
			for n, more := 0, true; more; n++ {
				r.restart(t)
				replied := r.replyToScript(n, "x")
				err := call(t.Context(), r)
				more = replied()
				repeats := name == "Guests.Retire" || name == "Guests.HandOver" // the failed steps are repeated later
				switch {
				case !more || name == "Replicas.Heartbeat" || name == "Tokens.LastLook" || repeats && err == nil:
					if err != nil {
						t.Errorf("%s, reply %d: %v", name, n, err)
					}
				case name == "Tokens.Take":
					if !errors.Is(err, redisdb.ErrDown) {
						t.Errorf("%s, reply %d: %v", name, n, err)
					}
				case err == nil || errors.Is(err, redisdb.ErrDown) || !strings.Contains(err.Error(), ".lua") && !strings.Contains(err.Error(), "a script"):
					t.Errorf("%s, reply %d: %v", name, n, err)
				}
				after, err := r.Guests.Survey(t.Context())
				if err != nil || repeats && after.Figures != before.Figures {
					t.Errorf("%s, reply %d: the guests were %+v, and are %+v, %v", name, n, before, after, err)
				}
			}
		})
	}
}

// An unreadable reply to a take ends the take and is logged as an error. The next take succeeds.
func TestUnreadableRepliesToTakesAreLogged(t *testing.T) {
	for _, reply := range [][]string{{"x"}, {"x", "0"}, {"1", "x"}} {
		synctest.Test(t, func(t *testing.T) {
			r := newReplica(t)
			replied := r.replyToScript(0, reply...)
			if _, err := r.Tokens.Take(t.Context(), pool.Request{ID: r.id}); !errors.Is(err, redisdb.ErrDown) || !replied() {
				t.Errorf("%q: %v", reply, err)
			}
			if r.log.Count("level=ERROR", "unreadable reply to a take", "identity="+string(r.id)) != 1 {
				t.Errorf("%q: the log has %s", reply, r.log)
			}
			if _, err := r.Tokens.Take(t.Context(), pool.Request{ID: r.id}); err != nil {
				t.Errorf("after %q: %v", reply, err)
			}
		})
	}
}

// A take that gets a token with an unreadable field fails, and its error does not contain the
// token. The same is true for Repeat with the take's Idempotency-Key. The next take gets the next
// token.
func TestUnreadableTokensAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, now := newReplica(t), time.Now().UnixMilli()
		for _, agent := range []string{"%zz", "%2"} {
			_, err := r.redis.Lpush(r.key("pool"), fmt.Sprintf("%d|%d|order|p|%s|canary", now+60_000, now, agent))
			must(t, err)
		}
		unreadable := func(what string, err error) {
			t.Helper()
			if err == nil || errors.Is(err, redisdb.ErrDown) || !strings.Contains(err.Error(), "not escaped") || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := r.Tokens.Take(t.Context(), pool.Request{ID: r.id})
		unreadable("a take", err)
		_, err = r.Tokens.Take(t.Context(), pool.Request{ID: r.id, Idempotency: "mine"})
		unreadable("a take with a key", err)
		_, known, err := r.Tokens.Repeat(t.Context(), r.id, "mine", "c")
		unreadable("its repetition", err)
		if known {
			t.Error("an unreadable token is known")
		}
		if token, err := r.Tokens.Take(t.Context(), pool.Request{ID: r.id}); err != nil || token.Value == "" {
			t.Errorf("the next take: %+v, %v", token, err)
		}
	})
}

// If the journal line of one order is unreadable, the other orders are still adopted and listed.
func TestUnreadableOrdersHideNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, ctx := newReplica(t), t.Context()
		fields := strings.SplitN(r.redis.HGet(r.key("journal"), "order"), "|", 7)
		fields[5] = "%zz" // the task
		r.redis.HSet(r.key("journal"), "order", strings.Join(fields, "|"))
		time.Sleep(pool.Lease)
		adopted, gone, err := r.Orders.Adopt(ctx, r.id, []string{"order", "intent", "gone"})
		if err == nil || errors.Is(err, redisdb.ErrDown) || !strings.Contains(err.Error(), "not escaped") {
			t.Errorf("adopting: %v", err)
		}
		if len(adopted) != 1 || adopted[0].Ref != r.intent || len(gone) != 1 || gone[0].Order != "gone" {
			t.Errorf("adopted %+v; gone are %v", adopted, gone)
		}
		found, err := r.Orders.FindAll(ctx, []pool.Ref{r.order, r.intent})
		if err != nil || len(found) != 1 || found[0].Ref != r.intent {
			t.Errorf("found %+v, %v", found, err)
		}
		if _, there, err := r.Orders.Find(ctx, r.order); there || err == nil {
			t.Errorf("finding it: %v, %v", there, err)
		}
	})
}

// An unreadable record of an ended order is removed and logged once. The other records are
// returned.
func TestUnreadableEndsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, ctx := newReplica(t), t.Context()
		want, _, err := r.Endings.Kept(ctx, []captcha.ID{r.id}, 9)
		must(t, err)
		for _, line := range []string{"junk", strings.Repeat("%zz|", 20)} {
			_, err := r.redis.ZAdd(r.key("ended"), 1, line)
			must(t, err)
		}
		for range 2 {
			got, unread, err := r.Endings.Kept(ctx, []captcha.ID{r.id}, 9)
			if err != nil || len(unread) > 0 || !slices.Equal(got, want) {
				t.Errorf("kept %+v, %v, %v; want %+v", got, unread, err, want)
			}
			if n := r.log.Count("level=ERROR", "dropped an unreadable end of an order", "identity="+string(r.id)); n != 2 {
				t.Errorf("%d lines are logged:\n%s", n, r.log)
			}
		}
		if lines, err := r.redis.ZMembers(r.key("ended")); err != nil || len(lines) != len(want) {
			t.Errorf("left: %q, %v", lines, err)
		}
	})
}

// A report on a sale with an unreadable task is an error, because poold cannot pass the report on to
// the provider.
func TestUnreadableSalesAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t)
		name := r.key("sold") + ":" + r.sold.Order
		sale, err := r.redis.Get(name)
		must(t, err)
		must(t, r.redis.Set(name, strings.Replace(sale, "|p|t", "|p|%zz", 1)))
		_, err = r.Tokens.Report(t.Context(), r.id, r.sold.ID, "c", true)
		if err == nil || !strings.Contains(err.Error(), "a sale's task") {
			t.Errorf("%v", err)
		}
	})
}

// If a key expires between two commands of a call, the call succeeds. A task then counts as
// unclaimed, and the token of a first holder counts as dead.
func TestKeysExpireBetweenTwoCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, ctx := newReplica(t), t.Context()
		r.redis.SetAnswer(func(command string, args []string) string {
			if command == "GET" {
				r.redis.Del(args[0])
			}
			return ""
		})
		if mine, err := r.Orders.ClaimTask(ctx, "p", "task", r.order, time.Minute); err != nil || !mine {
			t.Errorf("the task: %v, %v", mine, err)
		}
		if first, err := r.Tokens.FirstHolder(ctx, r.id, r.sold, "0"); err != nil || first {
			t.Errorf("the first holder: %v, %v", first, err)
		}
	})
}

// While the health check says that Redis is down, calls of the hot path fail immediately.
func TestCallsFailAtOnceDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		time.Sleep(5 * time.Second)
		r.redis.SetDown(true)
		time.Sleep(5 * time.Second)
		for _, name := range []string{"Tokens.Take", "Tokens.Repeat", "Tokens.FirstHolder", "Tokens.LookAll"} {
			began := time.Now()
			if err := calls[name](t.Context(), r); !errors.Is(err, redisdb.ErrDown) || time.Since(began) > 0 {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		}
		stop()
		running.Wait()
		r.redis.SetDown(false)
		time.Sleep(3 * time.Second) // until go-redis' goroutines end
	})
}

// A closed store refuses every take, with or without a wait.
func TestAClosedStoreRefusesTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t)
		_, err := r.Tokens.Take(t.Context(), pool.Request{ID: r.id})
		must(t, err)
		must(t, r.Close())
		for _, wait := range []time.Duration{0, time.Minute} {
			if _, err := r.Tokens.Take(t.Context(), pool.Request{ID: r.id, Wait: wait, MaxWaiting: 9}); !errors.Is(err, pool.ErrClosed) {
				t.Errorf("a wait of %v: %v", wait, err)
			}
		}
	})
}

// A store with an invalid address cannot be opened. The error does not contain the address.
func TestInvalidAddressesAreRefused(t *testing.T) {
	s, err := pool.Open(pool.Options{Addresses: "redis://:canary@host:port", Log: slog.New(slog.DiscardHandler)})
	if err == nil || s != nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v, %v", s, err)
	}
	s, err = pool.Open(pool.Options{Addresses: "http://host", Log: slog.New(slog.DiscardHandler)})
	if err == nil || s != nil || !strings.Contains(err.Error(), "redis address 1: ") {
		t.Errorf("%v, %v", s, err)
	}
}
