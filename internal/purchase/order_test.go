package purchase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/redisdb"
)

// The place at the provider comes before the order, and what was reserved
// lives longer than what it is for.
func TestPlaceReservesFirst(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		o := mustPlace(t, s.buyer, spec())
		s.want(t, "reserve", "place")
		placed := s.stock.placed[o.Ref]
		want := pool.Order{
			Ref: o.Ref, Depth: 10, Margin: 40 * time.Second,
			Lead: 20 * time.Second, TTL: s.provider.limit + 2*callTime, Facts: placed.Facts, NotAfter: placed.NotAfter,
		}
		// What Redis carries out later than that, nobody waits for any more.
		if late := time.UnixMilli(int64(placed.NotAfter)).Sub(o.placed); late > stockTime+clockSlack || late < stockTime+clockSlack-time.Second {
			t.Errorf("the placing may be carried out %v late", late)
		}
		if placed != want {
			t.Errorf("placed %+v, want %+v", placed, want)
		}
		if facts := `{"target":"login","owner":"qa@example.com","provider":"one","identity":{"sitekey":"k","pageurl":"https://example.com/"},` +
			`"type":"recaptcha_v2","lifetime_ms":120000,"margin_ms":40000,"callback_delay_ms":0,"timeout_ms":180000}`; s.stock.facts(o.Ref) != facts {
			t.Errorf("facts %s, want %s", s.stock.facts(o.Ref), facts)
		}
		if len(o.Order) < 26 {
			t.Errorf("order id %q has fewer than 128 bits", o.Order)
		}
	})
}

// Whatever goes wrong in Place, nothing is left behind and the slot is free.
// A reload may come while an order is being placed. The race detector watches.
func TestPlaceDuringAReload(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		slot, err := s.buyer.Admit(t.Context(), Bid{})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 100 {
				s.buyer.SetProviders([]Entry{{Provider: s.provider, Account: "mark", Concurrency: 1}})
			}
		}()
		if _, err := s.buyer.placer.place(t.Context(), slot, spec()); err != nil {
			t.Error(err)
		}
		<-done
	})
}

func TestPlaceLeavesNothingBehind(t *testing.T) {
	away := fmt.Errorf("%w: i/o timeout", redisdb.ErrDown)
	cases := map[string]struct {
		prepare func(s *testBuyer, target *Spec)
		want    error
		steps   []string
	}{
		"depth refuses": {
			func(_ *testBuyer, target *Spec) { target.Depth = 0 }, ErrDepth,
			[]string{"reserve", "place", "release"},
		},
		"buying is paused": {
			func(s *testBuyer, target *Spec) { s.stock.pauseElsewhere(target.ID) }, ErrDepth,
			[]string{"reserve", "place", "release"},
		},
		"redis away": {
			func(s *testBuyer, _ *Spec) { s.stock.fault = func(string) error { return away } }, redisdb.ErrDown,
			nil,
		},
		"redis away at the second step": {
			func(s *testBuyer, _ *Spec) {
				s.stock.fault = func(step string) error {
					if step == "place" {
						return away
					}
					return nil
				}
			}, redisdb.ErrDown,
			[]string{"reserve", "fail bought=false", "release"},
		},
		"answer to reserve lost": {
			func(s *testBuyer, _ *Spec) { s.stock.lostReply = lose("reserve", away) }, redisdb.ErrDown,
			[]string{"reserve", "fail bought=false", "release"},
		},
		"answer to place lost": {
			func(s *testBuyer, _ *Spec) { s.stock.lostReply = lose("place", away) }, redisdb.ErrDown,
			[]string{"reserve", "place", "fail bought=false", "release"},
		},
	}
	for name, c := range cases {
		runBubble(t, name, func(t *testing.T) {
			s := newTestBuyer(t, 1)
			slot, err := s.buyer.Admit(t.Context(), Bid{})
			if err != nil {
				t.Fatal(err)
			}
			target := spec()
			c.prepare(s, &target)
			if _, err := s.buyer.placer.place(t.Context(), slot, target); !errors.Is(err, c.want) {
				t.Errorf("place = %v, want %v", err, c.want)
			}
			s.want(t, c.steps...)
			if orders, places := s.stock.counts(); orders != 0 || places != 0 {
				t.Errorf("left behind: %d orders, %d places", orders, places)
			}
			if taken := s.buyer.slots(); taken[0] != 0 {
				t.Errorf("%d slots taken", taken[0])
			}
		})
	}
}

// lose makes one step's answer vanish.
func lose(step string, err error) func(string) error {
	return func(s string) error {
		if s == step {
			return err
		}
		return nil
	}
}

func TestPlaceAfterTheEndDoesNothing(t *testing.T) {
	withBuyer(t, 1, func(t *testing.T, s *testBuyer) {
		slot, err := s.buyer.Admit(t.Context(), Bid{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.buyer.placer.place(ctx, slot, spec()); !errors.Is(err, context.Canceled) {
			t.Errorf("place = %v, want canceled", err)
		}
		s.want(t)
		if taken := s.buyer.slots(); taken[0] != 0 {
			t.Errorf("%d slots taken", taken[0])
		}
	})
}

// Where other replicas hold all places the order is refused, and the provider
// is left alone for a moment instead of being asked for by everybody at once.
func TestProviderFilledByOtherReplicas(t *testing.T) {
	withBuyer(t, 2, func(t *testing.T, s *testBuyer) {
		ctx := boundedCtx(t)
		for _, foreign := range []string{"a", "b"} {
			if p, err := s.stock.other().Acquire(ctx, "one", pool.Ref{Identity: spec().ID, Order: foreign}, 2, time.Hour, -1); err != nil || !p.OK {
				t.Fatal(p.OK, err)
			}
		}
		slot, _, _ := mustAdmit(t, s.buyer)
		if _, err := s.buyer.placer.place(ctx, slot, spec()); !errors.Is(err, ErrBusy) {
			t.Fatalf("place = %v, want ErrBusy", err)
		}
		if got := s.all(); slices.Contains(got, "place") {
			t.Errorf("an order was placed without a place at the provider: %v", got)
		}
		slot, _, took := mustAdmit(t, s.buyer)
		if took != fullFor {
			t.Errorf("the next admission took %v, want %v", took, fullFor)
		}
		if err := s.stock.other().Release(ctx, "one", pool.Ref{Identity: spec().ID, Order: "a"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.buyer.placer.place(ctx, slot, spec()); err != nil {
			t.Errorf("place = %v after a place came free", err)
		}
	})
}
