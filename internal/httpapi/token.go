package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"poold/internal/httpapi/delivery"
	"poold/internal/httpapi/kernel"
	"poold/internal/ondemand"
	"poold/internal/pool"
	"poold/internal/targets"
)

const (
	// maxWait is the longest wait that a caller can request with the query parameter wait.
	maxWait = 60 * time.Second
	// defaultWait is how long a caller waits by default for a token of a target with `on_empty: wait`.
	defaultWait = 20 * time.Second
)

// Taker hands out tokens.
type Taker interface {
	Take(ctx context.Context, r pool.Request) (pool.Token, error)
}

type tokens struct {
	delivery.Sender

	supply   delivery.Supply
	stock    Taker
	gate     *gate
	stopping *atomic.Bool // the flag Server.stopping
}

// take is GET and POST /pool/{target}/token.
func (t *tokens) take(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	if t.stopping.Load() {
		return pool.ErrClosed
	}
	request, buys, err := readRequest(r, c)
	if err != nil {
		return err
	}
	if buys {
		t.supply.Attend(r.Context(), c.Target, &request)
	}
	if request.Wait > 0 {
		kernel.AnswerWithin(w, request.Wait+kernel.WriteLimit)
	}
	token, err := t.stock.Take(r.Context(), request)
	if err != nil {
		return err
	}
	if buys && token.Source == pool.FromWait {
		token.Source = ondemand.FromSolve
	}
	out := delivery.Handout{Token: &token, ID: token.ID, Kind: c.Target.Identity.Type, Repeatable: request.Idempotency != ""}
	// During the wait, a reload may have removed the key or the target, or changed the identity of the
	// target.
	if err := t.gate.readmit(c, r); err != nil {
		t.ReturnToken(r.Context(), c, &out)
		return err
	}
	return t.Deliver(w, r, c, &out)
}

// readRequest converts query and headers to a request to the stock. The second result is true if
// `on_empty: solve` applies: if the stock is empty, a token is bought for the waiting caller. The
// caller's ticket makes the worker order one more token, because place.lua subtracts the pending
// callers from the stock.
func readRequest(r *http.Request, c *kernel.Call) (request pool.Request, buys bool, err error) {
	t := c.Target
	request = t.Take(c.Caller)
	waits, err := readQuery(r.URL.RawQuery, &request, t.Lifetime)
	if err != nil {
		return request, false, err
	}
	buys = !waits && t.OnEmpty == targets.OnEmptySolve && c.Caller.May(targets.ScopeSolve)
	switch {
	case buys:
		request.Wait = maxWait
	case !waits && t.OnEmpty == targets.OnEmptyWait:
		request.Wait = defaultWait
	}
	key, given, err := idempotencyKey(r.Header)
	if given {
		request.Idempotency = c.Caller.StableName + key
	}
	return request, buys, err
}

// readQuery reads the query parameters of a take. The result is true if the query has the parameter
// wait.
func readQuery(raw string, request *pool.Request, lifetime time.Duration) (waits bool, err error) {
	if raw == "" {
		return false, nil
	}
	query, err := kernel.ReadValues(raw, "wait", "min_ttl")
	if err != nil {
		return false, err
	}
	if query.Has("wait") {
		request.Wait, err = readDuration("wait", query.Get("wait"), maxWait)
	}
	if err == nil && query.Has("min_ttl") {
		request.MinTTL, err = readDuration("min_ttl", query.Get("min_ttl"), lifetime)
	}
	return query.Has("wait"), err
}

// readDuration parses a duration between 0 and the given maximum. A number without a unit is in
// seconds.
func readDuration(name, text string, maximum time.Duration) (time.Duration, error) {
	if strings.Trim(text, "0123456789.") == "" {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, kernel.NewProblem(kernel.CodeBadRequest, name+" must be a duration such as 20s; a bare number is seconds")
	}
	if d < 0 || d > maximum {
		return 0, kernel.NewProblem(kernel.CodeBadRequest, name+" must be between 0s and "+maximum.String())
	}
	return d, nil
}

// idempotencyKey returns the request's Idempotency-Key, and whether the request has one.
func idempotencyKey(h http.Header) (key string, given bool, err error) {
	values := h["Idempotency-Key"]
	if len(values) == 0 {
		return "", false, nil
	}
	key = values[0]
	ok := len(values) == 1 && len(key) >= 1 && len(key) <= 255
	for i := 0; ok && i < len(key); i++ {
		ok = key[i] >= ' ' && key[i] <= '~'
	}
	if !ok {
		return "", false, kernel.NewProblem(kernel.CodeBadRequest, "Idempotency-Key must be given once, with 1 to 255 printable ASCII characters")
	}
	return key, true, nil
}
