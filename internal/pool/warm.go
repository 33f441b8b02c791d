package pool

import (
	"context"
	"fmt"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

const (
	// mostWindows is how many windows an identity may have, running and to come.
	mostWindows = 100
	// windowSlack is the greatest difference between two calls that mean the same moment:
	// the way to Redis, or a retry after a lost reply.
	windowSlack = 2 * redisdb.CallTimeout
)

// Warm keeps a window at all replicas until it is over, on Redis' clock. Zero Tokens end all
// windows of the identity. A negative In begins the window now. A window that is over, or ends
// before it begins, is not kept.
//
// Repeated calls leave one window. A window is dropped if another one covers it: begins no
// later, ends no earlier and wants no fewer tokens. If up to two seconds at either end are
// missing, the new window replaces the old one and takes the length of both, unless the old one
// wants more tokens.
//
// Warm fails with ErrWindows and changes nothing if there are 100 other windows, or as many of
// this caller as its limit. Windows of callers with a limit do not count against other callers.
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

// readWindows reads the windows of look.lua.
func readWindows(items []any) ([]Window, error) {
	if len(items) == 0 {
		return nil, nil // as for nearly every identity
	}
	n, err := redisdb.Integers(items, len(items))
	if err != nil {
		return nil, err
	}
	if len(n)%3 != 0 {
		return nil, fmt.Errorf("pool: look answered windows of %d values", len(n))
	}
	windows := make([]Window, 0, len(n)/3)
	for ; len(n) > 0; n = n[3:] {
		windows = append(windows, Window{
			Tokens: int(n[0]),
			In:     time.Duration(n[1]) * time.Millisecond,
			Left:   time.Duration(n[2]) * time.Millisecond,
		})
	}
	return windows, nil
}
