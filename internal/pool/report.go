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

// Report counts how a token did, once. It fails with ErrUnknownToken where the
// caller did not get the token, or it died more than 15 min ago, and with
// ErrReported the second time.
func (s *Tokens) Report(ctx context.Context, id captcha.ID, token, caller string, accepted bool) (Sale, error) {
	signer, err := s.signing.signer(ctx)
	if err != nil {
		return Sale{}, err
	}
	order, _, _ := strings.Cut(token, ".")
	if subtle.ConstantTimeCompare([]byte(signer.name(order, caller)), []byte(token)) != 1 {
		return Sale{}, ErrUnknownToken
	}
	verdict := "0"
	if accepted {
		verdict = "1"
	}
	k := s.keys(id)
	reply, err := s.run(ctx, s.scripts.report, []string{k.sold + order, k.stats, k.verdicts}, verdict, rand.Text())
	if err != nil {
		return Sale{}, err
	}
	n, err := integers(reply, 2)
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
