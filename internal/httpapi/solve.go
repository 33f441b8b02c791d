package httpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/refill"
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
	out := Delivery{
		Token: &token, Call: request.Call, Type: kind, Solution: captcha.Named(kind, token.Value),
		Shared: request.Share != nil, ID: SolveID(signer.ID(token.Order, c.Caller.StableName), asked.Identity),
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
	body, release, err := readPicture(c, s.pictures, maxSolveBody)
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
	if t := c.Target; t != nil {
		request = s.ofTarget(c, t, ImageOf(&asked), true)
		request.Call.MostTickets, request.Call.Wait = max(request.Call.MostTickets, solve.MostWaiting), asked.Timeout
		if s.NeedsOperator(c.Ctx(), t) {
			request.Call.Wait = 0
		}
	} else {
		request = s.ofGuest(c, asked)
	}
	if id := asked.Identity; asked.Dedup == targets.DedupIdentity {
		if key != "" {
			return request, NewProblem(CodeBadRequest,
				"dedup: identity excludes an Idempotency-Key: equal requests share one solve, "+
					"whichever caller sends them; remove one of the two")
		}
		if !asked.DedupProxy { // requests with different proxies share a solve
			id.Proxy, id.ProxyType = "", ""
		}
		if request.Call.Wait > 0 {
			request.Share = &solve.Share{Key: id.ID(), Sitekey: id.Sitekey, Pageurl: id.Pageurl}
		}
	}
	solve.Identify(request.Call, c.Caller.StableName, key)
	return request, nil
}

// ImageOf returns a text that identifies the picture of a solve: its hash and size; "" = the solve
// has no picture.
func ImageOf(asked *targets.SolveRequest) string {
	if asked.Image == nil {
		return ""
	}
	return fmt.Sprintf("sha256:%s, %d bytes", asked.Identity.Picture.SHA256, len(asked.Image))
}

// ofTarget returns the request of a caller for a token of a target. Its call lacks a name and a wait. If buys is true
// and the caller has to wait, a token is bought for this caller.
func (s *Server) ofTarget(c *Context, t *targets.Target, image string, buys bool) solve.Request {
	call := CallFor(t)
	call.Row, call.Budget = s.Row(c, image, buys), c.Caller.limits()
	return solve.Request{Call: &call, Out: func(ctx context.Context) bool { return s.IsOut(ctx, t, true) }}
}

// ofGuest returns the request of a caller for a token of a guest: an identity without a target. Its call lacks a name.
func (s *Server) ofGuest(c *Context, asked targets.SolveRequest) solve.Request {
	set := c.Access.Set
	lifetime, margin := set.Life(asked.Identity.Type)
	spec := &purchase.Spec{
		Target: purchase.GuestTarget, Owner: set.Solve.Owner, Identity: asked.Identity, ID: pool.Guest(asked.Identity.ID()),
		Guest: true, Image: asked.Image, Margin: margin, Horizon: margin, Lifetime: lifetime,
		Policy: string(set.ProvidersPolicy), Urgent: true,
		Budgets: refill.Budgets(set, pool.ScopeSolve, set.Solve.Budget, set.Solve.Owner),
	}
	for _, key := range set.Server.Keys { // the token may be for another caller than the one who asks
		spec.Priced = spec.Priced || key.Budget != (targets.Money{}) && slices.Contains(key.Scopes, targets.ScopeSolve)
	}
	call := pool.Call{
		ID: spec.ID, Margin: margin, MostTickets: solve.MostWaiting, Wait: asked.Timeout,
		Row: s.Row(c, ImageOf(&asked), true), Budget: c.Caller.limits(),
	}
	return solve.Request{Caller: c.callerName(), Call: &call, Guest: spec, Rate: pool.Rate(set.Solve.Rate)}
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
