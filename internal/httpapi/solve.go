package httpapi

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi/delivery"
	"poold/internal/httpapi/kernel"
	"poold/internal/ondemand"
	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/targets"
)

// maxSolveBody limits the body of POST /solve: a picture of 1 MiB in base64, and the other fields.
const maxSolveBody = 2 << 20

// Binder binds Idempotency-Keys to identities; *pool.Tokens implements it.
type Binder interface {
	Bind(ctx context.Context, idempotency string, id captcha.ID, life time.Duration) error
}

// Solver solves on demand; *ondemand.Service implements it.
type Solver interface {
	Solve(ctx context.Context, r ondemand.Request) (pool.Token, error)
}

type solves struct {
	delivery.Sender

	supply   delivery.Supply
	binder   Binder
	solver   Solver
	pictures *kernel.Pictures
	gate     *gate
	stopping *atomic.Bool // the flag Server.stopping
}

func (s *solves) solve(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	if s.stopping.Load() {
		return pool.ErrClosed
	}
	asked, release, err := s.readSolve(r, c)
	defer release()
	if err != nil {
		return err
	}
	request, err := s.request(r, c, asked)
	if err != nil {
		return err
	}
	if err := s.bind(r.Context(), &request, asked.Identity.Type, c.Access.Set); err != nil {
		return err
	}
	kernel.AnswerWithin(w, request.Take.Wait+kernel.WriteLimit)
	token, err := s.solver.Solve(r.Context(), request)
	if err != nil {
		return s.explain(r.Context(), c, err)
	}
	out := delivery.Handout{
		Token: &token, ID: delivery.SolveID{Token: token.ID, Identity: request.Take.ID, Type: asked.Identity.Type}.String(), Kind: asked.Identity.Type, Image: delivery.ImageOf(&asked),
		Repeatable: request.Take.Idempotency != "", Shared: request.Share != nil,
	}
	// A reload may have removed the key or some of its rights.
	if err := s.readmit(r, c, asked); err != nil {
		s.ReturnToken(r.Context(), c, &out)
		return err
	}
	out.Solution = captcha.Named(out.Kind, token.Value)
	return s.Deliver(w, r, c, &out)
}

// bind binds the request's Idempotency-Key, if there is one, to the identity for as long as the key
// can repeat a token.
func (s *solves) bind(ctx context.Context, r *ondemand.Request, kind captcha.Type, set *targets.Set) error {
	if r.Take.Idempotency == "" {
		return nil
	}
	lifetime, _ := set.Life(kind)
	err := s.binder.Bind(ctx, r.Take.Idempotency, r.Take.ID, r.Take.Wait+lifetime)
	if errors.Is(err, pool.ErrConflict) {
		return kernel.NewProblem(kernel.CodeConflict, "this Idempotency-Key was used for another captcha; send a new one for each captcha")
	}
	return err
}

// readSolve reads the body. The caller must call release when it no longer needs the picture, even
// after an error.
func (s *solves) readSolve(r *http.Request, c *kernel.Call) (asked targets.SolveRequest, release func(), err error) {
	var bad error
	release, err = s.pictures.Read(r, c, maxSolveBody, func(body []byte) {
		if bad = kernel.CheckJSON(r); bad == nil {
			asked, bad = targets.ReadSolve(body)
		}
	})
	if err == nil {
		err = bad
	}
	if len(asked.Image) == 0 {
		release()
	}
	if invalid := (targets.Problems)(nil); errors.As(err, &invalid) {
		err = kernel.NewProblem(kernel.CodeBadRequest, "the request is invalid: each problem names a field and its rule").Listing(invalid)
	}
	return asked, release, err
}

func (s *solves) request(r *http.Request, c *kernel.Call, asked targets.SolveRequest) (ondemand.Request, error) {
	var err error
	if c.Target, err = s.admit(c.Access, c.Caller, asked.Identity); err != nil {
		return ondemand.Request{}, err
	}
	id := asked.Identity
	request := ondemand.Request{}
	var take pool.Request
	if t := c.Target; t != nil {
		take = t.Take(c.Caller)
		take.MaxWaiting = max(take.MaxWaiting, ondemand.MostWaiting)
	} else {
		request.Guest = delivery.GuestOf(c.Access.Set, asked, id.ID())
		take = pool.Request{ID: id.ID(), Caller: c.Caller.StableName, MaxWaiting: ondemand.MostWaiting, Margin: request.Guest.Spec.Margin}
	}
	take.Wait = asked.Timeout
	if c.Target != nil {
		s.supply.Attend(r.Context(), c.Target, &take)
	}
	key, given, err := idempotencyKey(r.Header)
	switch {
	case err != nil:
		return request, err
	case asked.Dedup == targets.DedupIdentity && given:
		return request, kernel.NewProblem(kernel.CodeBadRequest, "dedup: identity excludes an Idempotency-Key: equal requests share one solve, whichever caller sends them; remove one of the two")
	case asked.Dedup == targets.DedupIdentity && take.Wait > 0:
		request.Share = &ondemand.Share{Key: shareKey(id, asked.DedupProxy), Sitekey: id.Sitekey, Pageurl: id.Pageurl}
	case given:
		take.Idempotency = c.Caller.StableName + key
	}
	request.Take = take
	return request, nil
}

// shareKey returns the key of the requests that share a solve. If withProxy is false, requests with
// different proxies can share a solve.
func shareKey(id captcha.Identity, withProxy bool) captcha.ID {
	if !withProxy {
		id.Proxy, id.ProxyType = "", ""
	}
	return id.ID()
}

// admit returns the target of an identity, or nil for a guest. If the caller may not request the
// identity, admit returns an error.
func (s *solves) admit(a *kernel.Access, caller *kernel.Caller, id captcha.Identity) (*kernel.Target, error) {
	t := a.ByID[id.ID()]
	if !caller.MayAsk(t) {
		return nil, kernel.ErrLimitedKey()
	}
	if t != nil {
		return t, nil
	}
	if err := a.Set.Solve.Allows(id); err != nil {
		return nil, kernel.NewProblem(kernel.CodeForbidden, err.Error())
	}
	return nil, nil
}

func (s *solves) readmit(r *http.Request, c *kernel.Call, asked targets.SolveRequest) error {
	now, caller, err := s.gate.reauthenticate(c, r)
	if now != nil && err == nil {
		_, err = s.admit(now, caller, asked.Identity)
	}
	return err
}

// explain returns the error for the response to a solve without a token.
func (s *solves) explain(ctx context.Context, c *kernel.Call, err error) error {
	empty := (*pool.EmptyError)(nil)
	if !errors.As(err, &empty) || empty.Full {
		return err
	}
	if c.Target == nil {
		return solveTimeout()
	}
	note, _ := s.supply.Refill.Current(ctx, c.Target.Name)
	switch note.State {
	case refill.Refused:
		return kernel.NewProblem(kernel.CodeSolveRefused, note.Reason)
	case refill.Paused:
		if empty.Paused {
			return err
		}
		// If Look fails, the response does not name the author of the pause.
		stock, _ := s.supply.Stock.Look(ctx, c.Target.ID, c.Target.Margin, 0)
		return &pool.EmptyError{Paused: true, Pause: stock.Pause, RetryAfter: empty.RetryAfter}
	case refill.Budget, refill.Starved:
		return err // err already contains the cause
	case refill.OK:
	}
	if s.supply.IsBarred(ctx, c.Target) || s.supply.IsOut(ctx) {
		return err
	}
	return solveTimeout()
}

func solveTimeout() *kernel.Problem {
	return kernel.NewProblem(kernel.CodeSolveTimeout,
		"no token came in time; the order continues: repeat the request, with the same Idempotency-Key if it had one, to get its token")
}
