package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
)

// The outcomes of a report.
const (
	outcomeAccepted = "accepted"
	outcomeRejected = "rejected"
)

// handleReport is POST /pool/{target}/token/{id}/report: the caller tells how
// the token did. Only who took it may, once. It is passed on to the provider.
func (s *Server) handleReport(w http.ResponseWriter, r *http.Request, c *call) error {
	outcome, err := readOutcome(r, c.w.ResponseWriter)
	if err != nil {
		return err
	}
	accepted := outcome == outcomeAccepted
	// Who hangs up now has said it: what is counted is also passed on.
	ctx := context.WithoutCancel(r.Context())
	sale, err := s.stock.Report(ctx, c.target.ID, c.param(r, 1), c.caller.stable, accepted)
	if err != nil {
		return err
	}
	s.buyer.Report(sale.Provider, sale.Task, c.target.Identity.Type, sale.Age, accepted)
	s.metrics.reported(c.target.Name, outcome, sale.Age)
	w.WriteHeader(http.StatusNoContent)
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
		err = fault(codeBadRequest, want)
	}
	return outcome, err
}
