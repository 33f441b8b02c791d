package httpapi

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"poold/internal/captcha"
	"poold/internal/httpapi/delivery"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/refill"
	"poold/internal/solve"
	"poold/internal/targets"
)

// maxSolveBody limits the body of POST /solve: a picture of 1 MiB in base64, and the other fields.
const maxSolveBody = 2 << 20

// Solver solves on demand; *solve.Service implements it.
type Solver interface {
	Solve(ctx context.Context, r solve.Request) (pool.Token, error)
	// Take does not count the request: it is for targets.
	Take(ctx context.Context, r solve.Request) (pool.Token, error)
}

type solves struct {
	delivery.Sender

	supply   delivery.Supply
	solver   Solver
	pictures *kernel.Pictures
	gate     *gate
	stopping *atomic.Bool // the flag Server.stopping
}

func (s *solves) solve(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	if s.stopping.Load() {
		return solve.ErrStopping
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
	signer, err := s.IDs.Signer(r.Context())
	if err != nil {
		return err
	}
	kernel.AnswerWithin(w, request.Call.Wait+kernel.WriteLimit)
	token, err := s.solver.Solve(r.Context(), request)
	if err != nil {
		return s.explain(r.Context(), c, err)
	}
	id := delivery.SolveID{Identity: asked.Identity.ID(), Type: asked.Identity.Type}
	id.Token = signer.ID(token.Order, c.Caller.StableName)
	out := delivery.Handout{
		Token: &token, Call: request.Call, ID: id.String(), Kind: id.Type, Image: delivery.ImageOf(&asked),
		Shared: request.Share != nil,
	}
	// A reload may have removed the key or some of its rights.
	if err := s.readmit(r, c, asked); err != nil {
		s.ReturnToken(c, &out)
		return err
	}
	out.Solution = captcha.Named(out.Kind, token.Value)
	return s.Deliver(w, r, c, &out)
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

func (s *solves) request(
	r *http.Request, c *kernel.Call, asked targets.SolveRequest,
) (request solve.Request, err error) {
	if c.Target, err = s.admit(c.Access, c.Caller, asked.Identity); err != nil {
		return request, err
	}
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return request, err
	}
	var call pool.Call
	if t := c.Target; t != nil {
		call = t.Call()
		call.MostTickets, call.Wait = max(call.MostTickets, solve.MostWaiting), asked.Timeout
		request.Out = s.supply.Out(t)
		if s.supply.Held(r.Context(), t) {
			call.Wait = 0
		}
	} else {
		call, request.Guest, request.Rate = delivery.GuestOf(c.Access.Set, asked)
	}
	if id := asked.Identity; asked.Dedup == targets.DedupIdentity {
		if key != "" {
			return request, kernel.NewProblem(kernel.CodeBadRequest, "dedup: identity excludes an Idempotency-Key: equal requests share one solve, whichever caller sends them; remove one of the two")
		}
		if call.Wait > 0 {
			request.Share = &solve.Share{Key: shareKey(id, asked.DedupProxy), Sitekey: id.Sitekey, Pageurl: id.Pageurl}
		}
	}
	solve.Identify(&call, c.Caller.StableName, key)
	request.Call = &call
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
	switch {
	case errors.Is(err, pool.ErrConflict):
		return kernel.NewProblem(kernel.CodeConflict, "this Idempotency-Key was used for another captcha; send a new one for each captcha")
	case !errors.As(err, &empty) || empty.Full:
		return err
	case c.Target == nil:
		return solveTimeout()
	}
	counts, unread := c.Target.Counts(ctx, s.supply.Pool)
	if unread != nil {
		return unread
	}
	if _, _, out := s.supply.Outage(ctx); out || refill.StatusOf(c.Target.Target, &counts).State != refill.OK {
		return err // Server.explain tells the cause
	}
	return solveTimeout()
}

func solveTimeout() *kernel.Problem {
	return kernel.NewProblem(kernel.CodeSolveTimeout,
		"no token came in time; the order continues: repeat the request, with the same Idempotency-Key if it had one, to get its token")
}
