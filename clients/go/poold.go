// Package poold takes tokens from a poold daemon. It needs only the standard library: copy it.
package poold

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client talks to one daemon. Its methods may run at the same time.
type Client struct {
	URL  string       // for example "http://127.0.0.1:8080"
	Key  string       // a key with the scope token; "" if the daemon has no keys
	HTTP *http.Client // nil = http.DefaultClient
}

// Token is one token. Use it once, before ExpiresAt.
type Token struct {
	ID, Target, Type, Token string
	UserAgent               string            `json:"user_agent"` // some sites want to see it with the token; often ""
	Extra                   map[string]string // other texts of the solution, such as respKey of hCaptcha; often nil
	ExpiresAt               time.Time         `json:"expires_at"`
}

// Error is an answer of the daemon with an error status.
type Error struct {
	Code, Detail string        // docs/operating.md lists the codes
	Status       int           // of HTTP
	RetryAfter   time.Duration // 0 = a repetition does not help
}

func (e *Error) Error() string { return "poold: " + e.Code + ": " + e.Detail }

// Take takes a token of a target. While there is none, or no answer comes, it tries again until the
// deadline of ctx, or for a minute without a deadline. If the next try would come after that, it
// returns the last error at once. All its requests have the same Idempotency-Key, so that a lost answer costs no
// token.
func (c *Client) Take(ctx context.Context, target string) (token Token, err error) {
	header, path := http.Header{"Idempotency-Key": {rand.Text()}}, "/pool/"+url.PathEscape(target)+"/token?wait="
	err = repeat(ctx, time.Minute, func(ctx context.Context, wait time.Duration) error {
		return c.send(ctx, http.MethodGet, path+wait.String(), header, "", &token)
	})
	return token, err
}

// Report reports to poold and the service whether a site accepted a token: "accepted" or "rejected".
// It tries again as Take does, but without a deadline only for 15 s. Equal reports count once.
func (c *Client) Report(ctx context.Context, token Token, outcome string) error {
	path := "/pool/" + url.PathEscape(token.Target) + "/token/" + url.PathEscape(token.ID) + "/report"
	return repeat(ctx, 15*time.Second, func(ctx context.Context, _ time.Duration) error {
		header := http.Header{"Content-Type": {"application/json"}}
		return c.send(ctx, http.MethodPost, path, header, fmt.Sprintf(`{"outcome":%q}`, outcome), nil)
	})
}

// repeat calls try, with the time that it may wait, until it succeeds, or until a further try would not help or come
// too late, or 15 in a row had no answer.
func repeat(ctx context.Context, most time.Duration, try func(context.Context, time.Duration) error) (err error) {
	end, limited := ctx.Deadline()
	if !limited {
		end = time.Now().Add(most)
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for lost := 1; ; lost++ {
		last := try(ctx, max(0, min(20*time.Second, time.Until(end)-time.Second)).Round(time.Second))
		pause, refused := time.Second, new(Error)
		if errors.As(last, &refused) {
			pause, lost = refused.RetryAfter, 0
		}
		if last == nil || pause == 0 || lost == 15 || ctx.Err() == nil && time.Until(end) < pause {
			return last
		}
		if ctx.Err() == nil { // else the end of ctx is the cause
			err = last
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

func (c *Client) send(ctx context.Context, method, path string, header http.Header, body string, into *Token) error {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("poold: %w", err)
	}
	request.Header = header.Clone()
	if c.Key != "" {
		request.Header.Set("Authorization", "Bearer "+c.Key)
	}
	response, err := cmp.Or(c.HTTP, http.DefaultClient).Do(request)
	if err != nil {
		return fmt.Errorf("poold: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return fmt.Errorf("poold: %w", err)
	case response.StatusCode >= http.StatusMultipleChoices:
		refused := &Error{Code: response.Status, Status: response.StatusCode}
		_ = json.Unmarshal(text, refused) // a proxy sends no problem document
		refused.RetryAfter, _ = time.ParseDuration(response.Header.Get("Retry-After") + "s")
		if response.StatusCode == http.StatusBadGateway || response.StatusCode == http.StatusGatewayTimeout { // of a proxy
			refused.RetryAfter = time.Second
		}
		return refused
	case into != nil:
		err = json.Unmarshal(text, into)
	}
	return err
}
