package purchase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/spool"
)

// partialStock is a stock that does not answer for some identities.
type partialStock struct {
	Orders
	away  map[captcha.ID]bool
	asked []captcha.ID
}

func (p *partialStock) Find(ctx context.Context, order pool.Ref) (pool.Record, bool, error) {
	p.asked = append(p.asked, order.Identity)
	if p.away[order.Identity] {
		return pool.Record{}, false, redisdb.ErrDown
	}
	return p.Orders.Find(ctx, order)
}

// keepLetters places orders for a separate target and stores dead letters with their tokens.
func (r *replica) keepLetters(t *testing.T, name string, letters int) captcha.ID {
	t.Helper()
	target := spec()
	target.Identity.Sitekey = name
	target.ID = target.Identity.ID()
	for i := range letters {
		slot, err := r.buyer.Admit(t.Context(), Bid{})
		if err != nil {
			t.Fatal(err)
		}
		o, err := r.buyer.placer.place(t.Context(), slot, target)
		if err != nil {
			t.Fatal(err)
		}
		slot.Free() // no goroutine collects the order
		task := fmt.Sprint(name, i)
		if ok, err := r.store.MarkSubmitting(t.Context(), o.Ref); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if ok, err := r.store.Submitted(t.Context(), o.Ref, task); err != nil || !ok {
			t.Fatal(ok, err)
		}
		at := time.Now()
		if err := r.buyer.callbacks.kept.Keep(spool.Letter{
			Order: o.String(), Identity: target.ID, Provider: "one", Task: task, Token: "03AF" + task,
			Arrived: at, Until: at.Add(time.Hour),
		}); err != nil {
			t.Fatal(err)
		}
	}
	return target.ID
}

// A dead letter that cannot be delivered does not block other letters, even if it is the oldest. If
// Redis does not answer for many identities, each replay tries a different part of them.
func TestAStuckLetterBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble := redistest.InBubble(t)
		r := newReplica(t, pool.Options{Dial: bubble.Dial})
		r.buyer.SetProviders([]Entry{{Provider: newFakeProvider(r.ledger, "one"), Concurrency: 100}})
		p := &partialStock{Orders: r.store, away: map[captcha.ID]bool{}}
		r.buyer.stock = p
		for i := range 12 {
			p.away[r.keepLetters(t, fmt.Sprint("dead", i), 2)] = true
			time.Sleep(time.Second)
		}
		for i := range 12 {
			r.keepLetters(t, fmt.Sprint("alive", i), 1)
			time.Sleep(time.Second)
		}
		replay := func() (Replayed, error) {
			t.Helper()
			p.asked = nil
			got, err := r.buyer.Replay(t.Context())
			row := 0
			for i, id := range p.asked {
				if row++; !p.away[id] {
					row = 0
				}
				if row > maxStuck || p.away[id] && slices.Contains(p.asked[:i], id) {
					t.Errorf("asked too much: %v", p.asked)
				}
			}
			if row < maxStuck && got.Left > 0 {
				// This replay tried all letters, so it tried each unreachable identity.
				for id := range p.away {
					if !slices.Contains(p.asked, id) {
						t.Errorf("%s was not tried", id)
					}
				}
			}
			time.Sleep(replayEvery)
			return got, err
		}
		got, err := replay()
		if want := (Replayed{Replayed: 12, Left: 24, Reason: others}); err != nil || got != want {
			t.Errorf("replay = %+v, %v, want %+v", got, err, want)
		}
		// Together, the next three replays try each unreachable identity.
		turns := map[captcha.ID]bool{}
		for range 3 {
			if got, err := replay(); !errors.Is(err, redisdb.ErrDown) || got != (Replayed{Left: 24}) || len(p.asked) != maxStuck {
				t.Errorf("replay = %+v, %v after %d questions", got, err, len(p.asked))
			}
			for _, id := range p.asked {
				turns[id] = true
			}
		}
		if len(turns) != 12 {
			t.Errorf("%d of 12 had their turn", len(turns))
		}
		// Redis answers again for half of the identities, and their letters are delivered soon.
		back := 0
		for id := range p.away {
			if back++; back <= 6 {
				delete(p.away, id)
			}
		}
		for range 3 {
			_, _ = replay()
		}
		if n := r.buyer.DeadLetterCount(); n != 12 {
			t.Errorf("%d letters are left, want the 12 of those that are away", n)
		}
		clear(p.away)
		for r.buyer.DeadLetterCount() > 0 {
			if got, err := r.buyer.Replay(t.Context()); err != nil || got.Replayed == 0 {
				t.Fatalf("replay = %+v, %v", got, err)
			}
		}
		if n := len(r.buyer.replay.stuck); n != 0 {
			t.Errorf("%d identities are still taken to be away", n)
		}
		if told := slices.DeleteFunc(r.all(), func(e string) bool { return e != "letter replayed" }); len(told) != 36 {
			t.Errorf("%d letters were observed", len(told))
		}
	})
}

const others = "redis does not take the others now"
