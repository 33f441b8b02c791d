package ondemand

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
)

// A shared token is handed out only while it outlives the caller's margin, even if the store still
// shares it.
func TestAnExpiredTokenIsNotShared(t *testing.T) {
	for name, c := range map[string]struct {
		left time.Duration
		ok   bool
	}{
		"alive":             {time.Minute, true},
		"within the margin": {5 * time.Second, false},
		"expired":           {-time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			dies := time.Now().Add(c.left)
			value := encodeToken(pool.Token{Order: "o", Value: "v", Dies: dies, TTL: c.left}, time.Minute)
			got := readEnd(dedup.Claim{State: dedup.ClaimShared, Left: 50 * time.Second, Value: value}, 10*time.Second)
			var expired *SolveError
			if c.ok != (got.err == nil) || !c.ok && !errors.As(got.err, &expired) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// The claim store keeps all fields of a token, but reduces its TTL by the time since the end of the
// solve. Replicas of other versions write and read the same text.
func TestATokenSurvivesTheClaimStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC().Round(0)
		token := pool.Token{
			ID: "of the holder", Order: "order", Value: "value", Provider: "provider", UserAgent: "agent", Source: FromSolve,
			Born: now.Add(-30 * time.Second), Dies: now.Add(90 * time.Second), TTL: 90 * time.Second,
		}
		want := token
		want.ID, want.Order, want.Source = "order", "", FromShared
		const lasts = 50 * time.Second
		text := encodeToken(token, lasts)
		stored := fmt.Sprintf(`{"token":{"order":"order","value":"value","provider":"provider","user_agent":"agent",`+
			`"born":%d,"dies":%d,"ttl_ms":90000,"shared_ms":50000}}`, token.Born.UnixMilli(), token.Dies.UnixMilli())
		if string(text) != stored {
			t.Errorf("stored: %s\nwant    %s", text, stored)
		}
		for left, ttl := range map[time.Duration]time.Duration{
			lasts:                  90 * time.Second,
			35 * time.Second:       75 * time.Second,
			lasts + 20*time.Second: 90 * time.Second, // the store's clock was set back
		} {
			want.TTL = ttl
			got := readEnd(dedup.Claim{State: dedup.ClaimShared, Left: left, Value: text}, 40*time.Second)
			if got.err != nil || got.token != want {
				t.Errorf("shared for another %v: %+v, %v\nwant %+v", left, got.token, got.err, want)
			}
		}
	})
}

// The claim store keeps the type, text and durations of each error of a solve.
func TestErrorsSurviveTheClaimStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const retry = 61*time.Minute + 23*time.Second + 456*time.Millisecond
		now := time.Now()
		for name, c := range map[string]struct{ err, want error }{
			"failed":                     {&SolveError{Reason: "a"}, &SolveError{Reason: "a"}},
			"failed without a reason":    {&SolveError{}, &SolveError{Reason: "the solve failed"}},
			"refused":                    {&SolveError{Refused: true, Reason: "b"}, &SolveError{Refused: true, Reason: "b"}},
			"wrapped":                    {fmt.Errorf("solving: %w", &SolveError{Refused: true, Reason: "b"}), &SolveError{Refused: true, Reason: "b"}},
			"outage":                     {&OutageError{Reason: "c", Until: now.Add(retry)}, &OutageError{Reason: "c", Until: now.Add(retry)}},
			"outage of unknown length":   {&OutageError{Reason: "c"}, &OutageError{Reason: "c"}},
			"outage that should be over": {&OutageError{Reason: "c", Until: now.Add(-retry)}, &OutageError{Reason: "c"}},
			"budget":                     {&BudgetError{Reason: "d", RetryAfter: retry}, &BudgetError{Reason: "d", RetryAfter: retry}},
			"rate":                       {&pool.RateError{RetryAfter: retry}, &pool.RateError{RetryAfter: retry}},
			"full":                       {&pool.EmptyError{Full: true}, &pool.EmptyError{Full: true}},
			"unexpected":                 {errors.New("e"), &SolveError{Reason: "e"}},
		} {
			got := readEnd(dedup.Claim{State: dedup.ClaimError, Value: encodeError(c.err)}, 0)
			if !reflect.DeepEqual(got.err, c.want) {
				t.Errorf("%s: %#v, want %#v", name, got.err, c.want)
			}
		}
	})
}

// An invalid text in the claim store counts as a failed solve.
func TestAnInvalidEndIsAFailure(t *testing.T) {
	for _, state := range []dedup.ClaimState{dedup.ClaimError, dedup.ClaimShared} {
		for _, value := range []string{"", "{", "{}", `{"token":null}`} {
			var failed *SolveError
			if got := readEnd(dedup.Claim{State: state, Value: []byte(value)}, 0); !errors.As(got.err, &failed) || failed.Refused {
				t.Errorf("%s %q: %+v", state, value, got)
			}
		}
	}
}
