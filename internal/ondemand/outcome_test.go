package ondemand

import (
	"errors"
	"testing"
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
