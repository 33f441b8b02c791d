package pool

import (
	"context"
	"errors"
	"testing"
	"time"

	"poold/internal/redisdb"
)

// Repeat returns the token of an Idempotency-Key without a take. Parked is called for a caller with a
// ticket.
func testRepeatReturnsTheTokenOfAKey(t *testing.T, o Options) {
	s, id := open(t, o), identity("repeat")
	if _, known, err := s.Repeat(t.Context(), id, "caller\x00k", "caller\x00"); known || err != nil {
		t.Fatalf("before: %v, %v", known, err)
	}
	parked, got := make(chan struct{}), make(chan Token, 1)
	go func() {
		token, err := s.Take(t.Context(), Request{
			ID: id, Idempotency: "caller\x00k", Caller: "caller\x00", Wait: 20 * time.Second, MaxWaiting: 9, Parked: func() { close(parked) },
		})
		if err != nil {
			t.Error(err)
		}
		got <- token
	}()
	<-parked
	if waiting := look(t, s, id).Waiting; waiting != 1 {
		t.Fatalf("%d wait", waiting)
	}
	// Parked is called immediately for a caller that joins a ticket.
	second := make(chan struct{})
	if _, err := s.Take(t.Context(), Request{
		ID: id, Idempotency: "caller\x00k", Caller: "caller\x00", Wait: time.Millisecond, MaxWaiting: 9, Parked: func() { close(second) },
	}); !isEmpty(err) {
		t.Fatalf("the second: %v", err)
	}
	<-second
	stock(t, s, id, 1, 0, time.Minute)
	token := <-got
	again, known, err := s.Repeat(t.Context(), id, "caller\x00k", "caller\x00")
	if err != nil || !known || again.Value != token.Value || again.ID != token.ID || again.Source != FromReplay || !again.Born.Equal(token.Born) ||
		again.TTL <= 0 || again.TTL > time.Minute {
		t.Fatalf("%+v, %v, %v; was %+v", again, known, err, token)
	}
	if f := look(t, s, id).Figures; f.Requests != 1 || f.Waited != 1 || f.Replays != 0 {
		t.Fatalf("figures: %+v", f)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, known, err := s.Repeat(gone, id, "caller\x00k", "caller\x00"); !errors.Is(err, redisdb.ErrDown) || known {
		t.Fatalf("without an answer: %v", err)
	}
}
