package pool

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// Controls keep the settings of an operator and the state of the buyer for an identity, over all
// replicas.
type Controls struct {
	*client

	notify *notifier
}

// Pause stops the buying for an identity at all replicas until p ends or Resume. Stock is still
// handed out. Pause replaces an earlier pause.
func (s *Controls) Pause(ctx context.Context, id captcha.ID, p Pause) error {
	lives := keyLife
	if !p.Until.IsZero() {
		lives = max(time.Until(p.Until), time.Millisecond)
	}
	if err := s.db.Slow.Set(ctx, s.keys(id).paused, p.text(), lives).Err(); err != nil {
		return err
	}
	s.notify.announce(ctx, id)
	return nil
}

// Resume ends a pause. Without a pause it is a no-op.
func (s *Controls) Resume(ctx context.Context, id captcha.ID) error {
	if err := s.db.Slow.Del(ctx, s.keys(id).paused).Err(); err != nil {
		return err
	}
	s.notify.announce(ctx, id)
	return nil
}

// Retry lets an identity whose orders fail place its next order at once. It reports whether the
// identity was bounded.
func (s *Controls) Retry(ctx context.Context, id captcha.ID) (bounded bool, err error) {
	n, err := s.callNumber(ctx, "retry", s.keys(id), nil)
	if err != nil {
		return false, err
	}
	s.notify.announce(ctx, id)
	return n == 1, nil
}

// Recall returns the learned state of an identity's demand; nil if there is none.
func (s *Controls) Recall(ctx context.Context, id captcha.ID) ([]byte, error) {
	learned, err := s.db.Slow.Get(ctx, s.keys(id).learned).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return learned, err
}

// Remember keeps the learned state of an identity's demand for 30 days.
func (s *Controls) Remember(ctx context.Context, id captcha.ID, learned []byte) error {
	return s.db.Slow.Set(ctx, s.keys(id).learned, learned, keyLife).Err()
}

// Flush discards an identity's tokens and returns how many of them had not expired.
func (s *Controls) Flush(ctx context.Context, id captcha.ID, margin time.Duration) (thrown int, err error) {
	n, err := s.callNumber(ctx, "flush", s.keys(id), args{"margin_ms": margin})
	if err != nil {
		return 0, err
	}
	s.notify.announce(ctx, id)
	return int(n), nil
}

// Pause is a pause of an identity's buying, made by an operator.
type Pause struct {
	By     string    // name of the key; "" = not known
	Reason string    // as the operator gave it; "" = none
	Until  time.Time // zero = until Resume
}

// text returns the pause as Redis keeps it.
func (p Pause) text() string {
	until := int64(0)
	if !p.Until.IsZero() {
		until = p.Until.UnixMilli()
	}
	return strconv.FormatInt(until, 10) + "|" + url.QueryEscape(p.By) + "|" + url.QueryEscape(p.Reason)
}

// readPause is the inverse of text. A pause of an older version or another program has no
// details.
func readPause(text string) (p Pause) {
	f := fields{rest: text + "|"}
	until, by, reason := f.number(), f.escaped(), f.escaped()
	if f.err != nil {
		return Pause{}
	}
	if until > 0 {
		p.Until = utc(until)
	}
	p.By, p.Reason = by, reason
	return p
}
