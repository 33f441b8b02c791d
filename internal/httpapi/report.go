package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// The outcomes of a report.
const (
	outcomeAccepted = "accepted"
	outcomeRejected = "rejected"
)

// ReportCounter counts how a token did; *pool.Tokens implements it.
type ReportCounter interface {
	// Sold fails with pool.ErrUnknownToken unless the caller took the token and may
	// still report on it, or did so.
	Sold(ctx context.Context, id captcha.ID, token, caller string) error
	Report(ctx context.Context, id captcha.ID, token, caller string, accepted bool) (pool.Sale, error)
}

// ReportSender passes a report on to the provider, later. It does not block.
type ReportSender interface {
	Report(provider, task string, t captcha.Type, age time.Duration, accepted bool)
}

// GuestList is the list of identities that no target has; *pool.Guests implements it.
type GuestList interface {
	Use(ctx context.Context, id captcha.ID, u pool.GuestUse) error
}

// reports is the route of the callers' reports on their tokens.
type reports struct {
	stock   ReportCounter
	guests  GuestList
	buyer   ReportSender
	audit   audit
	metrics Counts
	unknown failures[string] // reports about unknown tokens, by caller.stable
}

// receive is POST /pool/{target}/token/{id}/report: the caller tells how
// the token did. Only who took it may, once. It is passed on to the provider.
func (p *reports) receive(w http.ResponseWriter, r *http.Request, c *call) error {
	outcome, err := readOutcome(r, c.w.ResponseWriter)
	if err != nil {
		return err
	}
	token := c.param(r, 1)
	if err := p.report(r, c, solveID{token, c.target.ID, c.target.Identity.Type}, token, outcome); err != nil {
		return p.limitUnknown(c, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// receiveSolve is POST /solve/{id}/report, the same for a token of /solve.
func (p *reports) receiveSolve(w http.ResponseWriter, r *http.Request, c *call) error {
	outcome, err := readOutcome(r, c.w.ResponseWriter)
	if err != nil {
		return err
	}
	id, ok := readSolveID(c.param(r, 0))
	if !ok {
		return p.limitUnknown(c, pool.ErrUnknownToken)
	}
	if err := p.aboutSolve(r, c, id, id.String(), outcome); err != nil {
		return p.limitUnknown(c, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// limitUnknown counts an ErrUnknownToken against the caller. A caller with too many of
// them in a minute gets 429 instead. Reports about known tokens are not limited.
func (p *reports) limitUnknown(c *call, err error) error {
	if !errors.Is(err, pool.ErrUnknownToken) {
		return err
	}
	if wait := p.unknown.count(c.caller.stable, c.began); wait > 0 {
		return problem(codeRateLimited, "this key sent too many reports about unknown tokens").after(wait)
	}
	return err
}

// aboutSolve is report for a token of a target or a guest. A guest is noted only if the
// caller did take the token: an invented identity must not fill the list of guests.
func (p *reports) aboutSolve(r *http.Request, c *call, id solveID, said, outcome string) error {
	t := c.access.byID[id.id]
	if !c.caller.mayAsk(t) {
		return errLimitedKey()
	}
	if c.target = t; t == nil {
		if err := p.stock.Sold(r.Context(), id.id, id.token, c.caller.stable); err != nil {
			return err
		}
		// The guest may have left the list, and with it its figures.
		if err := p.guests.Use(r.Context(), id.id, pool.GuestUse{}); err != nil {
			return err
		}
	}
	return p.report(r, c, id, said, outcome)
}

// report counts what a caller says of a token, to which an answer gave the id said, and
// passes it on.
func (p *reports) report(r *http.Request, c *call, id solveID, said, outcome string) error {
	accepted := outcome == outcomeAccepted
	// What is counted is also passed on, even if the caller hangs up now.
	ctx := context.WithoutCancel(r.Context())
	sale, err := p.stock.Report(ctx, id.id, id.token, c.caller.stable, accepted)
	if err != nil {
		return err
	}
	p.buyer.Report(sale.Provider, sale.Task, id.kind, sale.Age, accepted)
	p.metrics.Reported(c.named(), outcome, sale.Age)
	p.audit.reported(c, said, outcome)
	return nil
}

// readOutcome reads {"outcome":"accepted"} or rejected, and nothing else.
func readOutcome(r *http.Request, w http.ResponseWriter) (outcome string, err error) {
	const want = `the body must be {"outcome":"accepted"} or {"outcome":"rejected"}`
	given, err := readObject(r, w, want, func(field string, value json.Token) (wrong string) {
		outcome, _ = value.(string)
		if field != "outcome" || outcome != outcomeAccepted && outcome != outcomeRejected {
			return want
		}
		return ""
	})
	if err == nil && !given["outcome"] {
		err = problem(codeBadRequest, want)
	}
	return outcome, err
}
