package pool_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/pool"
	"poold/internal/redisdb"
)

func (r *replica) key(kind string) string { return prefix + ":" + kind + ":{" + string(r.id) + "}" }

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
