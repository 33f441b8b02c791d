package ondemand

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/provider"
)

// savings is a store of savings whose writes fail while the field `failing` is set.
type savings struct {
	failing *atomic.Bool
	sum     map[dedup.SavingsSource]int
	calls   int
}

func (s *savings) Count(ctx context.Context, requests map[dedup.SavingsSource]int) error {
	s.calls++
	if s.failing.Load() || ctx.Err() != nil {
		return errors.New("no connection")
	}
	for source, n := range requests {
		s.sum[source] += n
	}
	return nil
}

// guestCounts is a list of guests whose method Count fails while the field `failing` is set.
type guestCounts struct {
	Guests
	failing          *atomic.Bool
	refused, replays int
	calls            int
}

func (g *guestCounts) Count(ctx context.Context, refused, replays int) error {
	g.calls++
	if g.failing.Load() || ctx.Err() != nil {
		return errors.New("no connection")
	}
	g.refused += refused
	g.replays += replays
	return nil
}

// A failed write loses no count. When the counter ends, it writes the last counts.
func TestCountsSurviveAFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		failing.Store(true)
		s := &savings{failing: &failing, sum: map[dedup.SavingsSource]int{}}
		g := &guestCounts{failing: &failing}
		c := &counter{savings: s, guests: g, log: slog.New(slog.DiscardHandler), requests: map[dedup.SavingsSource]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.run(ctx)
		count := func() {
			c.count(pool.FromPool)
			c.count(FromShared)
			c.countFailure(context.Canceled)
			c.countGuests(3, 2)
			time.Sleep(2 * countEvery)
			synctest.Wait()
		}
		has := func(times int) {
			t.Helper()
			want := map[dedup.SavingsSource]int{dedup.SavedPool: times, dedup.SavedWaiting: times, dedup.SavedMissed: times}
			if times == 0 {
				want = map[dedup.SavingsSource]int{}
			}
			if !maps.Equal(s.sum, want) || g.refused != 3*times || g.replays != 2*times {
				t.Errorf("%v, %d refused, %d replays; want each %d times", s.sum, g.refused, g.replays, times)
			}
		}
		count()
		count()
		has(0)
		time.Sleep(countEvery) // after this time the number of failures is odd
		failing.Store(false)
		count()
		has(3)
		s.calls, g.calls = 0, 0
		time.Sleep(10 * countEvery)
		has(3)
		if s.calls+g.calls > 0 {
			t.Errorf("without anything to count there were %d and %d writes", s.calls, g.calls)
		}
		c.count(pool.FromPool)
		c.count(FromShared)
		c.countFailure(context.Canceled)
		c.countGuests(3, 2)
		cancel()
		synctest.Wait()
		has(4)
	})
}

// Each request is counted once in the figures of the guests and once in the savings. The figures
// and the savings show the same number of replays.
func TestEachRequestCountsOnce(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		asked := 0
		ask := func(ctx context.Context, replica, n int, r Request) *answers {
			asked += n
			return new(answers).call(ctx, w.replicas[replica], n, r)
		}
		one, two := w.replicas[0], w.replicas[1]
		ask(t.Context(), 0, 3, request("solved")).calls.Wait()
		// A caller hangs up, and its token waits for the next caller.
		leaving, leave := context.WithTimeout(t.Context(), 3*time.Second)
		ask(leaving, 1, 1, request("left")).calls.Wait()
		leave()
		time.Sleep(20 * time.Second)
		ask(t.Context(), 0, 1, request("left")).calls.Wait()
		// Callers at both replicas share an Idempotency-Key, at the same time and later.
		keyed := request("keyed")
		keyed.Take.Idempotency = "caller\x00k"
		together, elsewhere := ask(t.Context(), 0, 4, keyed), ask(t.Context(), 1, 2, keyed)
		together.calls.Wait()
		elsewhere.calls.Wait()
		ask(t.Context(), 1, 2, keyed).calls.Wait()
		// No token comes in time, and the orders fail.
		short := request("short")
		short.Take.Wait = 2 * time.Second
		ask(t.Context(), 0, 2, short).calls.Wait()
		w.service.with(func() { w.service.fail = true })
		ask(t.Context(), 1, 2, request("failing")).calls.Wait()
		w.service.with(func() { w.service.fail = false })
		// The provider is down. Later the provider rejects the parameters. Finally the guest's rate
		// limit is reached.
		w.service.with(func() { w.service.down = true })
		ask(t.Context(), 0, 2, request("down")).calls.Wait()
		w.service.with(func() {
			w.service.down, w.service.refuse = false, &provider.Error{Class: provider.Parameters, Code: "ERROR_SITEKEY"}
		})
		ask(t.Context(), 0, 2, request("refused")).calls.Wait()
		ask(t.Context(), 0, 3, request("refused")).calls.Wait()
		w.service.with(func() { w.service.refuse = nil })
		limited := request("limited")
		limited.Guest.Use.Rate, limited.Guest.Use.RatePer = 1, time.Hour
		ask(t.Context(), 1, 2, limited).calls.Wait()
		// A replica stops, and its callers get an error.
		stopped := ask(t.Context(), 1, 2, request("stopped"))
		time.Sleep(time.Second)
		w.end(two)
		stopped.calls.Wait()

		by := w.sumSavings(t)
		var saved int64
		for _, n := range by {
			saved += n
		}
		stock, err := one.store.Guests.Survey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f := stock.Figures
		if saved != int64(asked) || by[""] != 0 || by[dedup.SavedMissed] == 0 || by[dedup.SavedRefused] == 0 {
			t.Errorf("%d requests are counted as %v", asked, by)
		}
		if f.Requests != f.Hits+f.Waited+f.Misses+f.Refused || stock.Waiting != 0 {
			t.Errorf("%d requests ended as %d hits, %d waited, %d misses and %d refused; %d wait",
				f.Requests, f.Hits, f.Waited, f.Misses, f.Refused, stock.Waiting)
		}
		if f.Replays != by[dedup.SavedReplay] || f.Requests+f.Replays != int64(asked) {
			t.Errorf("%d requests and %d replays of %d; the savings have %d replays", f.Requests, f.Replays, asked, by[dedup.SavedReplay])
		}
	})
}
