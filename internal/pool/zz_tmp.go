package pool

import (
	"context"
	"time"

	"poold/internal/captcha"
)

type GuestUse struct {
	Rate    int
	RatePer time.Duration
}

func (t Token) Order() string { return t.order }

func (s *Tokens) Name(ctx context.Context, order, caller string) (string, error) {
	signer, err := s.signing.signer(ctx)
	if err != nil {
		return "", err
	}
	return signer.name(order, caller), nil
}

type Guests struct{ *client }

func (g *Guests) Use(ctx context.Context, id captcha.ID, u GuestUse) error { return nil }
func (g *Guests) Retire(ctx context.Context) (int, error)                  { return 0, nil }
