package pool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

// requests records the calls of OnRequest.
type requests struct {
	mu   sync.Mutex
	came map[captcha.ID][]time.Time
}

func (r *requests) note(id captcha.ID, came time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.came == nil {
		r.came = map[captcha.ID][]time.Time{}
	}
	r.came[id] = append(r.came[id], came)
}

func (r *requests) of(id captcha.ID) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.came[id])
}

// OnRequest is called for each request that Redis counts, whatever the result of the request.
// OnRequest gets the time of the request's arrival, and is called before the wait ends.
func testOnRequestReportsEachRequest(t *testing.T, o Options) {
	var told requests
	o.OnRequest = told.note
	s, id, limited := open(t, o), identity("told"), identity("limited")
	check := func(what string, id captcha.ID, want int64) {
		t.Helper()
		// OnRequest is called shortly after the reply, and a caller that hangs up does not wait for the
		// call of OnRequest.
		testkit.Within(t, 20*time.Second, what+": all to be told", func() bool { return int64(len(told.of(id))) >= want })
		if counted, n := look(t, s, id).Figures.Requests, int64(len(told.of(id))); counted != want || n != want {
			t.Errorf("%s: Redis has counted %d, and %d were told; want %d", what, counted, n, want)
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

	before := time.Now()
	waits := parkOne(t, s, Request{ID: id, Wait: time.Minute, MaxWaiting: 9})
	check("one that waits", id, 5)
	if came := told.of(id)[4]; came.Before(before) || came.After(time.Now()) {
		t.Errorf("it came at %v, not after %v", came, before)
	}
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
