package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"regexp"
	"slices"

	"poold/internal/captcha"
	"poold/internal/pool"
)

// Errors of reports.
var (
	// ErrUnknownToken means that the caller got no token with this id, or that the token expired more than 15 minutes ago.
	ErrUnknownToken = errors.New("httpapi: unknown token")
	// ErrReported means that another report on the token was counted earlier.
	ErrReported = errors.New("httpapi: token reported before")
)

// ReceiveReport is POST /pool/{target}/token/{id}/report: a caller reports whether its token was
// accepted. The provider also gets the report. A report may be repeated, but not changed.
func (s *Server) ReceiveReport(c *Context) error {
	return s.receiveReport(c, c.Param("id"), c.Target.ID, c.Target.Identity.Type)
}

// SolveID returns the id of a token from /solve. This id also contains the identity and the type of the CAPTCHA.
func SolveID(token string, of captcha.Identity) string {
	return token + "." + string(of.ID()) + "." + string(of.Type)
}

var solveID = regexp.MustCompile(`^([^.]+\.[^.]+)\.([\w.:-]+)\.([^.]*)$`)

// ReceiveSolveReport is POST /solve/{id}/report: a caller reports on a token that it got from POST /solve.
func (s *Server) ReceiveSolveReport(c *Context) error {
	parts := solveID.FindStringSubmatch(c.Param("id"))
	if parts == nil || !slices.Contains(captcha.SolvableTypes(), captcha.Type(parts[3])) {
		return ErrUnknownToken
	}
	id := captcha.ID(parts[2])
	if err := c.Admit(id); err != nil {
		return err
	}
	return s.receiveReport(c, parts[1], id, captcha.Type(parts[3]))
}

// receiveReport reads a report on a token and counts it. Only the caller that got the token knows its id.
func (s *Server) receiveReport(c *Context, token string, id captcha.ID, kind captcha.Type) error {
	accepted, err := readOutcome(c)
	if err != nil {
		return err
	}
	signer, err := s.IDs.Signer(c.Ctx())
	if err != nil {
		return err
	}
	order, valid := signer.Order(token, c.Caller.StableName)
	if !valid {
		return ErrUnknownToken
	}
	if err := s.countReport(c, order, id, kind, accepted); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// countReport counts a report on the token of an order and passes it on to the buyer.
func (s *Server) countReport(c *Context, order string, id captcha.ID, kind captcha.Type, accepted bool) error {
	// A counted report must also be passed on, even if the caller hangs up meanwhile.
	effect, sale, err := s.Pool.Report(context.WithoutCancel(c.Ctx()), order, id, accepted, c.Caller.StableName,
		rand.Text(), s.Row(c, "", false))
	switch {
	case err != nil:
		return err
	case effect == pool.ReportRepeated:
		return nil
	case effect == pool.ReportConflict:
		return ErrReported
	case effect != pool.ReportCounted:
		return ErrUnknownToken
	}
	s.Buyer.Report(sale.Provider, sale.Task, kind, sale.Age, accepted)
	s.Metrics.Reported(accepted, sale.Age)
	return nil
}

// readOutcome reads a body that must be {"outcome":"accepted"} or {"outcome":"rejected"}.
func readOutcome(c *Context) (accepted bool, err error) {
	const want = `the body must be {"outcome":"accepted"} or {"outcome":"rejected"}`
	var body struct{ Outcome string }
	err = c.ReadObject(want, &body)
	if err == nil && body.Outcome != "accepted" && body.Outcome != "rejected" {
		err = NewProblem(CodeBadRequest, want)
	}
	return body.Outcome == "accepted", err
}
