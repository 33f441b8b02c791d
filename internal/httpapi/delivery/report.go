package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
)

// ReportCounter counts reports on tokens; *pool.Tokens implements it.
type ReportCounter interface {
	// Sold fails with pool.ErrUnknownToken unless the caller took the token and may still report on
	// it.
	Sold(ctx context.Context, id captcha.ID, token, caller string) error
	Report(ctx context.Context, id captcha.ID, token, caller string, accepted bool) (pool.Sale, error)
}

// ReportSender passes a report on to the provider in the background. Report does not block.
type ReportSender interface {
	Report(provider, task string, t captcha.Type, age time.Duration, accepted bool)
}

// Outcomes learns from reports how good the providers are. Reported does not block.
type Outcomes interface {
	Reported(provider string, t captcha.Type, caller string, accepted bool)
}

// GuestList is the list of guests, which are identities without a target. *pool.Guests is a
// GuestList.
type GuestList interface {
	Use(ctx context.Context, id captcha.ID, u pool.GuestUse) error
}

// Reports contains the routes for the callers' reports on their tokens.
type Reports struct {
	Stock    ReportCounter
	Guests   GuestList
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
	if err := p.report(r, c, SolveID{token, c.Target.ID, c.Target.Identity.Type}, token, good); err != nil {
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
	id, ok := readSolveID(c.Param(r, 0))
	if !ok {
		return p.limitUnknown(c, pool.ErrUnknownToken)
	}
	if err := p.AboutSolve(r, c, id, id.String(), good); err != nil {
		return p.limitUnknown(c, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// limitUnknown limits a caller's reports about unknown tokens: after too many such reports in a
// minute the caller gets 429 instead of 404. Reports about known tokens are not limited.
func (p *Reports) limitUnknown(c *kernel.Call, err error) error {
	if !errors.Is(err, pool.ErrUnknownToken) {
		return err
	}
	if wait := p.unknown.Count(c.Caller.StableName, c.Began); wait > 0 {
		return kernel.NewProblem(kernel.CodeRateLimited, "this key sent too many reports about unknown tokens; reports about known tokens are still accepted").RetryAfter(wait)
	}
	return err
}

// AboutSolve counts a report on a token of a target or a guest. A guest is added to the list of
// guests only if the caller took the reported token from the guest's stock. Invented identities
// therefore cannot fill the list.
func (p *Reports) AboutSolve(r *http.Request, c *kernel.Call, id SolveID, answered string, good bool) error {
	t := c.Access.ByID[id.Identity]
	if !c.Caller.MayAsk(t) {
		return kernel.ErrLimitedKey()
	}
	if c.Target = t; t == nil {
		if err := p.Stock.Sold(r.Context(), id.Identity, id.Token, c.Caller.StableName); err != nil {
			return err
		}
		// The guest may have been removed from the list, with its figures. The method Use adds it again.
		if err := p.Guests.Use(r.Context(), id.Identity, pool.GuestUse{}); err != nil {
			return err
		}
	}
	return p.report(r, c, id, answered, good)
}

// report counts a report on a token and passes the report on to the buyer. The argument answered is
// the token's id in the form that the caller received.
func (p *Reports) report(r *http.Request, c *kernel.Call, id SolveID, answered string, good bool) error {
	// A counted report must also be passed on, even if the caller hangs up meanwhile.
	ctx := context.WithoutCancel(r.Context())
	sale, err := p.Stock.Report(ctx, id.Identity, id.Token, c.Caller.StableName, good)
	if err != nil {
		return err
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
