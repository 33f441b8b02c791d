package pool

import (
	"context"
	"errors"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

// Each request counts once, whatever its result. Replays of an Idempotency-Key, conflicts and
// requests over the rate do not count.
func testEachRequestCountsOnce(t *testing.T, o Options) {
	s, id, limited := open(t, o), identity("told"), identity("limited")
	check := func(what string, id captcha.ID, want int64) {
		t.Helper()
		if counted := look(t, s, id).Figures.Requests; counted != want {
			t.Errorf("%s: Redis has counted %d, want %d", what, counted, want)
		}
	}
	empty := (*EmptyError)(nil)
	if _, err := s.Take(t.Context(), Request{ID: id}); !errors.As(err, &empty) {
		t.Fatal(err)
	}
	stock(t, s, id, 3, 0, time.Minute)
	take(t, s, Request{ID: id}, 1)
	take(t, s, Request{ID: id, MinTTL: time.Second}, 1)
	check("a miss and two hits", id, 3)
	once := Request{ID: id, Idempotency: "key", MinTTL: time.Second}
	take(t, s, once, 1)
	if token := take(t, s, once, 1)[0]; token.Source != FromReplay {
		t.Errorf("the second one is from %s", token.Source)
	}
	once.MinTTL = 2 * time.Second
	if _, err := s.Take(t.Context(), once); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	check("a hit, its replay, and a conflict", id, 4)

	waits := parkOne(t, s, Request{ID: id, Wait: time.Minute, MaxWaiting: 9})
	check("one that waits", id, 5)
	stock(t, s, id, 1, 0, time.Minute)
	if got := <-waits; got.err != nil {
		t.Error(got.err)
	}
	check("and got one", id, 5)
	if _, err := s.Take(t.Context(), Request{ID: id, Wait: 20 * time.Millisecond, MaxWaiting: 9}); !errors.As(err, &empty) {
		t.Error(err)
	}
	if _, err := s.Take(t.Context(), Request{ID: id, Wait: time.Second}); !errors.As(err, &empty) || !empty.Full {
		t.Error(err)
	}
	check("two that wait in vain", id, 7)
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := s.Take(ctx, Request{ID: id, Wait: time.Minute, MaxWaiting: 9})
		gone <- err
	}()
	testkit.Within(t, 20*time.Second, "somebody waits", func() bool { return look(t, s, id).Waiting == 1 })
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	check("one that hangs up", id, 8)

	stock(t, s, limited, 2, 0, time.Minute)
	rated, over := Request{ID: limited, Rate: 1, RatePer: time.Hour}, (*RateError)(nil)
	take(t, s, rated, 1)
	if _, err := s.Take(t.Context(), rated); !errors.As(err, &over) {
		t.Error(err)
	}
	rated.MinTTL = time.Second
	if _, err := s.Take(t.Context(), rated); !errors.As(err, &over) {
		t.Error(err)
	}
	check("one hit and two over the rate", limited, 1)
}
