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
	// windowSlack is how far apart the same moment may come out in two calls: the
	// way to Redis, or an answer that was lost and a call that was sent again.
	windowSlack = 2 * redisdb.CallTimeout
)

// Warm keeps a window, on Redis' clock and for all replicas, until it is over. No
// Tokens end all windows of the identity at once. A window whose In is below 0
// begins now; one that is over, or ends before it begins, is not kept.
//
// A call that is made again and again leaves one window: those that the new one
// covers (that begin no earlier, end no later and want no more tokens) are
// dropped, and the new one is if it is covered. Where only up to two seconds at
// either end are missing for that, the new one takes the place of both and is as
// long as both, unless it is the older one that wants more. Where there are 100
// other windows, or as many of this caller as its limit says, Warm fails with
// ErrWindows and changes nothing. Of the 100, those of callers with a limit count
// for such callers alone.
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
	s.news.announce(ctx, id)
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
	told := make([]Window, 0, len(n)/3)
	for ; len(n) > 0; n = n[3:] {
		told = append(told, Window{
			Tokens: int(n[0]),
			In:     time.Duration(n[1]) * time.Millisecond,
			Left:   time.Duration(n[2]) * time.Millisecond,
		})
	}
	return told, nil
}
