package pool

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// testMemory uses the rights that package purchase and the health check need.
func testMemory(t *testing.T, o Options) {
	s, id := open(t, o), identity("m")
	testkit.Within(t, 20*time.Second, "reviewed", func() bool { return len(s.DB.Health().Notices) > 0 })
	if h := s.DB.Health(); !h.Up || h.Reason != "" || len(h.Notices) != 1 || !strings.Contains(h.Notices[0], "append-only") {
		t.Errorf("health of a server without AOF: %+v", h)
	}
	if err := s.Remember(t.Context(), id, []byte("x")); err != nil {
		t.Error(err)
	}
	if got, err := s.Recall(t.Context(), id); err != nil || string(got) != "x" {
		t.Error(got, err)
	}
	place(t, s, id, "o")
	if _, found, err := s.Find(t.Context(), Ref{id, "o"}); err != nil || !found {
		t.Error(found, err)
	}
	if _, _, err := s.Booked(t.Context(), Overall); err != nil {
		t.Error(err)
	}
}

// If poold's Redis user has no right to the channel, all calls still succeed.
func TestWithoutTheRightToTheChannel(t *testing.T) {
	t.Parallel()
	var words []string
	for _, word := range redistest.Rights(t) {
		if !strings.HasPrefix(word, "&") {
			words = append(words, word)
		}
	}
	addr := redistest.Server(t, append([]string{"--user"}, words...)...)
	var changes atomic.Int64
	s, id := open(t, Options{
		Addresses: "redis://poold:" + redistest.Password + "@" + addr,
		OnChange:  func(captcha.ID) { changes.Add(1) },
	}), identity("a")
	s.DB.AwaitProbe(t.Context())
	if h := s.DB.Health(); !h.Up || h.Reason != "" {
		t.Errorf("without the channel: %+v", h)
	}
	ctx := t.Context()
	for what, do := range map[string]func() error{
		"pause":  func() error { return s.Pause(ctx, id, Pause{By: "me"}) },
		"resume": func() error { return s.Resume(ctx, id) },
		"flush":  func() error { _, err := s.Flush(ctx, id, 0); return err },
	} {
		before := changes.Load()
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if changes.Load() == before {
			t.Errorf("%s: this replica itself did not hear of it", what)
		}
	}
	if err := s.Resume(ctx, id); err != nil { // the calls above come in a random order
		t.Fatal(err)
	}
	// The following calls make scripts publish messages: a landing and a return while a caller
	// waits, and a callback that ends an order.
	waits := func(order string) {
		got := make(chan error, 1)
		go func() {
			_, err := s.Take(t.Context(), Request{ID: id, Wait: 5 * time.Second, MaxWaiting: 9})
			got <- err
		}()
		testkit.Within(t, 20*time.Second, "somebody waits", func() bool { return look(t, s, id).Waiting == 1 })
		place(t, s, id, order)
		land(t, s, id, order, 0, time.Minute)
		if err := <-got; err != nil {
			t.Errorf("the waiter: %v", err)
		}
	}
	waits("one")
	place(t, s, id, "two")
	if how, err := s.Fail(ctx, Failure{Ref: Ref{id, "two"}, Bought: true, Callback: true, Message: "x"}); err != nil || how != Ended {
		t.Errorf("an end by a callback: %v, %v", how, err)
	}
	place(t, s, id, "three")
	if how, err := s.Settle(ctx, Landing{Ref: Ref{id, "three"}, Value: "v", Lifetime: time.Minute, Callback: true}); err != nil || how != Ended {
		t.Errorf("a landing by a callback: %v, %v", how, err)
	}
	token, err := s.Take(ctx, Request{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	parkOne(t, s, Request{ID: id, MinTTL: time.Hour, Wait: 20 * time.Second, MaxWaiting: 5})
	giveBack(t, s, token) // while a caller waits
	if _, err := s.Take(ctx, Request{ID: id}); err != nil && !errors.Is(err, redisdb.ErrDown) {
		t.Errorf("the returned token: %v", err)
	}
	s.EndWaits()
}
