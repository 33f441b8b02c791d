package ondemand

import (
	"context"
	"testing"
	"time"

	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/provider"
)

// Each request is counted once in the figures of the guests and once in the savings, and both have the
// same replays.
func TestEachRequestCountsOnce(t *testing.T) {
	play(t, 2, func(t *testing.T, w *scenario) {
		asked := 0
		ask := func(ctx context.Context, replica, n int, r Request) *answers {
			asked += n
			return new(answers).call(ctx, w.replicas[replica], n, r)
		}
		one, two := w.replicas[0], w.replicas[1]
		ask(t.Context(), 0, 3, request("solved")).calls.Wait()
		// A caller hangs up; its token waits for the next one.
		leaving, leave := context.WithTimeout(t.Context(), 3*time.Second)
		ask(leaving, 1, 1, request("left")).calls.Wait()
		leave()
		time.Sleep(20 * time.Second)
		ask(t.Context(), 0, 1, request("left")).calls.Wait()
		// Callers share an Idempotency-Key, at the same time and later, at both replicas.
		keyed := request("keyed")
		keyed.Take.Idempotency = "caller\x00k"
		together, elsewhere := ask(t.Context(), 0, 4, keyed), ask(t.Context(), 1, 2, keyed)
		together.calls.Wait()
		elsewhere.calls.Wait()
		ask(t.Context(), 1, 2, keyed).calls.Wait()
		// No token comes in time; the orders fail.
		short := request("short")
		short.Take.Wait = 2 * time.Second
		ask(t.Context(), 0, 2, short).calls.Wait()
		w.service.with(func() { w.service.fail = true })
		ask(t.Context(), 1, 2, request("failing")).calls.Wait()
		w.service.with(func() { w.service.fail = false })
		// The provider is down, then rejects the parameters; a rate is used up.
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
		// A replica stops; its callers get an error.
		stopped := ask(t.Context(), 1, 2, request("stopped"))
		time.Sleep(time.Second)
		w.end(two)
		stopped.calls.Wait()

		by := w.counted(t)
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

// A shared solve whose first caller gave up counts as bought for the first caller that gets its token,
// at any replica.
func TestASharedSolveWithoutItsFirstCaller(t *testing.T) {
	for _, later := range []time.Duration{0, 20 * time.Second} {
		play(t, 2, func(t *testing.T, w *scenario) {
			leaving, leave := context.WithTimeout(t.Context(), 3*time.Second)
			defer leave()
			var first, others answers
			first.call(leaving, w.replicas[0], 1, sharing(request("x")))
			time.Sleep(time.Second + later)
			others.call(t.Context(), w.replicas[1], 3, sharing(request("x"))).calls.Wait()
			first.calls.Wait()
			if len(first.errs) != 1 || others.sources[FromSolve]+others.sources[pool.FromPool] != 1 || others.sources[FromShared] != 2 || w.service.sold() != 1 {
				t.Errorf("after %v: %v, the others %v, %d bought", later, first.errs, others.sources, w.service.sold())
			}
			by := w.counted(t)
			if by[dedup.SavedMissed] != 1 || by[dedup.SavedSolve]+by[dedup.SavedPool] != 1 || by[dedup.SavedWaiting]+by[dedup.SavedAfter] != 2 {
				t.Errorf("after %v: counted %v", later, by)
			}
		})
	}
}
