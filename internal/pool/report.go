package pool

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/url"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// Sale is what is known of a token that was handed out.
type Sale struct {
	Provider string
	Task     string        // the provider's id
	Age      time.Duration // since it can have been solved
}

// Name is the ID of an order's token for a caller that shares it with the one that took
// it. A report is counted once, whoever of them makes it.
func (s *Tokens) Name(ctx context.Context, order, caller string) (string, error) {
	signer, err := s.signing.signer(ctx)
	if err != nil {
		return "", err
	}
	return signer.name(order, caller), nil
}

// Sold fails with ErrUnknownToken unless the caller took the token and it died at most
// 15 min ago. It changes nothing.
func (s *Tokens) Sold(ctx context.Context, id captcha.ID, token, caller string) error {
	order, err := s.orderOf(ctx, token, caller)
	if err != nil {
		return err
	}
	n, err := s.db.Slow.Exists(ctx, s.keys(id).sold+order).Result()
	if err == nil && n == 0 {
		return ErrUnknownToken
	}
	return err
}

// orderOf returns the order of a token's ID, or ErrUnknownToken if no replica gave that ID
// to the caller.
func (s *Tokens) orderOf(ctx context.Context, token, caller string) (string, error) {
	signer, err := s.signing.signer(ctx)
	if err != nil {
		return "", err
	}
	order, _, _ := strings.Cut(token, ".")
	if subtle.ConstantTimeCompare([]byte(signer.name(order, caller)), []byte(token)) != 1 {
		return "", ErrUnknownToken
	}
	return order, nil
}

// Report counts how a token did, once. It fails with ErrUnknownToken where the
// caller did not get the token, or it died more than 15 min ago, and with
// ErrReported the second time.
func (s *Tokens) Report(ctx context.Context, id captcha.ID, token, caller string, accepted bool) (Sale, error) {
	order, err := s.orderOf(ctx, token, caller)
	if err != nil {
		return Sale{}, err
	}
	verdict := "0"
	if accepted {
		verdict = "1"
	}
	k := s.keys(id)
	reply, err := s.db.Eval(ctx, s.scripts.report, []string{k.sold + order, k.stats, k.verdicts}, verdict, rand.Text())
	if err != nil {
		return Sale{}, err
	}
	n, err := redisdb.Integers(reply, 2)
	if err != nil {
		return Sale{}, err
	}
	switch {
	case n[0] == 0:
		return Sale{}, ErrUnknownToken
	case n[0] < 0:
		return Sale{}, ErrReported
	}
	text, _ := reply.([]any)[2].(string)
	provider, task, _ := strings.Cut(text, "|")
	if task, err = url.QueryUnescape(task); err != nil {
		return Sale{}, fmt.Errorf("pool: a sale's task: %w", err)
	}
	return Sale{Provider: provider, Task: task, Age: time.Duration(n[1]) * time.Millisecond}, nil
}
