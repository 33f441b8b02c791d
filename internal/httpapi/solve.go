package httpapi

import (
	"context"
	"errors"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/solve"
	"poold/internal/targets"
)

// maxSolveBody limits the body of POST /solve: a picture of 1 MiB in base64, and the other fields.
const maxSolveBody = 2 << 20

// solve is POST /solve.
func (s *Server) solve(c *Context) error {
	if s.stopping.Load() {
		return pool.ErrClosed
	}
	asked, release, err := s.readSolve(c)
	defer release()
	if err != nil {
		return err
	}
	request, err := s.solveRequest(c, asked)
	if err != nil {
		return err
	}
	signer, err := s.IDs.Signer(c.Ctx())
	if err != nil {
		return err
	}
	token, err := s.Solver.Solve(c.Ctx(), request)
	if err != nil {
		return err
	}
	kind := asked.Identity.Type
	out := Handout{
		Token: &token, Call: request.Call, Kind: kind, Solution: captcha.Named(kind, token.Value), Shared: request.Share != nil,
		ID: SolveID(signer.ID(token.Order, c.Caller.StableName), asked.Identity),
	}
	// A reload may have removed the key or some of its rights.
	if err = s.recheck(c); err == nil {
		err = admitSolve(c, asked.Identity)
	}
	if err != nil {
		s.ReturnToken(&out)
		return err
	}
	return s.Deliver(c, &out)
}

// readSolve reads the body. The caller must call release when it no longer needs the picture, even
// after an error.
func (s *Server) readSolve(c *Context) (asked targets.SolveRequest, release func(), err error) {
	body, release, err := s.pictures.Read(c, maxSolveBody)
	if err == nil {
		err = c.CheckJSON()
	}
	if err == nil {
		asked, err = targets.ReadSolve(body)
	}
	if len(asked.Image) == 0 {
		release()
	}
	if invalid := (targets.Problems)(nil); errors.As(err, &invalid) {
		err = NewProblem(CodeBadRequest, "the request is invalid: each problem names a field and its rule").Listing(invalid)
	}
	return asked, release, err
}

func (s *Server) solveRequest(c *Context, asked targets.SolveRequest) (request solve.Request, err error) {
	if err := admitSolve(c, asked.Identity); err != nil {
		return request, err
	}
	key, err := idempotencyKey(c.Request().Header)
	if err != nil {
		return request, err
	}
	var call pool.Call
	if t := c.Target; t != nil {
		call = CallFor(t)
		call.MostTickets, call.Wait = max(call.MostTickets, solve.MostWaiting), asked.Timeout
		request.Out = func(ctx context.Context) bool { return s.IsOut(ctx, t, true) }
		if s.IsHeld(c.Ctx(), t) {
			call.Wait = 0
		}
	} else {
		call, request.Guest, request.Rate = GuestOf(c.Access.Set, asked)
	}
	if id := asked.Identity; asked.Dedup == targets.DedupIdentity {
		if key != "" {
			return request, NewProblem(CodeBadRequest, "dedup: identity excludes an Idempotency-Key: equal requests share one solve, whichever caller sends them; remove one of the two")
		}
		if !asked.DedupProxy { // requests with different proxies share a solve
			id.Proxy, id.ProxyType = "", ""
		}
		if call.Wait > 0 {
			request.Share = &solve.Share{Key: id.ID(), Sitekey: id.Sitekey, Pageurl: id.Pageurl}
		}
	}
	call.Row, call.Budget = s.Row(c, ImageOf(&asked), true), c.Caller.limits()
	solve.Identify(&call, c.Caller.StableName, key)
	request.Call = &call
	return request, nil
}

// admitSolve sets the target of an identity, or none for a guest. If the caller may not request the
// identity, admitSolve returns an error.
func admitSolve(c *Context, id captcha.Identity) error {
	if err := c.Admit(id.ID()); err != nil || c.Target != nil {
		return err
	}
	if err := c.Access.Set.Solve.Allows(id); err != nil {
		return NewProblem(CodeForbidden, err.Error())
	}
	return nil
}
