package delivery

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
)

// ReportCounter counts reports on tokens; *pool.Pool implements it.
type ReportCounter interface {
	Report(ctx context.Context, order string, hash captcha.ID, accepted bool, nonce string) (
		pool.Outcome, pool.Sale, error,
	)
}

// ReportSender passes a report on to the provider in the background. Report does not block.
type ReportSender interface {
	Report(provider, task string, t captcha.Type, age time.Duration, accepted bool)
}

// Outcomes learns from reports how good the providers are. Reported does not block.
type Outcomes interface {
	Reported(provider string, t captcha.Type, caller string, accepted bool)
}

// Errors of reports.
var (
	// ErrUnknownToken means that the caller got no such token, or that it died more than 15 min ago.
	ErrUnknownToken = errors.New("httpapi: unknown token")
	// ErrReported means that an earlier report on the token was counted.
	ErrReported = errors.New("httpapi: token reported before")
)

// Reports contains the routes for the callers' reports on their tokens.
type Reports struct {
	Pool     ReportCounter
	IDs      IDs
	Buyer    ReportSender
	Outcomes Outcomes
	Audit    Audit
	Metrics  Counts
	unknown  kernel.Failures[string] // reports about unknown tokens, by Caller.StableName
}

// Receive is POST /pool/{target}/token/{id}/report: a caller reports, once, whether its token was
// accepted. The provider also gets the report.
func (p *Reports) Receive(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	good, err := readOutcome(r, c.W.ResponseWriter)
	if err != nil {
		return err
	}
	token := c.Param(r, 1)
	order, err := p.orderOf(r.Context(), c, token)
	if err == nil {
		err = p.report(r, c, SolveID{order, c.Target.ID, c.Target.Identity.Type}, token, good)
	}
	if err != nil {
		return p.limitUnknown(c, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// ReceiveSolve is POST /solve/{id}/report: a caller reports on a token that it got from POST /solve.
func (p *Reports) ReceiveSolve(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	good, err := readOutcome(r, c.W.ResponseWriter)
	if err != nil {
		return err
	}
	answered := c.Param(r, 0)
	id, ok := readSolveID(answered)
	if !ok {
		return p.limitUnknown(c, ErrUnknownToken)
	}
	if err := admit(c, id.Identity); err != nil {
		return err
	}
	if id.Token, err = p.orderOf(r.Context(), c, id.Token); err == nil {
		err = p.report(r, c, id, answered, good)
	}
	if err != nil {
		return p.limitUnknown(c, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// limitUnknown limits a caller's reports about unknown tokens: after too many such reports in a
// minute the caller gets 429 instead of 404. Reports about known tokens are not limited.
func (p *Reports) limitUnknown(c *kernel.Call, err error) error {
	if !errors.Is(err, ErrUnknownToken) {
		return err
	}
	if wait := p.unknown.Count(c.Caller.StableName, c.Began); wait > 0 {
		return kernel.NewProblem(kernel.CodeRateLimited, "this key sent too many reports about unknown tokens; reports about known tokens are still accepted").RetryAfter(wait)
	}
	return err
}

// orderOf returns the order of a token's id. Only the caller that got the token knows the id.
func (p *Reports) orderOf(ctx context.Context, c *kernel.Call, token string) (string, error) {
	signer, err := p.IDs.Signer(ctx)
	if err != nil {
		return "", err
	}
	order, valid := signer.Order(token, c.Caller.StableName)
	if !valid {
		return "", ErrUnknownToken
	}
	return order, nil
}

// AboutTask counts a report on the token of a compatible task. The token of the id is an order.
func (p *Reports) AboutTask(r *http.Request, c *kernel.Call, of SolveID, good bool) error {
	if err := admit(c, of.Identity); err != nil {
		return err
	}
	signer, err := p.IDs.Signer(r.Context())
	if err != nil {
		return err
	}
	return p.report(r, c, of, IDOf(signer, c, of), good)
}

// admit finds the target of an identity, and fails if the caller may not ask for it.
func admit(c *kernel.Call, id captcha.ID) error {
	t := c.Access.ByID[id]
	if !c.Caller.MayAsk(t) {
		return kernel.ErrLimitedKey()
	}
	c.Target = t
	return nil
}

// report counts a report on a token and passes it on to the buyer. The token of the id is an order; answered is the id
// in the form that the caller received.
func (p *Reports) report(r *http.Request, c *kernel.Call, id SolveID, answered string, good bool) error {
	// A counted report must also be passed on, even if the caller hangs up meanwhile.
	outcome, sale, err := p.Pool.Report(context.WithoutCancel(r.Context()), id.Token, id.Identity, good, rand.Text())
	switch {
	case err != nil:
		return err
	case outcome == pool.ReportRepeated:
		return ErrReported
	case outcome != pool.ReportCounted:
		return ErrUnknownToken
	}
	p.Buyer.Report(sale.Provider, sale.Task, id.Type, sale.Age, good)
	p.Outcomes.Reported(sale.Provider, id.Type, c.Caller.StableName, good)
	p.Metrics.Reported(good, sale.Age)
	p.Audit.reported(c, answered, good)
	return nil
}

// readOutcome reads a body that must be {"outcome":"accepted"} or {"outcome":"rejected"}.
func readOutcome(r *http.Request, w http.ResponseWriter) (good bool, err error) {
	const want = `the body must be {"outcome":"accepted"} or {"outcome":"rejected"}`
	given, err := kernel.ReadObject(r, w, want, func(field string, value json.Token) (wrong string) {
		good = value == "accepted"
		if field != "outcome" || !good && value != "rejected" {
			return want
		}
		return ""
	})
	if err == nil && !given["outcome"] {
		err = kernel.NewProblem(kernel.CodeBadRequest, want)
	}
	return good, err
}
