package pool

import (
	"context"
	"fmt"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

const (
	// mostWindows is the maximum number of running and future windows of an identity.
	mostWindows = 100
	// windowSlack is the maximum difference between the times of two calls that mean the same window.
	// windowSlack allows for the way to Redis and for a retry after a lost reply.
	windowSlack = 2 * redisdb.CallTimeout
)

// Warm stores a window for all replicas until the window is over, on Redis' clock. If w.Tokens is 0,
// Warm removes all windows of the identity. If w.In is negative, the window begins now. Warm ignores a
// window that is already over, or that ends before it begins.
//
// If one window covers another, Warm keeps only the covering window, which begins no later, ends no
// earlier and wants no fewer tokens. If only up to two seconds at either end are not covered, the
// new window replaces the old one and spans both, unless the old one wants more tokens.
//
// Warm fails with ErrWindows and changes nothing if the identity has 100 other windows, or the
// caller already has its maximum number of windows. Windows of callers with a limit do not count
// for a caller without a limit.
func (s *Controls) Warm(ctx context.Context, id captcha.ID, w Window, limit WindowLimit) error {
	if w.Tokens < 0 {
		return fmt.Errorf("pool: a window of %d tokens", w.Tokens)
	}
	kept, err := s.callNumber(ctx, "warm", s.keys(id), args{
		"tokens": w.Tokens, "begins_ms": w.In, "ends_ms": w.Left, "limit": mostWindows, "slack_ms": windowSlack,
		"caller": limit.Caller, "caller_limit": limit.Most,
	})
	if err != nil {
		return err
	}
	if kept == 0 {
		return ErrWindows
	}
	s.notify.announce(ctx, id)
	return nil
}

// readWindows parses the windows in the reply of look.lua. A window is three numbers, and times are
// in ms.
func readWindows(n []int64) (windows []Window) {
	for ; len(n) >= 3; n = n[3:] {
		windows = append(windows, Window{
			Tokens: int(n[0]),
			In:     time.Duration(n[1]) * time.Millisecond,
			Left:   time.Duration(n[2]) * time.Millisecond,
		})
	}
	return windows
}
