package pool

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"poold/internal/captcha"
)

// Sale describes a token that was handed out.
type Sale struct {
	Provider string
	Task     string        // the provider's task id
	Age      time.Duration // time since the earliest possible time of the solve
}

// TokenID returns the ID of an order's token for one of the callers that share the token. All these
// callers together can make one report.
func (s *Tokens) TokenID(ctx context.Context, order, caller string) (string, error) {
	signer, err := s.secret.Signer(ctx)
	if err != nil {
		return "", err
	}
	return signer.ID(order, caller), nil
}

// Sold checks that the caller can report on a token. Sold fails with ErrUnknownToken if the caller
// did not get the token, or if the token died more than 15 min ago.
func (s *Tokens) Sold(ctx context.Context, id captcha.ID, token, caller string) error {
	order, err := s.orderOf(ctx, token, caller)
	if err != nil {
		return err
	}
	n, err := s.db.Slow.Exists(ctx, s.keys(id).sale+order).Result()
	if err == nil && n == 0 {
		return ErrUnknownToken
	}
	return err
}

// orderOf returns the order in a token's ID. orderOf fails with ErrUnknownToken if no replica gave
// this ID to the caller.
func (s *Tokens) orderOf(ctx context.Context, token, caller string) (string, error) {
	signer, err := s.secret.Signer(ctx)
	if err != nil {
		return "", err
	}
	order, valid := signer.Order(token, caller)
	if !valid {
		return "", ErrUnknownToken
	}
	return order, nil
}

// Report counts a token as accepted or rejected. Report fails with ErrUnknownToken if the caller did
// not get the token, or if the token died more than 15 min ago. Report fails with ErrReported if an
// earlier report on the token was counted.
func (s *Tokens) Report(ctx context.Context, id captcha.ID, token, caller string, accepted bool) (Sale, error) {
	order, err := s.orderOf(ctx, token, caller)
	if err != nil {
		return Sale{}, err
	}
	k := s.keys(id)
	k.sale += order
	r, err := s.call(ctx, "report", k, args{"accepted": accepted, "call": rand.Text()})
	if err != nil {
		return Sale{}, err
	}
	switch outcome := r.Int("outcome"); {
	case r.Err != nil:
		return Sale{}, r.Err
	case outcome == 0:
		return Sale{}, ErrUnknownToken
	case outcome < 0:
		return Sale{}, ErrReported
	}
	provider, task, _ := strings.Cut(r.Text("seller"), "|")
	if task, err = url.QueryUnescape(task); err != nil {
		return Sale{}, fmt.Errorf("pool: a sale's task: %w", err)
	}
	return Sale{Provider: provider, Task: task, Age: r.Duration("age_ms")}, nil
}
