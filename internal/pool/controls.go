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

// Controls stores the operator's settings for each identity and the learned state of its demand. All
// replicas share these values.
type Controls struct {
	*client

	notify *notifier
}

// Pause stops buying for an identity at all replicas until p.Until or a call of Resume. Takes still
// get the tokens in stock. The new pause replaces an earlier one.
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

// Resume ends a pause. If the identity is not paused, Resume does nothing.
func (s *Controls) Resume(ctx context.Context, id captcha.ID) error {
	if err := s.db.Slow.Del(ctx, s.keys(id).paused).Err(); err != nil {
		return err
	}
	s.notify.announce(ctx, id)
	return nil
}

// Retry lets a bounded identity place its next order immediately. The result is whether the
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

// Remember stores the learned state of an identity's demand for 30 days.
func (s *Controls) Remember(ctx context.Context, id captcha.ID, learned []byte) error {
	return s.db.Slow.Set(ctx, s.keys(id).learned, learned, keyLife).Err()
}

// Flush discards all tokens of an identity and returns how many of these tokens had not expired.
func (s *Controls) Flush(ctx context.Context, id captcha.ID, margin time.Duration) (thrown int, err error) {
	n, err := s.callNumber(ctx, "flush", s.keys(id), args{"margin_ms": margin})
	if err != nil {
		return 0, err
	}
	s.notify.announce(ctx, id)
	return int(n), nil
}

// Pause describes how an operator paused buying for an identity.
type Pause struct {
	By     string    // name of the operator's key; "" = unknown
	Reason string    // reason that the operator gave; "" = none
	Until  time.Time // zero = until Resume
}

// Terms returns the end and the reason as the rest of a sentence, such as " until 2026-01-02 15:04
// UTC: maintenance". Unknown parts are left out.
func (p Pause) Terms() string {
	var text string
	if !p.Until.IsZero() {
		text = " until " + p.Until.UTC().Format("2006-01-02 15:04") + " UTC"
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// text returns the stored form of the pause.
func (p Pause) text() string {
	until := int64(0)
	if !p.Until.IsZero() {
		until = p.Until.UnixMilli()
	}
	return strconv.FormatInt(until, 10) + "|" + url.QueryEscape(p.By) + "|" + url.QueryEscape(p.Reason)
}

// readPause parses the form that Pause.text returns. If the text has another form, the result is the
// zero Pause.
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
