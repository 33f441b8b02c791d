package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"poold/internal/httpapi/delivery"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/solve"
	"poold/internal/targets"
)

const (
	// maxWait is the longest wait that a caller can request with the query parameter wait.
	maxWait = 60 * time.Second
	// defaultWait is how long a caller waits by default for a token of a target with `on_empty: wait`.
	defaultWait = 20 * time.Second
)

// Taker hands out tokens; *pool.Pool implements it.
type Taker interface {
	Take(ctx context.Context, c *pool.Call) (pool.Token, error)
}

type tokens struct {
	delivery.Sender

	supply   delivery.Supply
	pool     Taker
	solver   Solver
	gate     *gate
	stopping *atomic.Bool // the flag Server.stopping
}

// take is GET and POST /pool/{target}/token.
func (t *tokens) take(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	if t.stopping.Load() {
		return solve.ErrStopping
	}
	call, buys, err := readCall(r, c)
	if err != nil {
		return err
	}
	signer, err := t.IDs.Signer(r.Context())
	if err != nil {
		return err
	}
	if buys && t.supply.Held(r.Context(), c.Target) {
		call.Wait = 0
	}
	if call.Wait > 0 {
		kernel.AnswerWithin(w, call.Wait+kernel.WriteLimit)
	}
	var token pool.Token
	if buys {
		token, err = t.solver.Take(r.Context(), solve.Request{Call: &call, Out: t.supply.Out(c.Target)})
	} else {
		token, err = t.pool.Take(r.Context(), &call)
	}
	if err != nil {
		return err
	}
	id := signer.ID(token.Order, c.Caller.StableName)
	out := delivery.Handout{Token: &token, Call: &call, ID: id, Kind: c.Target.Identity.Type}
	// During the wait, a reload may have removed the key or the target, or changed the identity of the
	// target.
	if err := t.gate.readmit(c, r); err != nil {
		t.ReturnToken(c, &out)
		return err
	}
	return t.Deliver(w, r, c, &out)
}

// readCall converts query and headers to a call. The second result is true if `on_empty: solve` applies: the ticket of
// a caller that waits is demand for one more token.
func readCall(r *http.Request, c *kernel.Call) (call pool.Call, buys bool, err error) {
	t := c.Target
	call = t.Call()
	waits, err := readQuery(r.URL.RawQuery, &call, t.Lifetime)
	if err != nil {
		return call, false, err
	}
	buys = !waits && t.OnEmpty == targets.OnEmptySolve && c.Caller.May(targets.ScopeSolve)
	switch {
	case buys:
		call.Wait = maxWait
	case !waits && t.OnEmpty == targets.OnEmptyWait:
		call.Wait = defaultWait
	}
	key, err := idempotencyKey(r.Header)
	owner := c.Caller.StableName
	if key != "" {
		owner += string(t.ID) // at another target the key is another one
	}
	solve.Identify(&call, owner, key)
	return call, buys, err
}

// readQuery reads the query parameters of a take. The result is true if the query has the parameter
// wait.
func readQuery(raw string, call *pool.Call, lifetime time.Duration) (waits bool, err error) {
	if raw == "" {
		return false, nil
	}
	query, err := kernel.ReadValues(raw, "wait", "min_ttl")
	if err != nil {
		return false, err
	}
	if query.Has("wait") {
		call.Wait, err = readDuration("wait", query.Get("wait"), maxWait)
	}
	if err == nil && query.Has("min_ttl") {
		call.MinTTL, err = readDuration("min_ttl", query.Get("min_ttl"), lifetime)
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

// idempotencyKey returns the request's Idempotency-Key; "" = it has none.
func idempotencyKey(h http.Header) (key string, err error) {
	values := h["Idempotency-Key"]
	if len(values) == 0 {
		return "", nil
	}
	key = values[0]
	ok := len(values) == 1 && len(key) >= 1 && len(key) <= 255
	for i := 0; ok && i < len(key); i++ {
		ok = key[i] >= ' ' && key[i] <= '~'
	}
	if !ok {
		return "", kernel.NewProblem(kernel.CodeBadRequest, "Idempotency-Key must be given once, with 1 to 255 printable ASCII characters")
	}
	return key, nil
}
